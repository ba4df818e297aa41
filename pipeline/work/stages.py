"""A job's work, stage by stage: which programs run, what their outputs are compared with, the verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from golden.definition import DefinitionError
from pipeline.diff.diagnosis import Diagnosis
from pipeline.diff.steps import StageParts, parts_of, wrong_side
from pipeline.engines.base import CompileError, Engine, NotSupportedError, Request
from pipeline.engines.registry import engine_for
from pipeline.ground.jobs import (
    DIAGNOSIS,
    INJECTED,
    PROVED,
    VERIFY,
    WRONG_STEP,
    Job,
    JobContext,
    Lane,
    Platform,
    Result,
    StageResult,
    State,
)
from pipeline.ground.subject import subject_of, workload_of
from pipeline.work.comparison import (
    INPUTS_FILE,
    Comparison,
    comparison,
    first_line,
    missing_output,
    named,
    refused,
    request_for,
    timed,
)
from pipeline.work.proof import verdict
from workloads.base import Workload, WorkloadError
from workloads.stages import ProgramRun, Stage

TILE = "tile"
"""The value of `--stage` with which the compare lane compares only the first tiles."""


def stages_of(job: Job, workload: Workload, stage: str) -> Sequence[Stage]:
    """The stages of a job: in the compare lane all or the tile stages, else those of the kernel's programs.

    Empty if the kernel is only compiled.
    """
    if job.lane is Lane.COMPARE:
        return workload.tile_stages if stage == TILE else workload.comparison
    if job.profile is None:
        return ()
    return workload.runs_of(job.kernel, VERIFY if job.lane is Lane.COMPILE else "")


def execute(job: Job, context: JobContext) -> Result:
    """Do a job in this process.

    Raises:
        InfrastructureError: the engine fails for a reason that says nothing about the kernel.
    """
    try:
        return _executed(job, context)
    except (WorkloadError, DefinitionError) as error:
        return misdeclared(job, error)


def misdeclared(job: Job, error: WorkloadError | DefinitionError) -> Result:
    """The result of a job whose declaration is wrong.

    Raises:
        DefinitionError: the given one, if the workload is shipped: the fault is the project's own.
    """
    if isinstance(error, DefinitionError) and not job.workload.file:
        raise error
    return Result(job, State.COMPILE_ERROR, str(error))


def _executed(job: Job, context: JobContext) -> Result:
    workload = workload_of(job)
    _check_forms(job, workload)
    compiled = _compiled(job, context, workload) if job.lane is Lane.COMPILE else []
    if job.profile is None:
        return concluded(job, compiled, {}, {})
    stages = stages_of(job, workload, context.settings.stage)
    if not stages:
        return Result(job, State.SKIPPED, f"workload {workload.name} has no stage that computes a first tile")
    if not context.settings.inject and (refusals := _refusals(job, context, stages, compiled)):
        return concluded(job, [*compiled, *refusals], {}, {})
    work = comparison(job, context)
    if uncommitted := work.admit(stages):
        return Result(job, State.SKIPPED, uncommitted, work.excuses)
    return conclude(job, context, [(work, stage) for stage in stages], compiled)


def _refusals(
    job: Job, context: JobContext, stages: Sequence[Stage], compiled: Sequence[StageResult]
) -> list[StageResult]:
    """How the stages end if none of their programs can run; empty if one can.

    So a job that is refused as a whole does not wait until its golden is computed.
    """
    engine, subject = engine_for(job.platform.backend), subject_of(job)
    uncompiled = _uncompiled(compiled)
    results = []
    for stage in stages:
        if not isinstance(stage, ProgramRun):
            results.append(missing_output(stage, stage.one))
        elif stage.program in uncompiled:
            results.append(_not_compiled(stage))
        else:
            try:
                engine.check(subject, stage.program)
            except CompileError as error:
                results.append(refused(stage.name, context, error))
            else:
                return []
    return results


def _uncompiled(compiled: Sequence[StageResult]) -> set[str]:
    """The programs that did not compile."""
    return {stage.name for stage in compiled if stage.state is not State.PASSED}


def _not_compiled(stage: ProgramRun) -> StageResult:
    return StageResult(stage.name, State.SKIPPED, f"{stage.program} did not compile")


def _check_forms(job: Job, workload: Workload) -> None:
    """Refuse a contradictory form before it is used.

    Raises:
        WorkloadError: a program that the job runs has such a form.
    """
    subject = subject_of(job)
    names = [program.name for program in workload.programs]
    for name in names if job.lane is Lane.COMPARE else workload.programs_of(job.kernel):
        subject.form(name)


def conclude(
    job: Job,
    context: JobContext,
    steps: Sequence[tuple[Comparison, Stage]],
    compiled: Sequence[StageResult] = (),
) -> Result:
    """Run the steps of a job, keep the evidence for wrong ones, and return the job's result.

    Args:
        job: the job that the steps belong to.
        context: the context of the job.
        steps: what to compare, in order.
        compiled: the compile stages before them, one per program; what did not compile is not run.
    """
    results = list(compiled)
    uncompiled = _uncompiled(compiled)
    diagnoses: dict[str, Diagnosis] = {}
    kept = False
    lost: list[str] = []
    for work, stage in steps:
        if isinstance(stage, ProgramRun) and stage.program in uncompiled:
            results.append(_not_compiled(stage))
            continue
        result = replace(work.run(stage), platforms=_platforms(job, work, stage))
        if result.state is State.MISMATCH:
            try:
                result = work.keep(stage, result)
                kept = True
            except Exception as error:  # no failure here may hide the mismatch
                lost.append(f"{stage.name}: {type(error).__name__}: {first_line(error)}")
        results.append(result)
        diagnoses |= work.diagnoses
    notes = dict.fromkeys(work.golden.note for work, _ in steps if work.golden.note)
    facts = {"golden_note": "; ".join(notes)} if notes else {}
    if lost:
        facts["not_kept"] = "; ".join(lost)
    if context.settings.inputs is not None:
        facts["inputs"] = context.settings.inputs
    if any(work.committed for work, _ in steps):
        facts[INJECTED] = context.settings.inject
    artefacts = (INPUTS_FILE,) if kept else ()
    parts = {stage.name: stage_parts(work, stage) for work, stage in steps if isinstance(stage, ProgramRun)}
    return replace(concluded(job, results, diagnoses, facts, parts), artefacts=artefacts)


def _platforms(job: Job, work: Comparison, stage: Stage) -> tuple[Platform, ...]:
    """The platforms of a stage in a job that compares two; empty in any other job."""
    if job.other is None:
        return ()
    return (work.job.platform,) if isinstance(stage, ProgramRun) else job.platforms


def stage_parts(work: Comparison, stage: ProgramRun) -> StageParts | None:
    """The parts of a stage's computation; None if the form of its program is not described."""
    form = work.form(stage)
    return parts_of(form, handed_over=bool(stage.given)) if form is not None else None


def _compiled(job: Job, context: JobContext, workload: Workload) -> list[StageResult]:
    engine, subject = engine_for(job.platform.backend), subject_of(job)
    return [
        _compile(engine, context, request_for(job, context, subject, ProgramRun(name, name)))
        for name in workload.programs_of(job.kernel)
    ]


def _compile(engine: Engine, context: JobContext, request: Request) -> StageResult:
    start, name = time.perf_counter(), request.program
    try:
        compiled = engine.compile(request)
    except CompileError as error:
        return timed(refused(name, context, error), start)
    except NotSupportedError as error:
        return timed(StageResult(name, State.SKIPPED, str(error)), start)
    left = named(compiled.artefacts, context)
    state, message, proved = verdict(request)
    facts = {**compiled.facts, PROVED: proved}
    result = StageResult(name, state, message, facts=facts, metrics=compiled.metrics, artefacts=left)
    return timed(result, start)


def _explanation(
    stages: Sequence[StageResult],
    diagnoses: Mapping[str, Diagnosis],
    parts: Mapping[str, StageParts | None],
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Causes and facts of a job: the first diagnosis that explains a stage, and the wrong step."""
    clean = {stage.name: stage.state is State.PASSED for stage in stages if stage.diffs}
    explaining = next((found for found in diagnoses.values() if found.findings), None)
    causes = tuple(explaining.findings[0].hypotheses) if explaining else ()
    known = {name: of_stage for name, of_stage in parts.items() if of_stage is not None}
    facts = {
        DIAGNOSIS: explaining.line if explaining else "",
        WRONG_STEP: wrong_side(clean, causes[0] if causes else "", known),
    }
    return causes, {name: fact for name, fact in facts.items() if fact}


def concluded(
    job: Job,
    stages: Sequence[StageResult],
    diagnoses: Mapping[str, Diagnosis],
    facts: Mapping[str, str],
    parts: Mapping[str, StageParts | None] | None = None,
) -> Result:
    """A job's result. State and message are those of the first wrong stage, else of the first skipped one.

    Args:
        job: the job that the stages belong to.
        stages: how each ended.
        diagnoses: by stage, why it is wrong, if it is.
        facts: further facts of the job.
        parts: by stage, the parts of its computation, if they are known.
    """
    causes, explained = _explanation(stages, diagnoses, parts or {})
    facts = {**facts, **explained}
    wrong = [stage for stage in stages if stage.state not in (State.PASSED, State.SKIPPED)]
    engine = "+".join(platform.backend for platform in job.platforms)
    variant = "+".join(platform.variant for platform in job.platforms)
    facts = {**facts, "engine": engine, "variant": variant}
    if wrong:
        lead = f"first wrong stage: {wrong[0].name}: " if len(stages) > 1 else ""
        message, details = lead + wrong[0].message, wrong[0].details
        return Result(job, wrong[0].state, message, details, stages=tuple(stages), facts=facts, causes=causes)
    skipped = [stage for stage in stages if stage.state is State.SKIPPED]
    if skipped:
        message = f"{skipped[0].name}: {skipped[0].message}"
        return Result(job, State.SKIPPED, message, stages=tuple(stages), facts=facts)
    return Result(job, State.PASSED, stages=tuple(stages), facts=facts)
