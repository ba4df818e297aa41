from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.inputs import InputsError
from pipeline.ground.jobs import Job, Lane, Platform, State
from pipeline.ground.results import JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.matrix.expand import COMPARED
from pipeline.run.artefacts import relocated
from pipeline.run.journal import Record
from pipeline.work import stages
from pipeline.work.replay import ReplayError, account, replay

pytestmark = pytest.mark.usefixtures("torch_installed", "undrawn")

TWO = Platform("two", "emulator", "a2a3")


@dataclass(frozen=True)
class Run:
    """A run of one job, as its journal and folder tell it."""

    folder: Path
    cache: Path
    record: Record
    result: Result

    def again(self) -> Result:
        return replay(self.record, self.folder, self.result.job.id, self.cache)

    def file(self, name: str) -> Path:
        (found,) = (path for path in self.result.files if path.endswith(name))
        return self.folder / found


RunJob = Callable[..., Run]


@pytest.fixture
def compare(samples: Any) -> Job:
    """A job of the pair in the compare lane."""
    job: Job = samples["conv-pair"].job(Lane.COMPARE)
    return job


@pytest.fixture
def device(samples: Any) -> Job:
    """A job of the pair's two passes."""
    job: Job = samples["conv-pair"].job(Lane.DEVICE, "two-pass")
    return job


@pytest.fixture
def run_job(tmp_path: Path, goldens: Path) -> RunJob:
    def run(job: Job, fault: str = "bias-missing-1", stage: str = "all") -> Run:
        folder = tmp_path / "run" / "jobs" / "it" / "1"
        settings = Settings(stage=stage, inject=fault)
        context = JobContext(folder, None, goldens, settings)
        done = stages.execute(job, context)
        done = relocated(done, folder, tmp_path / "run")
        record = Record("r1", "", (job,), {}, settings, {}, {job.id: done}, exit_code=0, notes=())
        return Run(tmp_path / "run", goldens, record, done)

    return run


@pytest.mark.parametrize(
    ("workload", "lane", "kernel", "other"),
    [
        ("conv-pair", Lane.COMPARE, COMPARED, None),
        ("conv-pair", Lane.DEVICE, "two-pass", None),
        ("conv-pair", Lane.COMPILE, "two-pass", None),
        ("conv-pair", Lane.COMPARE, COMPARED, TWO),
        ("conv", Lane.COMPARE, COMPARED, None),
        ("conv", Lane.DEVICE, "conv", None),
        ("conv", Lane.COMPARE, COMPARED, TWO),
    ],
)
def test_a_mismatch_is_judged_as_it_was(
    workload: str, lane: Lane, kernel: str, other: Platform | None, samples: Any, run_job: RunJob
) -> None:
    run = run_job(samples[workload].job(lane, kernel, other=other))
    again = run.again()
    assert again.state is run.result.state is State.MISMATCH
    assert again.message == run.result.message
    assert again.causes == run.result.causes == ("bias-missing-1",)
    for now, then in zip(again.stages, run.result.stages, strict=True):
        assert (now.name, now.state, now.diffs) == (then.name, then.state, then.diffs)


@pytest.mark.parametrize(
    ("lane", "kernel", "other"),
    [(Lane.DEVICE, "gemm", None), (Lane.COMPARE, COMPARED, None), (Lane.COMPARE, COMPARED, TWO)],
)
def test_an_int32_output_is_judged_as_it_was(
    lane: Lane,
    kernel: str,
    other: Platform | None,
    samples: Any,
    run_job: RunJob,
    last_row_unwritten: None,
) -> None:
    run = run_job(samples["gemm"].job(lane, kernel, other=other), fault="")
    again = run.again()
    assert again.state is run.result.state is State.MISMATCH
    assert again.message == run.result.message
    assert again.stages[0].diffs == run.result.stages[0].diffs
    assert again.stages[0].diffs[0].unwritten == 64


def test_neither_an_engine_nor_a_cached_golden_is_needed(
    run_job: RunJob, compare: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_job(compare)
    monkeypatch.setattr("pipeline.engines.emulator.run_program", None)
    again = replay(run.record, run.folder, compare.id, tmp_path / "no cache")
    assert again.message == run.result.message


def test_the_first_tiles_alone_stay_alone(run_job: RunJob, compare: Job) -> None:
    run = run_job(compare, stage="tile")
    assert len(run.again().stages) == 4


def test_the_account_holds_diff_and_diagnosis(run_job: RunJob, device: Job) -> None:
    said = account(run_job(device).again())
    assert said.startswith("device/emu/g/two-pass/small: mismatch: first wrong stage: pass1: mid: ")
    assert "\ndiagnosis: bias-missing-1: " in said
    assert "\npass2: mismatch\ny: " in said
    assert "explains" in said


def refused(run: Run, job: str = "") -> str:
    with pytest.raises((ReplayError, InputsError)) as caught:
        replay(run.record, run.folder, job or run.result.job.id, run.cache)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_what_cannot_be_replayed_is_said_in_a_line(run_job: RunJob, device: Job) -> None:
    run = run_job(device)
    assert (
        "no result of job `device/emu/g`; the closest known name is `device/emu/g/two-pass/small`"
        in refused(run, "device/emu/g")
    )
    actual = run.file("pass1/actual-mid.npy")
    right = actual.read_bytes()
    changed = np.load(actual)
    changed[0, 0] ^= 1
    np.save(actual, changed)
    assert refused(run).startswith("pass1: its output is no longer ")
    actual.write_bytes(right[:-5])
    assert refused(run).startswith(f"{actual}: is damaged: ")
    actual.unlink()
    assert refused(run).startswith(f"{actual}: cannot be read: ")
    run.file("inputs.npz").write_bytes(b"")
    assert "is not an .npz file" in refused(run)
    shutil.rmtree(run.folder)
    assert "cannot be read" in refused(run)


def test_a_job_that_kept_nothing_says_why(run_job: RunJob, device: Job) -> None:
    run = run_job(device, fault="")
    assert refused(run).endswith("kept no tensors and outputs of it: it ended as passed")
    dropped = replace(run.result, facts={"artefacts": "removed, over the limit"})
    run = replace(run, record=replace(run.record, results={device.id: dropped}))
    assert refused(run).endswith(": removed, over the limit")


def test_a_golden_of_another_day_is_not_taken_for_the_runs(run_job: RunJob, device: Job) -> None:
    """The platform's variant is part of the golden: here the matrix has changed it since."""
    run = run_job(device)
    job = replace(device, platform=replace(device.platform, variant="offset-unsigned"))
    changed = replace(run.result, job=job)
    run = replace(run, record=replace(run.record, results={device.id: changed}))
    assert refused(run) == "pass1: the golden is no longer the run's; check out the run's commit"
