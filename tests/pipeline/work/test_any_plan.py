"""Random shapes in plans of every kind: exact against the golden, and proved, on both socs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from emulator.engine import run_program
from emulator.soc import SOCS
from golden.geometry import C0, Conv, ConvGeometry, Geometry, GeometryError
from kernels import conv_plan, planner
from kernels.choice import RESIDENT, STREAMED, Streams
from kernels.plan import PlanError
from pipeline.faults.injection import inputs_with
from pipeline.ground.memory import limits_of
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from pipeline.work.proof import proof_of
from workloads.registry import workload_named

pytestmark = pytest.mark.usefixtures("torch_installed")

X, MID, BOTH = Streams(True, x=True), Streams(True, mid=True), Streams(True, x=True, mid=True)
WAYS = {"conv": [RESIDENT, STREAMED, X], "conv-pair": [RESIDENT, STREAMED, X, MID, BOTH]}
PROGRAMS = {"conv": ("conv",), "conv-pair": ("fused", "pass1", "pass2")}


def some_conv(random: Random) -> Conv:
    kernel = random.choice((1, 2, 3, 4, 5))
    return Conv(kernel, random.randint(1, 3), random.randint(0, kernel - 1))


def subjects(workload: str, ways: list[Streams], soc: str, random: Random) -> Iterator[Subject]:
    """Small geometries, each tiled in one of the ways, as if L1 had fewer bytes than it has."""
    while True:
        streams = random.choice(ways)
        try:
            sizes = random.randint(1, 14), random.randint(1, 14)
            channels = [C0 * random.randint(2, 3) for _ in range(3)]
            geometry: Any = (
                Geometry(*sizes, *channels, some_conv(random), some_conv(random))
                if workload == "conv-pair"
                else ConvGeometry(*sizes, *channels[:2], some_conv(random))
            )
            limits = replace(limits_of(soc), l1=random.choice((512, 60, 24)) << 10)
            rows = random.randint(1, geometry.out_height)
            tile: Any = planner.tile_bands if workload == "conv-pair" else conv_plan.tile_conv_bands
            tiled = tile(geometry, limits, rows, streams)
        except (GeometryError, PlanError):
            continue
        subject = Subject(workload_named(workload), geometry, soc)
        vars(subject)["plan"] = tiled
        yield subject


def check(subject: Subject, seed: int) -> None:
    """Run and prove the programs of a subject; pass2 reads what pass1 gave."""
    definition = subject.definition
    tensors = definition.make(f"full-range@{seed}", subject.geometry)
    expected = definition.compute(subject.geometry, tensors, "vreq8")
    given: dict[str, Any] = {}
    for name in PROGRAMS[subject.workload.name]:
        entry, program = subject.program(name), typed_program(subject, name)
        shape, dtype = subject.workload.output_of(name, subject.geometry, subject.plan)
        output = np.full(shape, -86, dtype)
        arrays = inputs_with(None, subject, name, tensors, "vreq8", given)
        run_program(program, SOCS[subject.soc], {**arrays, entry.output: output})
        np.testing.assert_array_equal(output, expected[entry.tensor], err_msg=f"{name} of {subject.plan}")
        assert proof_of(subject, name, program).wrong == 0, f"{name} of {subject.plan}"
        given[entry.tensor] = output


@pytest.mark.parametrize("soc", ["a2a3", "a5"])
@pytest.mark.parametrize("workload", WAYS)
def test_a_plan_of_each_kind_is_exact_and_proved(workload: str, soc: str) -> None:
    for number, streams in enumerate(WAYS[workload][2:]):
        check(next(subjects(workload, [streams], soc, Random(number))), number)


@pytest.mark.thorough
@pytest.mark.parametrize("soc", ["a2a3", "a5"])
@pytest.mark.parametrize("workload", WAYS)
def test_many_plans_are_exact_and_proved(workload: str, soc: str) -> None:
    found = subjects(workload, WAYS[workload], soc, Random(7))
    for seed in range(30):
        check(next(found), seed)
