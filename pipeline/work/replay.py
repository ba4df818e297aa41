"""Judges a mismatch again, from the tensors and outputs that its run kept; no device is used."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path, PurePath
from typing import cast

import numpy as np

from golden.errors import UserError
from golden.specs import Array
from pipeline.diff import render
from pipeline.diff.compare import digest
from pipeline.ground.jobs import State
from pipeline.ground.results import (
    BLAMED,
    DIAGNOSIS,
    PROGRAM_WRONG,
    PROVED,
    REPRODUCE,
    WRONG_STEP,
    JobContext,
    Result,
    StageResult,
)
from pipeline.ground.words import closest
from pipeline.run.journal import Record
from pipeline.work.comparison import INPUTS_FILE, Comparison, actual_file, comparison
from pipeline.work.proof import Verdict
from pipeline.work.stages import concluded, stages_of
from pipeline.work.versus import steps_of, with_odd_one
from workloads.stages import ProgramRun, Stage


class ReplayError(UserError):
    """A job cannot be judged again; the message is one line: what, where, remedy."""


def replay(record: Record, run_folder: Path, job_id: str, cache: Path) -> Result:
    """Compare the kept outputs of a job of a run with its golden again, and diagnose them.

    Returns:
        The result as it would be today, with the facts that the run recorded.

    Raises:
        ReplayError: the run has no such job, kept none of its files, or they cannot be used.
        InputsError: the kept tensors are damaged.
    """
    known = record.results.get(job_id)
    if known is None:
        raise ReplayError(
            f"run {record.run_id} has no result of job `{job_id}`; {closest(job_id, record.results)}"
        )
    job = known.job
    inputs = next((path for path in known.artefacts if PurePath(path).name == INPUTS_FILE), None)
    if inputs is None:
        why = (
            known.facts.get("artefacts") or known.facts.get("not_kept") or f"it ended as {known.state.value}"
        )
        raise ReplayError(f"{job_id}: run {record.run_id} kept no tensors and outputs of it: {why}")
    folder = (run_folder / inputs).parent
    context = JobContext(folder, None, cache, replace(record.settings, inputs=str(run_folder / inputs)))
    if job.other:
        steps = steps_of(job, context)
    else:
        work = comparison(job, context)
        steps = [(work, stage) for stage in stages_of(job, work.subject.workload, record.settings.stage)]
    stages = {stage.name: stage for stage in known.stages}
    for work, stage in steps:
        if stage.name not in stages:
            raise ReplayError(
                f"run {record.run_id} has no stage {stage.name}: its workload was changed since; "
                "check out the run's commit"
            )
        stages[stage.name] = _again(work, stage, stages[stage.name], folder)
    result = concluded(job, list(stages.values()), steps, known.facts)
    return with_odd_one(result) if job.other else result


def _again(work: Comparison, stage: Stage, then: StageResult, folder: Path) -> StageResult:
    """A stage, judged again on its output; a stage without output is left as it was."""
    if then.state not in (State.PASSED, State.MISMATCH):
        return then
    (diff,) = then.diffs
    if isinstance(stage, ProgramRun):
        if then.state is State.PASSED:
            output = work.expected(stage, diff.shape[0])
        else:
            output = _kept(folder / stage.name / actual_file(diff.tensor))
        if digest(output) != diff.actual_sha:
            raise ReplayError(
                f"{stage.name}: its output is no longer {diff.actual_sha}, which the run recorded; "
                "run the job again"
            )
        work.outputs[stage.name] = output
        if PROVED in then.facts and then.facts[PROVED] != work.verdict(stage).proved:
            state = State.REFUTED if BLAMED in then.facts else State.PASSED
            why, short = then.facts[DIAGNOSIS].removeprefix(PROGRAM_WRONG), then.facts.get(BLAMED, "")
            work.recorded[stage.name] = Verdict(then.facts[PROVED], state, why, short=short)
    now = work.judge(stage)
    if now.diffs[0].golden_sha != diff.golden_sha:
        raise ReplayError(f"{stage.name}: the golden is no longer the run's; check out the run's commit")
    return now


def _kept(path: Path) -> Array:
    try:
        return cast(Array, np.load(path, allow_pickle=False))
    except OSError as error:
        raise ReplayError(f"{path}: cannot be read: {error.strerror or error}; run the job again") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ReplayError(f"{path}: is damaged: {error}; run the job again") from error


def account(result: Result) -> str:
    """The text of a replay: the verdict and each stage, with all details of wrong stages."""
    lines = [f"{result.job.id}: {result.state.value}: {result.message}"]
    facts = result.facts
    lines += [f"{name}: {facts[name]}" for name in (DIAGNOSIS, WRONG_STEP, REPRODUCE) if name in facts]
    for stage in result.stages:
        lines.append(f"\n{stage.name}: {stage.state.value}")
        if stage.state is State.MISMATCH:
            lines += map(render.full, stage.diffs)
        if stage.details:
            lines.append(stage.details)
    return "\n".join(lines) + "\n"
