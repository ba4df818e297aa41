"""Whether `main` takes what the declaration says: names, order, mark, shapes and dtypes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import gemm
from golden.geometry import Conv, ConvGeometry, GemmGeometry
from pipeline.engines.base import CompileError, Request
from pipeline.engines.emulator import EmulatorEngine
from pipeline.engines.pypto.engine import PyptoEngine
from pipeline.ground.jobs import Platform, WorkloadName
from pipeline.ground.programs import check_main, typed_program
from pipeline.ground.subject import Subject
from workloads.base import Workload, WorkloadError
from workloads.registry import SHIPPED, workload_named

GEMM = workload_named("gemm")
GEOMETRY = GemmGeometry(32, 64, 32)


def subject_with(specs: Any = None, **changes: Any) -> Subject:
    """A matrix product whose one program is declared otherwise."""
    definition = replace(GEMM.definition, name="mine")
    if specs is not None:
        definition = replace(
            definition,
            specs=lambda geometry: tuple(
                replace(spec, **specs.get(spec.name, {})) for spec in gemm.specs(geometry)
            ),
        )
    programs = (replace(GEMM.programs[0], **changes),)
    workload: Workload = replace(GEMM, definition=definition, programs=programs)
    return Subject(workload, GEOMETRY, "a2a3")


def made(geometry: Any, plan: Any, arrays: Any) -> Any:
    raise AssertionError("never called")


@pytest.mark.parametrize(
    ("subject", "inputs", "message"),
    [
        (
            subject_with(inputs=("b", "a")),
            None,
            "main takes (a, b, c), the declaration says (b, a, c)",
        ),
        (
            subject_with(inputs=("lhs", "b"), host={"lhs": made}),
            None,
            "main takes (a, b, c), the declaration says (lhs, b, c)",
        ),
        (subject_with(output="y"), None, "main takes (a, b, c), the declaration says (a, b, y)"),
        (subject_with(inputs=("a",)), None, "main takes (a, b, c), the declaration says (a, c)"),
        (
            subject_with({"a": {"shape": (64, 32)}}),
            None,
            "main takes a as int8 [32, 64], the declaration says int8 [64, 32]",
        ),
        (
            subject_with({"c": {"dtype": np.dtype(np.int8)}}),
            None,
            "main takes c as int32 [32, 32], the declaration says int8 [32, 32]",
        ),
        (
            subject_with(shape=lambda plan: (16, 32)),
            None,
            "main takes c as int32 [32, 32], the declaration says int32 [16, 32]",
        ),
        (
            subject_with(host={"a": made}),
            {"a": np.zeros((64, 32), np.int8)},
            "main takes a as int8 [32, 64], the declaration says int8 [64, 32]",
        ),
    ],
)
def test_what_main_takes_otherwise_is_refused_on_every_engine_before_it_runs(
    subject: Subject, inputs: Any, message: str, tmp_path: Path
) -> None:
    line = f"program 'gemm' of workload mine: {message}"
    with pytest.raises(WorkloadError) as caught:
        check_main(typed_program(subject, "gemm"), subject, "gemm", inputs)
    assert str(caught.value) == line
    if inputs is None:
        for engine in (EmulatorEngine(), PyptoEngine({})):
            request = Request("gemm", WorkloadName("mine"), subject, Platform("p", "p", "a2a3"), tmp_path)
            with pytest.raises(CompileError) as error:
                engine.check(subject, "gemm")
            assert str(error.value) == line
            with pytest.raises(CompileError) as error:
                engine.compile(request)
            assert str(error.value) == line


def test_shapes_that_the_host_packs_are_told_with_those_that_it_packs() -> None:
    conv = workload_named("conv")
    own, packed = (Subject(conv, ConvGeometry(4, 4, 32, cout, Conv(1, 1, 0)), "a2a3") for cout in (32, 40))
    with pytest.raises(WorkloadError) as caught:
        check_main(typed_program(own, "conv"), packed, "conv")
    said = "main takes filter as int8 [32, 32], the declaration says int8 [32, 64] (packed: cout 40 -> 64)"
    assert str(caught.value) == f"program 'conv' of workload conv: {said}"


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_shipped_is_taken(name: str) -> None:
    workload = workload_named(name)
    for program in workload.programs:
        for engine in (EmulatorEngine(), PyptoEngine({})):
            engine.check(Subject(workload, workload.example, "a2a3"), program.name)


def test_what_the_emulator_cannot_read_is_left_to_pypto() -> None:
    def factory(pl: Any, plan: Any) -> Any:
        raise KeyError("y")

    PyptoEngine({}).check(subject_with(factory=factory), "gemm")


def test_a_program_is_read_once_for_each_subject_and_anew_for_another_plan() -> None:
    plans = []

    def factory(pl: Any, plan: Any) -> Any:
        plans.append(plan)
        return GEMM.programs[0].build(pl, plan)

    subject, twin = subject_with(factory=factory), subject_with(factory=factory)
    other = replace(subject.plan, step=32)
    first = typed_program(subject, "gemm")
    assert typed_program(subject, "gemm") is typed_program(subject, "gemm", subject.plan) is first
    assert typed_program(subject, "gemm", other) is not first
    assert typed_program(twin, "gemm") is not first
    assert plans == [subject.plan, other, twin.plan]
