"""Every fault in every program of every workload with a fault model: committed, or not for a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import emulator.language
from benchmarks.mutants.catalogue.cases import conv_tiling, pair_tiling
from golden.geometry import Conv, ConvGeometry, Geometry
from golden.specs import Array as AnyArray
from golden.specs import Tensors
from pipeline.engines.base import CompileError
from pipeline.faults.injection import inputs_with, program_with, why_not
from pipeline.ground.memory import limits_of
from pipeline.ground.subject import Subject
from workloads.faults import FAULTS, Fault, can_show, no_place
from workloads.registry import SHIPPED, workload_named
from workloads.stages import ProgramRun
from workloads.tiling import BAND_ROWS

pytestmark = pytest.mark.usefixtures("torch_installed")

Array = npt.NDArray[Any]
Run = Callable[..., Array]

GEOMETRIES: Mapping[str, Mapping[str, tuple[Any, Mapping[str, int]] | tuple[Any, Mapping[str, int], int]]] = {
    "conv-pair": {
        "interior bands": (Geometry(32, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)), pair_tiling(4)),
        "one band, one plane": (
            Geometry(24, 16, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1)),
            pair_tiling(12, (16, 32)),
        ),
        "ragged bands": (
            Geometry(11, 7, 64, 64, 64, Conv(3, 1, 1), Conv(3, 1, 1)),
            pair_tiling(4, (48, 64), (32, 32)),
        ),
        # As if L1 had so many bytes: filters come in by blocks of 32 channels.
        "streamed": (Geometry(7, 7, 64, 64, 64, Conv(3, 1, 1), Conv(3, 1, 1)), {BAND_ROWS: 3}, 48_000),
        # L1 does not hold the maps of a band either.
        "x by planes": (Geometry(10, 8, 96, 64, 64, Conv(3, 1, 1), Conv(3, 1, 1)), {BAND_ROWS: 3}, 14_000),
        "x and mid by planes": (
            Geometry(9, 7, 64, 64, 64, Conv(3, 1, 1), Conv(3, 1, 1)),
            {BAND_ROWS: 3},
            12_000,
        ),
    },
    "conv": {
        "interior bands": (ConvGeometry(16, 16, 64, 96, Conv(5, 1, 2)), conv_tiling(4)),
        # By slices of K too.
        "sliced": (ConvGeometry(7, 7, 64, 64, Conv(3, 1, 1)), {BAND_ROWS: 3}, 16_000),
        "by planes": (ConvGeometry(10, 7, 64, 64, Conv(3, 1, 1)), {BAND_ROWS: 3}, 12_000),
        "two bands, stride 2": (ConvGeometry(16, 32, 32, 32, Conv(3, 2, 1)), conv_tiling(4, (16, 32))),
    },
}
PROFILES = ("full-range@7", "ties", "near-ties")
"""Between them they show every fault that can show."""

FAULTLESS = {"gemm"}
"""The specified workloads without a fault model; others may be shipped beside them."""

PROGRAMS = [
    pytest.param(
        workload, geometry, program.name, marks=[pytest.mark.thorough] if "by planes" in geometry else []
    )
    for workload, geometries in GEOMETRIES.items()
    for geometry in geometries
    for program in workload_named(workload).programs
]

ALIKE = "a single band: the same as "
"""How a reason begins where the fault is that of all bands by another name, and would show."""


@cache
def subject_of(workload: str, geometry: str) -> Subject:
    shapes, options, *l1 = GEOMETRIES[workload][geometry]
    subject = Subject(workload_named(workload), shapes, "a2a3", options)
    if l1:
        limits = replace(limits_of("a2a3"), l1=l1[0])
        vars(subject)["plan"] = subject.workload.plan(shapes, limits, subject.plan_options)
        assert subject.plan.streamed
        assert (" by planes" in str(subject.plan)) == ("planes" in geometry)
    return subject


@cache
def tensors_of(workload: str, geometry: str, profile: str) -> Tensors:
    subject = subject_of(workload, geometry)
    return subject.definition.make(profile, subject.geometry)


def handed_over(subject: Subject, program: str, tensors: Tensors) -> dict[str, AnyArray]:
    """The golden's outputs that a program reads."""
    outputs = subject.definition.compute(subject.geometry, tensors, "vreq8")
    return {name: outputs[name] for name in subject.program(program).inputs if name in outputs}


def run_of(subject: Subject, program: str) -> ProgramRun:
    """The program as its kernel runs it: what it reads of the workload's outputs, another stage gives."""
    for kernel in subject.workload.kernel_names:
        for stage in subject.workload.runs_of(kernel):
            if stage.program == program:
                return stage
    raise AssertionError(program)


def unchanged(fault: Fault, subject: Subject, program: str, tensors: Tensors) -> bool:
    """Whether program and inputs are the same with the fault as without it."""
    given = handed_over(subject, program, tensors)
    right = subject.program(program).build(emulator.language, subject.plan)
    inputs, faulty = (inputs_with(each, subject, program, tensors, "vreq8", given) for each in (None, fault))
    return program_with(fault, subject, program, "vreq8") == right and all(
        np.array_equal(inputs[name], faulty[name]) for name in inputs
    )


def differs(run: Run, subject: Subject, program: str, tensors: Tensors, fault: Fault) -> bool:
    """Whether the output is wrong, or the emulator refuses the program."""
    given = handed_over(subject, program, tensors)
    try:
        return not np.array_equal(
            run(subject, program, tensors, fault, given), right_output(run, subject, program, tensors)
        )
    except CompileError:
        return True


RIGHT: dict[tuple[Subject, str, Tensors], Array] = {}


def right_output(run: Run, subject: Subject, program: str, tensors: Tensors) -> Array:
    key = subject, program, tensors
    if key not in RIGHT:
        RIGHT[key] = run(subject, program, tensors, None, handed_over(subject, program, tensors))
    return RIGHT[key]


def problem(fault: Fault, subject: Subject, program: str, every: Sequence[Tensors], run: Run) -> str:
    """What is wrong with how a fault is committed in a program; empty where nothing is."""
    form = subject.form(program)
    assert form is not None
    stage = run_of(subject, program)
    reasons = [why_not(fault, subject, stage, tensors, "vreq8") for tensors in every]
    known = no_place(fault, form) or can_show(fault, form)
    if known:
        if set(reasons) != {known}:
            return f"{known}, but why_not says {reasons}"
        if no_place(fault, form):
            return (
                "" if unchanged(fault, subject, program, every[0]) else "has no place and changes something"
            )
        if known.startswith(ALIKE) or not differs(run, subject, program, every[0], fault):
            return ""
        return f"shows, though {known}"
    for tensors, reason in zip(every, reasons, strict=True):
        if not reason and differs(run, subject, program, tensors, fault):
            return ""
        if reason and not unchanged(fault, subject, program, tensors):
            return f"changes something, though {reason}"
    return f"can show and does not: {reasons}"


def test_every_workload_with_a_fault_model_is_tried() -> None:
    without = {name for name in SHIPPED if workload_named(name).faults is None}
    assert without >= FAULTLESS
    assert set(SHIPPED) - without == set(GEOMETRIES)


@pytest.mark.parametrize(("workload", "geometry", "program"), PROGRAMS)
def test_a_fault_is_committed_and_shows_or_there_is_a_reason(
    workload: str, geometry: str, program: str, run: Run
) -> None:
    subject = subject_of(workload, geometry)
    every = [tensors_of(workload, geometry, profile) for profile in PROFILES]
    problems = {name: problem(fault, subject, program, every, run) for name, fault in FAULTS.items()}
    assert {name: found for name, found in problems.items() if found} == {}
