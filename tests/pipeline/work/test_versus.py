from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import INJECTED, JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.work.stages import execute
from pipeline.work.versus import ODD, odd_ones

ONE, TWO = Platform("one", "emulator", "a2a3"), Platform("two", "emulator", "a5")
Run = Callable[..., Result]


@pytest.fixture
def job_of(samples: Any) -> Callable[..., Job]:
    """A job of a workload on two platforms."""

    def make(workload: str = "conv-pair") -> Job:
        job: Job = samples[workload].job(Lane.COMPARE, platform=ONE, other=TWO)
        return job

    return make


@pytest.fixture
def run(job_of: Callable[..., Job], tmp_path: Path, goldens: Path) -> Run:
    """Does such a job, with a fault."""

    def do(fault: str, workload: str = "conv-pair") -> Result:
        return execute(job_of(workload), JobContext(tmp_path, None, goldens, Settings(inject=fault)))

    return do


@pytest.mark.usefixtures("torch_installed")
def test_two_engines_that_are_right_agree(run: Run) -> None:
    result = run("")
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
@pytest.mark.parametrize("other_first", [False, True])
def test_each_stage_says_where_it_ran(
    other_first: bool, job_of: Callable[..., Job], tmp_path: Path, goldens: Path
) -> None:
    job = replace(job_of("gemm"), other_first=other_first)
    result = execute(job, JobContext(tmp_path, None, goldens))
    pair = (TWO, ONE) if other_first else (ONE, TWO)
    assert [stage.platforms for stage in result.stages] == [(pair[0],), (pair[1],), pair]


@pytest.mark.usefixtures("torch_installed")
def test_the_engine_with_a_fault_stands_alone(run: Run) -> None:
    """A fault of conv1 is in fused and in pass1; pass2 starts from the golden's mid."""
    result = run("bias-missing-1")
    assert result.state is State.MISMATCH
    assert result.facts[ODD] == "one in fused, pass1"
    assert result.message.startswith("odd one out: one in fused, pass1; first wrong stage: fused-on-one: y: ")
    assert result.causes == ("bias-missing-1",)
    wrong = {stage.name for stage in result.stages if stage.state is State.MISMATCH}
    assert wrong == {"fused-on-one", "fused-one-vs-two", "pass1-on-one", "pass1-one-vs-two"}
    for stage in ("fused-on-one", "fused-one-vs-two"):
        assert f"{stage}/diff.json" in result.files


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(("workload", "tensor"), [("conv", "y"), ("gemm", "c")])
def test_engines_are_compared_on_every_workload(workload: str, tensor: str, run: Run) -> None:
    result = run("", workload)
    assert result.state is State.PASSED
    assert [(stage.name, stage.state) for stage in result.stages] == [
        (f"{workload}-{which}", State.PASSED) for which in ("on-one", "on-two", "one-vs-two")
    ]
    assert {stage.diffs[0].tensor for stage in result.stages} == {tensor}


@pytest.mark.usefixtures("torch_installed")
def test_a_single_convolution_with_a_fault_stands_alone(run: Run) -> None:
    result = run("offset-sign-1", "conv")
    assert result.facts[ODD] == "one in conv"
    assert result.causes == ("offset-sign-1",)
    assert result.facts[INJECTED] == "offset-sign-1"


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(
    ("workload", "fault", "reason"),
    [
        ("gemm", "unwritten", "workload gemm has no fault model"),
        ("conv", "bias-missing-2", "this program has no second convolution"),
    ],
)
def test_without_the_fault_that_was_asked_for_nothing_is_compared(
    workload: str, fault: str, reason: str, run: Run
) -> None:
    result = run(fault, workload)
    assert (result.state, result.stages) == (State.SKIPPED, ())
    assert result.message == f"fault {fault} was not injected: {reason}"
    assert INJECTED not in result.facts


@pytest.mark.usefixtures("torch_installed")
def test_two_engines_without_a_common_program_are_not_compared(
    job_of: Callable[..., Job], tmp_path: Path, goldens: Path
) -> None:
    """CANN has no version of a tile program if its workload declares none."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\nfrom workloads.gemm import WORKLOAD as GEMM\n"
        "definition = replace(GEMM.definition, name='mine')\n"
        "WORKLOAD = replace(GEMM, definition=definition, tensor_level=None)\n"
    )
    mine, cann = WorkloadName("mine", str(file)), Platform("cann-a2a3", "cann", "a2a3")
    result = execute(
        replace(job_of("gemm"), workload=mine, other=cann), JobContext(tmp_path / "job", None, goldens)
    )
    assert (result.state, result.stages) == (State.SKIPPED, ())
    assert result.message == "no program of workload mine runs on both one and cann-a2a3"


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
def test_who_stands_alone(
    first: bool, second: bool, alike: bool, odd: str, job_of: Callable[..., Job]
) -> None:
    clean = {"fused-on-one": first, "fused-on-two": second, "fused-one-vs-two": alike}
    assert odd_ones(job_of(), clean) == odd


def test_nobody_is_odd_where_one_gave_nothing(job_of: Callable[..., Job]) -> None:
    assert odd_ones(job_of(), {"fused-on-one": False}) == ""


def test_a_broken_file_of_a_user_is_a_compile_error_in_a_line(
    job_of: Callable[..., Job], tmp_path: Path
) -> None:
    gone = tmp_path / "gone.py"
    job = replace(job_of("gemm"), workload=WorkloadName("mine", str(gone)))
    result = execute(job, JobContext(tmp_path, None, tmp_path))
    assert (result.state, result.message) == (
        State.COMPILE_ERROR,
        f"{gone}: there is no such file: name a Python file",
    )
