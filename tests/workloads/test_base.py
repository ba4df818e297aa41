"""Declarations: what they answer, and what is refused in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emulator.language
from golden.geometry import Conv, Geometry
from kernels.plan import Limits
from kernels.planner import tile_bands
from workloads.base import Kernel, TileProgram, Workload, WorkloadError
from workloads.conv_pair import WORKLOAD as PAIR

Declared = Callable[..., Workload]


def program(
    name: str = "p", inputs: Sequence[str] = ("a", "b"), tensor: str = "c", **others: Any
) -> TileProgram:
    return TileProgram(name, "no.module:build", tuple(inputs), "c", tensor, **others)


def made_by_host(*unused: Any) -> np.ndarray:
    return np.zeros((1, 1), np.int8)


@pytest.mark.parametrize(
    ("programs", "kernels", "message"),
    [
        (
            [program("p"), program("q"), program("p")],
            [("k", ("p",))],
            "two programs are called 'p'",
        ),
        (
            [program("p"), program("q")],
            [("k", ("p",)), ("k", ("q",))],
            "two kernels are called 'k'",
        ),
        (
            [program("p"), program("q")],
            [("k", ("p", "r"))],
            "kernel 'k' runs program 'r', which is not declared: declared are p, q",
        ),
        ([program("p")], [("k", ())], "kernel 'k' runs no program"),
        ([program("p")], [("k", ("p", "p"))], "kernel 'k' runs program 'p' twice"),
        (
            [program("p", ("a", "bias"))],
            [("k", ("p",))],
            "program 'p' reads 'bias', which is neither made by `host` nor one of a, b, c",
        ),
        (
            [program("p", tensor="y")],
            [("k", ("p",))],
            "program 'p' gives 'y', which is no output: outputs are c",
        ),
        (
            [program("p", tensor="a")],
            [("k", ("p",))],
            "program 'p' gives 'a', which is no output: outputs are c",
        ),
    ],
)
def test_names_that_stand_for_nothing_are_refused_in_a_line(
    programs: Sequence[TileProgram],
    kernels: Sequence[tuple[str, tuple[str, ...]]],
    message: str,
    declared: Declared,
) -> None:
    with pytest.raises(WorkloadError) as caught:
        declared(programs, [Kernel(*kernel) for kernel in kernels])
    assert str(caught.value) == f"workload gemm: {message}"
    assert caught.value.exit_code == 4


def test_a_program_reads_inputs_outputs_of_the_workload_and_what_the_host_makes(declared: Declared) -> None:
    programs = [
        program("p", ("a_packed", "b"), host={"a_packed": made_by_host}),
        program("q", ("a", "c")),
    ]
    workload = declared(programs, [Kernel("both", ("p", "q")), Kernel("other", ("q",))])
    assert workload.kernel_names == ("both", "other")
    assert workload.programs_of("both") == ("p", "q")
    assert workload.program("q") is programs[1]
    assert workload.handed_over == ("c",)
    assert declared([program("p"), program("never run")]).handed_over == ()


def test_an_output_is_the_tensors_or_as_large_as_the_program_says(limits: Limits) -> None:
    geometry = Geometry(24, 16, 64, 32, 96, Conv(3, 2, 1), Conv(3, 1, 1))
    plan = tile_bands(geometry, limits, 4)
    int8 = np.dtype(np.int8)
    assert PAIR.output_of("fused", geometry, plan) == ((96, 96), int8)
    assert PAIR.output_of("pass1", geometry, plan) == ((96, 32), int8)
    assert PAIR.output_of("first-tile-load", geometry, plan) == ((plan.conv1.positions, 32), int8)
    assert PAIR.handed_over == ("mid",)


def test_a_factory_is_imported_when_its_program_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_in_test_base.py").write_text("def build(pl, plan):\n    return [pl.__name__, plan]\n")
    late = TileProgram("p", "mine_in_test_base:build", ("a",), "c", "c")
    assert late.build(emulator.language, "the plan") == ["emulator.language", "the plan"]


def test_a_broken_factory_breaks_nothing_before_it_is_built(declared: Declared) -> None:
    workload = declared([program("p")])
    with pytest.raises(ModuleNotFoundError, match="no"):
        workload.program("p").build(emulator.language, None)


def test_a_factory_may_be_a_function() -> None:
    direct = TileProgram("p", lambda pl, plan: (pl, plan), ("a",), "c", "c")
    assert direct.build("pl", 7) == ("pl", 7)
