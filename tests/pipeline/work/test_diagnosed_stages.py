from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.ground.jobs import Lane, State
from pipeline.ground.results import DIAGNOSIS, WRONG_STEP, JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.matrix.expand import COMPARED
from pipeline.work import causes, stages

pytestmark = pytest.mark.usefixtures("torch_installed", "undrawn")

Run = Callable[..., Result]


@pytest.fixture
def run(samples: Any, tmp_path: Path, goldens: Path) -> Run:
    """Does a job of the compare lane, or of another, with a fault."""

    def do(
        fault: str, lane: Lane = Lane.COMPARE, kernel: str = COMPARED, workload: str = "conv-pair"
    ) -> Result:
        job = samples[workload].job(lane, kernel, "full-range@7")
        context = JobContext(tmp_path / (fault or "none"), None, goldens, Settings(inject=fault))
        return stages.execute(job, context)

    return do


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        ("offset-sign-1", "requant1"),
        ("k-step-twice-2", "conv2"),
        ("planes-swapped-1", "layout"),
        ("map-corrupted", "address"),
        ("planes-swapped-2", "hand-over"),
        ("unwritten", "store"),
    ],
)
def test_a_fault_is_named_with_its_step_in_every_stage_that_it_spoils(
    fault: str, step: str, run: Run
) -> None:
    result = run(fault)
    assert result.state is State.MISMATCH
    assert result.facts[DIAGNOSIS].startswith(f"{fault}: ")
    assert result.facts[WRONG_STEP] == f"{step} (as the diagnosis says)"
    wrong = [stage for stage in result.stages if stage.state is State.MISMATCH]
    for stage in wrong:
        if stage.name == "two-pass-vs-fused":
            assert DIAGNOSIS not in stage.facts
        else:
            assert fault in stage.facts[DIAGNOSIS]
            assert f"{fault}" in stage.details
            assert "explains" in stage.details


def test_the_two_passes_of_a_device_job_are_diagnosed_together(run: Run) -> None:
    result = run("bias-missing-1", Lane.DEVICE, "two-pass")
    assert [stage.facts[DIAGNOSIS].partition(":")[0] for stage in result.stages] == ["bias-missing-1"] * 2
    assert result.facts[WRONG_STEP] == "conv1 (as the diagnosis says)"


@pytest.mark.parametrize("workload", ["conv-pair", "conv", "gemm"])
def test_a_clean_job_has_no_diagnosis(workload: str, run: Run) -> None:
    result = run("", workload=workload)
    assert result.state is State.PASSED
    assert not {DIAGNOSIS, WRONG_STEP} & set(result.facts)
    assert not any(DIAGNOSIS in stage.facts for stage in result.stages)


@pytest.mark.parametrize(
    ("fault", "step"),
    [("bias-missing-1", "conv"), ("planes-swapped-1", "layout"), ("offset-sign-1", "requant")],
)
def test_a_fault_of_a_single_convolution_is_named_with_its_step(fault: str, step: str, run: Run) -> None:
    result = run(fault, workload="conv")
    assert result.state is State.MISMATCH
    assert result.facts[DIAGNOSIS].startswith(f"{fault}: ")
    assert result.facts[WRONG_STEP] == f"{step} (as the diagnosis says)"


def test_a_diagnosis_that_fails_leaves_the_mismatch(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(evidence: object, **more: object) -> None:
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr(causes, "diagnose", fail)
    result = run("planes-swapped-1")
    assert result.state is State.MISMATCH
    assert result.stages[0].diffs[0].mismatches > 0
    assert result.stages[0].details == "no diagnosis, it failed: ZeroDivisionError: no luck"
    assert DIAGNOSIS not in result.facts
