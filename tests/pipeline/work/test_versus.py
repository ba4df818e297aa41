from __future__ import annotations

from pathlib import Path

import pytest

from golden.geometry import Conv, Geometry
from pipeline.ground.jobs import Job, JobContext, Lane, Platform, Result, State
from pipeline.ground.settings import Settings
from pipeline.work.versus import ODD, execute, odd_ones

PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
ONE, TWO = Platform("one", "emulator", "a2a3"), Platform("two", "emulator", "a5")
JOB = Job("compare/one+two/g/small", Lane.COMPARE, ONE, "g", PAIR, "pair", "small", 60.0, other=TWO)


def run(folder: Path, fault: str) -> Result:
    return execute(JOB, JobContext(folder / "job", None, folder / "cache", Settings(inject=fault)))


@pytest.mark.usefixtures("torch_installed")
def test_two_engines_that_are_right_agree(tmp_path: Path) -> None:
    result = run(tmp_path, "")
    assert result.state is State.PASSED
    assert ODD not in result.facts
    assert [stage.name for stage in result.stages] == [
        f"{program}-{which}"
        for program in ("fused", "pass1", "pass2")
        for which in ("on-one", "on-two", "one-vs-two")
    ]
    assert {stage.state for stage in result.stages} == {State.PASSED}
    assert result.stages[2].diffs[0].against == "fused-on-two"


@pytest.mark.usefixtures("torch_installed")
def test_the_engine_with_a_fault_stands_alone(tmp_path: Path) -> None:
    """A fault of conv1 is in fused and in pass1; pass2 starts from the golden's mid."""
    result = run(tmp_path, "bias-missing-1")
    assert result.state is State.MISMATCH
    assert result.facts[ODD] == "one in fused, pass1"
    assert result.message.startswith("odd one out: one in fused, pass1; first wrong stage: fused-on-one: y: ")
    assert result.causes == ("bias-missing-1",)
    wrong = {stage.name for stage in result.stages if stage.state is State.MISMATCH}
    assert wrong == {"fused-on-one", "fused-one-vs-two", "pass1-on-one", "pass1-one-vs-two"}
    for stage in ("fused-on-one", "fused-one-vs-two"):
        assert f"{stage}/diff.json" in result.files


@pytest.mark.parametrize(
    ("first", "second", "alike", "odd"),
    [
        (True, True, True, ""),
        (False, True, False, "one in fused"),
        (True, False, False, "two in fused"),
        (False, False, True, "the golden (not one and two, which agree) in fused"),
        (False, False, False, "none (all three differ) in fused"),
    ],
)
def test_who_stands_alone(first: bool, second: bool, alike: bool, odd: str) -> None:
    clean = {"fused-on-one": first, "fused-on-two": second, "fused-one-vs-two": alike}
    assert odd_ones(JOB, clean) == odd


def test_nobody_is_odd_where_one_gave_nothing() -> None:
    assert odd_ones(JOB, {"fused-on-one": False}) == ""
