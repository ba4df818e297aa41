from __future__ import annotations

from pathlib import Path

import pytest

from golden.geometry import Conv, Geometry
from pipeline.ground.jobs import DIAGNOSIS, WRONG_STEP, Job, JobContext, Lane, Platform, Result, State
from pipeline.ground.settings import Settings
from pipeline.work import comparison, stages

pytestmark = pytest.mark.usefixtures("torch_installed")

GEOMETRY = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))


def run(folder: Path, fault: str, lane: Lane = Lane.COMPARE, kernel: str = "pair") -> Result:
    platform = Platform("emu", "emulator", "a2a3")
    job = Job(f"{lane.value}/emu/g/{kernel}/p", lane, platform, "g", GEOMETRY, kernel, "full-range@7", 60.0)
    context = JobContext(folder / (fault or "none"), None, folder / "cache", Settings(inject=fault))
    return stages.execute(job, context)


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
    fault: str, step: str, tmp_path: Path
) -> None:
    result = run(tmp_path, fault)
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


def test_the_two_passes_of_a_device_job_are_diagnosed_together(tmp_path: Path) -> None:
    result = run(tmp_path, "bias-missing-1", Lane.DEVICE, "two-pass")
    assert [stage.facts[DIAGNOSIS].partition(":")[0] for stage in result.stages] == ["bias-missing-1"] * 2
    assert result.facts[WRONG_STEP] == "conv1 (as the diagnosis says)"


def test_a_clean_job_has_no_diagnosis(tmp_path: Path) -> None:
    result = run(tmp_path, "")
    assert result.state is State.PASSED
    assert not {DIAGNOSIS, WRONG_STEP} & set(result.facts)
    assert not any(DIAGNOSIS in stage.facts for stage in result.stages)


def test_a_diagnosis_that_fails_leaves_the_mismatch_and_the_stages_tell_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(evidence: object) -> None:
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr(comparison, "diagnose", fail)
    result = run(tmp_path, "planes-swapped-1")
    assert result.state is State.MISMATCH
    assert result.stages[0].diffs[0].mismatches > 0
    assert result.stages[0].details == "no diagnosis, it failed: ZeroDivisionError: no luck"
    assert DIAGNOSIS not in result.facts
    assert result.facts[WRONG_STEP].startswith("layout (wrong: fused, ")
