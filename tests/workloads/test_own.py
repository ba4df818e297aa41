"""What the functions of a user's file raise: one line with file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden.geometry import GemmGeometry
from kernels.plan import PlanError
from workloads.base import Workload, WorkloadError
from workloads.registry import workload_named

BEFORE = """\
from dataclasses import replace
from kernels.plan import PlanError
from workloads import FaultModel, Profile, Role
from workloads.gemm import WORKLOAD as GEMM
def fails(*arguments):
    raise KeyError("y")
def untiled(*arguments):
    raise PlanError("too large")
D, (PROGRAM,) = GEMM.definition, GEMM.programs
"""
GEOMETRY = GemmGeometry(32, 32, 32)


def declared(folder: Path, definition: str = "", others: str = "") -> Workload:
    file = folder / "mine.py"
    file.write_text(
        f"{BEFORE}WORKLOAD = replace(GEMM, definition=replace(D, name='mine', {definition}), {others})\n"
    )
    return workload_named("mine", str(file))


def program(changes: str) -> str:
    return f"programs=(replace(PROGRAM, {changes}),)"


@pytest.mark.parametrize(
    ("definition", "others", "call", "what"),
    [
        ("compute=fails", "", lambda w: w.definition.computed(GEOMETRY, None, "vreq8"), "golden"),
        (
            "profiles={'small': Profile('x', fails)}",
            "",
            lambda w: w.definition.make("small", GEOMETRY),
            "profile small",
        ),
        (
            "specs=lambda g: D.specs(g) if g.m == 16 else fails()",
            "example=D.geometry(16, 32, 32)",
            lambda w: w.definition.specs(GEOMETRY),
            "specs",
        ),
        ("terms=fails", "", lambda w: w.definition.terms(GEOMETRY), "terms"),
        ("", "plan=fails", lambda w: w.plan(GEOMETRY, None, {}), "plan"),
        ("", "frame=fails", lambda w: w.frame_of("c", GEOMETRY, None), "frame"),
        ("", "faults=FaultModel(fails)", lambda w: w.faults.moved(None, None), "moved"),
        ("", program("form=fails"), lambda w: w.programs[0].form(GEOMETRY, None), "form of program 'gemm'"),
        ("", program("shape=fails"), lambda w: w.programs[0].shape(None), "shape of program 'gemm'"),
        (
            "",
            program("host={'a': fails}"),
            lambda w: w.programs[0].host["a"](GEOMETRY, None, {}),
            "host's a of program 'gemm'",
        ),
    ],
)
def test_what_a_function_raises_is_a_line_with_its_place(
    definition: str, others: str, call: Callable[[Any], Any], what: str, tmp_path: Path
) -> None:
    workload = declared(tmp_path, definition, others)
    with pytest.raises(WorkloadError) as caught:
        call(workload)
    assert str(caught.value) == f"{tmp_path}/mine.py:6: {what} of workload mine: KeyError: 'y'"


def test_what_a_plan_may_raise_is_raised_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="too large"):
        declared(tmp_path, "", "plan=untiled").plan(GEOMETRY, None, {})  # type: ignore[arg-type]


def test_a_role_that_there_is_not_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as caught:
        declared(tmp_path, "specs=lambda g: Role.WEIGHT")
    assert str(caught.value) == (
        f"{tmp_path}/mine.py:10: cannot be loaded: AttributeError: "
        "Role has no WEIGHT: it has IMAGE, MATRIX, FILTER, BIAS, TABLE, OUTPUT"
    )
