"""A job's work, stage by stage: which programs run, what their outputs are compared with, the verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from golden.definition import DefinitionError
from kernels.plan import PlanError
from pipeline.diff.diagnosis import Diagnosis
from pipeline.engines.base import CompileError, Engine, NotSupportedError, Request
from pipeline.engines.process import HELPERS
from pipeline.engines.registry import engine_for, takes_tiles
from pipeline.ground.jobs import Job, Lane, State
from pipeline.ground.results import (
    BLAMED,
    DIAGNOSIS,
    INJECTED,
    PACKING,
    PROVED,
    VERIFY,
    WRONG_STEP,
    JobContext,
    Result,
    StageResult,
)
from pipeline.ground.subject import subject_of, workload_of
from pipeline.work.causes import wrong_step
from pipeline.work.comparison import (
    INPUTS_FILE,
    Step,
    comparison,
    first_line,
    missing_output,
    named,
    refused,
    request_for,
    timed,
)
from pipeline.work.proof import verdict_on, walked
from pipeline.work.versus import steps_of, with_odd_one
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
    """Do a job, of one platform or of two, in this process.

    Raises:
        DefinitionError: a declaration that is shipped is wrong: the fault is the project's own.
        InfrastructureError: the engine fails for a reason that says nothing about the kernel.
    """
    try:
        result = _compared(job, context) if job.other else _executed(job, context)
        words = subject_of(job).packing.words
        return replace(result, facts={**result.facts, PACKING: words}) if words else result
    except (WorkloadError, DefinitionError) as error:
        if isinstance(error, DefinitionError) and not job.workload.file:
            raise
        return Result(job, State.COMPILE_ERROR, str(error))
    finally:
        HELPERS.close()


def _compared(job: Job, context: JobContext) -> Result:
    steps = steps_of(job, context)
    if steps:
        return with_odd_one(_judged(job, context, steps, []))
    both = " and ".join(platform.name for platform in job.platforms)
    return Result(job, State.SKIPPED, f"no program of workload {job.workload.name} runs on both {both}")


def _executed(job: Job, context: JobContext) -> Result:
    workload = workload_of(job)
    if takes_tiles(job.platform.backend):
        try:
            subject_of(job).plan  # noqa: B018 (raises where the geometry cannot be tiled)
        except PlanError as error:
            return Result(job, State.SKIPPED, f"cannot be tiled on {job.platform.soc}: {error}")
    _check_forms(job, workload)
    compiled = _compiled(job, context, workload) if job.lane is Lane.COMPILE else []
    if job.profile is None:
        return concluded(job, compiled)
    stages = stages_of(job, workload, context.settings.stage)
    if not stages:
        return Result(job, State.SKIPPED, f"workload {workload.name} has no stage that computes a first tile")
    if not context.settings.inject and (refusals := _refusals(job, context, stages, compiled)):
        return concluded(job, [*compiled, *refusals])
    work = comparison(job, context)
    return _judged(job, context, [(work, stage) for stage in stages], compiled)


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
    """The programs that did not compile; one that is refuted did."""
    return {stage.name for stage in compiled if stage.state not in (State.PASSED, State.REFUTED)}


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


def _judged(job: Job, context: JobContext, steps: Sequence[Step], compiled: Sequence[StageResult]) -> Result:
    """Run the steps of a job, keep the evidence for wrong ones, and return the job's result.

    A program of which the compile stage in `compiled` did not pass is not run. Nothing is run if the fault to
    inject is committed in no step of the first platform, which alone has it.
    """
    first, _ = steps[0]
    if uncommitted := first.admit([stage for work, stage in steps if work is first]):
        return Result(job, State.SKIPPED, uncommitted, first.excuses)
    results, kept, lost = list(compiled), False, []
    uncompiled = _uncompiled(compiled)
    for work, stage in steps:
        if isinstance(stage, ProgramRun) and stage.program in uncompiled:
            results.append(_not_compiled(stage))
            continue
        result = work.run(stage)
        if job.other:
            ran_on = (work.job.platform,) if isinstance(stage, ProgramRun) else job.platforms
            result = replace(result, platforms=ran_on)
        if result.state is State.MISMATCH:
            try:
                result = work.keep(stage, result)
                kept = True
            except Exception as error:  # no failure here may hide the mismatch
                lost.append(f"{stage.name}: {type(error).__name__}: {first_line(error)}")
        results.append(result)
    facts = {
        "golden_note": "; ".join(dict.fromkeys(work.golden.note for work, _ in steps if work.golden.note)),
        "not_kept": "; ".join(lost),
        "inputs": context.settings.inputs or "",
        INJECTED: context.settings.inject if any(work.committed for work, _ in steps) else "",
    }
    whole = concluded(job, results, steps, {name: fact for name, fact in facts.items() if fact})
    return replace(whole, artefacts=(INPUTS_FILE,) if kept else ())


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
        again = partial(walked, request.subject, name, request.platform.backend)
        return timed(refused(name, context, error, again), start)
    except NotSupportedError as error:
        return timed(StageResult(name, State.SKIPPED, str(error)), start)
    left = named(compiled.artefacts, context)
    verdict = verdict_on(request.subject, name, request.platform.backend)
    facts = {**compiled.facts, PROVED: verdict.proved}
    result = StageResult(name, verdict.state, facts=facts, metrics=compiled.metrics, artefacts=left)
    if verdict.refuted:
        result = replace(
            result, message=verdict.message, details=verdict.account, facts={**facts, **verdict.facts}
        )
    return timed(result, start)


def concluded(
    job: Job,
    stages: Sequence[StageResult],
    steps: Sequence[Step] = (),
    facts: Mapping[str, str] = {},
) -> Result:
    """A job's result. State and message are those of the first wrong stage, else of the first skipped one.

    Causes and facts say what the surest diagnosis of a stage says, and which step is wrong. `steps` are those
    of the stages that were judged; `facts` are further facts of the job.
    """
    diagnoses = [work.diagnoses[stage.name] for work, stage in steps if stage.name in work.diagnoses]
    explaining = max(diagnoses, key=lambda found: found.tells, default=Diagnosis())
    causes = tuple(explaining.findings[0].hypotheses) if explaining.findings else ()
    refuted = next((stage.facts for stage in stages if BLAMED in stage.facts), {})
    explained = {name: refuted.get(name, "") for name in (DIAGNOSIS, BLAMED)}
    if any(explaining.tells):
        explained = {DIAGNOSIS: explaining.line, BLAMED: explaining.blamed}
    if causes:
        explained[WRONG_STEP] = f"{explaining.findings[0].step} (as the diagnosis says)"
    elif diagnoses:
        verdicts = {
            stage.name if job.other else stage.program: work.verdict(stage)
            for work, stage in steps
            if isinstance(stage, ProgramRun)
        }
        explained[WRONG_STEP] = wrong_step(verdicts)
    facts = {
        **facts,
        **{name: fact for name, fact in explained.items() if fact},
        "engine": "+".join(platform.backend for platform in job.platforms),
        "variant": "+".join(platform.variant for platform in job.platforms),
    }
    result = Result(job, State.PASSED, stages=tuple(stages), facts=facts)
    wrong = [stage for stage in stages if stage.state not in (State.PASSED, State.SKIPPED)]
    if wrong:
        lead = f"first wrong stage: {wrong[0].name}: " if len(stages) > 1 else ""
        message, details = lead + wrong[0].message, wrong[0].details
        return replace(result, state=wrong[0].state, message=message, details=details, causes=causes)
    skipped = [stage for stage in stages if stage.state is State.SKIPPED]
    if skipped:
        message = f"{skipped[0].name}: {skipped[0].message}"
        return replace(result, state=State.SKIPPED, message=message)
    return result
