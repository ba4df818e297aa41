"""The stages of a comparison, made from the kernels of a declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from workloads.base import Kernel, TileProgram, Workload
from workloads.conv import WORKLOAD as CONV
from workloads.conv_pair import WORKLOAD as SHIPPED_PAIR
from workloads.gemm import WORKLOAD as GEMM
from workloads.registry import SHIPPED, workload_named
from workloads.stages import OutputsCompared, ProgramRun, Stage, Takes, comparison, own_runs

SPECIFIED = ("fused", "first-tile-load", "first-tile-packed", "first-tile-fused-alloc", "two-pass")
_KERNELS = tuple(one for one in SHIPPED_PAIR.kernels if one.name in SPECIFIED)
_NAMES = {program for kernel in _KERNELS for program in kernel.programs}
PAIR = replace(
    SHIPPED_PAIR,
    kernels=_KERNELS,
    programs=tuple(one for one in SHIPPED_PAIR.programs if one.name in _NAMES),
)
"""The pair with the kernels of the specification and their programs alone, whatever else is shipped."""


def told(stages: tuple[Stage, ...]) -> list[str]:
    """Each stage in a line: what runs on which earlier outputs, or what is held against what."""
    return [
        f"{stage.name}: {stage.tensor} of {stage.one} and of {stage.other}"
        if isinstance(stage, OutputsCompared)
        else f"{stage.name}: {stage.program}"
        + "".join(f" on {name} of {run.name}" for name, run in stage.given.items())
        for stage in stages
    ]


def with_kernel(workload: Workload, kernel: Kernel, *programs: TileProgram) -> Workload:
    return replace(workload, programs=(*workload.programs, *programs), kernels=(*workload.kernels, kernel))


OF_THE_PAIR = [
    "fused: fused",
    "first-tile-load: first-tile-load",
    "first-tile-packed: first-tile-packed",
    "first-tile-fused-alloc: first-tile-fused-alloc",
    "pass1: pass1",
    "pass2-on-golden-mid: pass2",
    "pass2-on-own-mid: pass2 on mid of pass1",
    "two-pass-vs-fused: y of pass2-on-own-mid and of fused",
]


def test_the_pairs_eight_stages_are_those_of_the_specification() -> None:
    assert told(PAIR.comparison) == OF_THE_PAIR


def test_the_tile_stages_end_with_the_last_first_tile() -> None:
    assert told(PAIR.tile_stages) == OF_THE_PAIR[:4]


@pytest.mark.parametrize("workload", [CONV, GEMM], ids=["conv", "gemm"])
def test_a_workload_of_one_program_has_one_stage_and_no_tile_stages(workload: Workload) -> None:
    assert told(workload.comparison) == [f"{workload.name}: {workload.name}"]
    assert workload.tile_stages == ()


def test_a_kernels_own_stages_are_its_programs() -> None:
    assert told(tuple(PAIR.runs_of("fused"))) == ["fused: fused"]
    assert told(tuple(PAIR.runs_of("two-pass", "verify-"))) == [
        "verify-pass1: pass1",
        "verify-pass2: pass2 on mid of verify-pass1",
    ]


def test_a_new_kernel_is_compared_at_once_with_the_first_that_gives_its_output() -> None:
    again = replace(PAIR.program("fused"), name="fused-reversed")
    workload = with_kernel(PAIR, Kernel("fused-reversed", ("fused-reversed",)), again)
    assert told(workload.comparison) == [
        *OF_THE_PAIR,
        "fused-reversed: fused-reversed",
        "fused-reversed-vs-fused: y of fused-reversed and of fused",
    ]
    assert workload.tile_stages == PAIR.tile_stages


def test_a_new_first_tile_is_held_against_no_other_and_is_a_tile_stage() -> None:
    again = replace(PAIR.program("first-tile-load"), name="first-tile-new")
    workload = with_kernel(PAIR, Kernel("first-tile-new", ("first-tile-new",)), again)
    assert told(workload.comparison) == [*OF_THE_PAIR, "first-tile-new: first-tile-new"]
    assert told(workload.tile_stages)[-1] == "first-tile-new: first-tile-new"


def test_kernels_that_share_a_program_share_its_stage() -> None:
    """Another first pass before the same second: that one on the golden's mid is a stage already."""
    other = replace(PAIR.program("pass1"), name="pass1-new")
    workload = with_kernel(PAIR, Kernel("two-pass-new", ("pass1-new", "pass2")), other)
    assert told(workload.comparison) == [
        *OF_THE_PAIR,
        "pass1-new: pass1-new",
        "pass2-on-own-mid-of-two-pass-new: pass2 on mid of pass1-new",
        "two-pass-new-vs-fused: y of pass2-on-own-mid-of-two-pass-new and of fused",
    ]


def test_a_kernel_of_programs_that_others_run_as_well_adds_no_stage() -> None:
    workload = with_kernel(PAIR, Kernel("two-pass-again", ("pass1", "pass2")))
    assert told(workload.comparison) == [
        *OF_THE_PAIR,
        "two-pass-again-vs-fused: y of pass2-on-own-mid and of fused",
    ]
    alone = with_kernel(CONV, Kernel("conv-again", ("conv",)))
    assert told(alone.comparison) == ["conv: conv"], "an output is not held against itself"


def test_each_of_three_programs_reads_what_the_stage_before_it_gave() -> None:
    three = [
        Takes("one", ("x",), "mid", whole=True),
        Takes("two", ("mid",), "low", whole=True),
        Takes("three", ("low", "mid"), "y", whole=True),
    ]
    stages = comparison({"all": three})
    assert told(stages) == [
        "one: one",
        "two-on-golden-mid: two",
        "two-on-own-mid: two on mid of one",
        "three-on-golden-low: three",
        "three-on-own-low: three on low of two-on-own-mid on mid of one",
    ]
    runs = {stage.name: stage for stage in stages if isinstance(stage, ProgramRun)}
    for run in runs.values():
        for earlier in run.given.values():
            assert runs[earlier.name] == earlier, "what is handed over is the output of a stage"


def test_a_first_tile_is_handed_to_nobody() -> None:
    programs = [Takes("tile", ("x",), "mid", whole=False), Takes("second", ("mid",), "y", whole=True)]
    assert told(tuple(own_runs(programs))) == ["tile: tile", "second: second"]
    assert told(comparison({"k": programs})) == ["tile: tile", "second: second"]


def test_programs_of_one_kernel_that_give_one_output_all_run() -> None:
    programs = [
        Takes("upper", ("x",), "y", whole=True),
        Takes("lower", ("x", "y"), "y", whole=True),
        Takes("check", ("y",), "z", whole=True),
    ]
    assert told(tuple(own_runs(programs))) == [
        "upper: upper",
        "lower: lower on y of upper",
        "check: check on y of lower",
    ]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_kernel_takes_part_and_no_stage_shares_a_name(name: str) -> None:
    workload = workload_named(name)
    stages = workload.comparison
    names = [stage.name for stage in stages]
    assert len(set(names)) == len(names)
    ran = {stage.program for stage in stages if isinstance(stage, ProgramRun)}
    assert ran == {program.name for program in workload.programs}


def test_stages_need_no_kernel_that_can_be_imported(declared: Callable[..., Workload]) -> None:
    assert told(declared().comparison) == ["p: p"]
