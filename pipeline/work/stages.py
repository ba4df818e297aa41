"""A job's work, stage by stage: which programs run, on which inputs, compared with what; and the verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernels.catalogue import KERNELS
from pipeline.diff.diagnosis import Diagnosis
from pipeline.diff.steps import wrong_side
from pipeline.engines.base import CompileError, Engine, NotSupportedError
from pipeline.engines.registry import engine_for
from pipeline.ground.jobs import (
    DIAGNOSIS,
    VERIFY,
    WRONG_STEP,
    Job,
    JobContext,
    Lane,
    Result,
    StageResult,
    State,
)
from pipeline.work.comparison import (
    INPUTS_FILE,
    Comparison,
    Stage,
    comparison,
    first_line,
    named,
    refused,
    request_for,
    timed,
)

COMPARISON: Sequence[Stage] = (
    Stage("fused", "fused"),
    Stage("first-tile-load", "first-tile-load"),
    Stage("first-tile-packed", "first-tile-packed"),
    Stage("first-tile-fused-alloc", "first-tile-fused-alloc"),
    Stage("pass1", "pass1"),
    Stage("pass2-on-golden-mid", "pass2"),
    Stage("pass2-on-own-mid", "pass2", mid="pass1"),
    Stage("two-pass-vs-fused", "", mid="pass2-on-own-mid", against="fused"),
)
"""All stages in order: each isolates less than the one before has already cleared."""

_TILE_STAGES = 4


def stages_of(job: Job, stage: str) -> Sequence[Stage]:
    """What a job compares: all or the tile stages in the compare lane, a kernel's own programs elsewhere.

    Nothing where a kernel is compiled only.
    """
    if job.lane is Lane.COMPARE:
        return COMPARISON[:_TILE_STAGES] if stage == "tile" else COMPARISON
    programs = KERNELS[job.kernel] if job.profile is not None else ()
    lead = VERIFY if job.lane is Lane.COMPILE else ""
    return [Stage(lead + name, name, mid=lead + "pass1" if name == "pass2" else "") for name in programs]


def execute(job: Job, context: JobContext) -> Result:
    """Do a job in this process.

    Raises:
        InfrastructureError: where the engine fails for a reason that says nothing about the kernel.
    """
    compiled = _compiled(job, context) if job.lane is Lane.COMPILE else []
    if job.profile is None:
        return concluded(job, compiled, {}, {})
    work = comparison(job, context)
    return conclude(job, context, [(work, stage) for stage in stages_of(job, context.stage)], compiled)


def conclude(
    job: Job,
    context: JobContext,
    steps: Sequence[tuple[Comparison, Stage]],
    compiled: Sequence[StageResult] = (),
) -> Result:
    """Take the steps of a job, keep what shows why some are wrong, and say what they come to.

    Args:
        job: whose steps they are.
        context: the job's.
        steps: what to compare, in order.
        compiled: the stages before them, one a program; what did not compile is not run.
    """
    results = list(compiled)
    uncompiled = {stage.name for stage in compiled if stage.state is not State.PASSED}
    diagnoses: dict[str, Diagnosis] = {}
    kept = False
    lost: list[str] = []
    for work, stage in steps:
        if stage.program in uncompiled:
            results.append(StageResult(stage.name, State.SKIPPED, f"{stage.program} did not compile"))
            continue
        result = work.run(stage)
        if result.state is State.MISMATCH:
            try:
                result = work.keep(stage, result)
                kept = True
            except Exception as error:  # whatever fails here must not hide the mismatch
                lost.append(f"{stage.name}: {type(error).__name__}: {first_line(error)}")
        results.append(result)
        diagnoses |= work.diagnoses
    notes = dict.fromkeys(work.golden.note for work, _ in steps if work.golden.note)
    facts = {"golden_note": "; ".join(notes)} if notes else {}
    if lost:
        facts["not_kept"] = "; ".join(lost)
    if context.inputs:
        facts["inputs"] = str(context.inputs)
    if context.inject:
        facts["injected"] = context.inject
    artefacts = (INPUTS_FILE,) if kept else ()
    return replace(concluded(job, results, diagnoses, facts), artefacts=artefacts)


def _compiled(job: Job, context: JobContext) -> list[StageResult]:
    engine = engine_for(job.platform.backend)
    return [_compile(engine, job, context, Stage(name, name)) for name in KERNELS[job.kernel]]


def _compile(engine: Engine, job: Job, context: JobContext, stage: Stage) -> StageResult:
    start = time.perf_counter()
    try:
        compiled = engine.compile(request_for(job, context, stage))
    except CompileError as error:
        return timed(refused(stage, context, error), start)
    except NotSupportedError as error:
        return timed(StageResult(stage.name, State.SKIPPED, str(error)), start)
    left = named(compiled.artefacts, context)
    result = StageResult(
        stage.name, State.PASSED, facts=compiled.facts, metrics=compiled.metrics, artefacts=left
    )
    return timed(result, start)


def _explanation(
    stages: Sequence[StageResult], diagnoses: Mapping[str, Diagnosis]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Causes and facts of a job: the first diagnosis of its stages that explains; the step that is wrong."""
    clean = {stage.name.removeprefix(VERIFY): stage.state is State.PASSED for stage in stages if stage.diffs}
    explaining = next((found for found in diagnoses.values() if found.findings), None)
    causes = tuple(explaining.findings[0].hypotheses) if explaining else ()
    facts = {
        DIAGNOSIS: explaining.line if explaining else "",
        WRONG_STEP: wrong_side(clean, causes[0] if causes else ""),
    }
    return causes, {name: fact for name, fact in facts.items() if fact}


def concluded(
    job: Job, stages: Sequence[StageResult], diagnoses: Mapping[str, Diagnosis], facts: Mapping[str, str]
) -> Result:
    """The job's state and message: those of the first stage that is wrong, else of one that could not run."""
    causes, explained = _explanation(stages, diagnoses)
    facts = {**facts, **explained}
    wrong = [stage for stage in stages if stage.state not in (State.PASSED, State.SKIPPED)]
    facts = {**facts, "engine": job.platform.backend, "variant": job.platform.variant}
    if wrong:
        lead = f"first wrong stage: {wrong[0].name}: " if len(stages) > 1 else ""
        message, details = lead + wrong[0].message, wrong[0].details
        return Result(job, wrong[0].state, message, details, stages=tuple(stages), facts=facts, causes=causes)
    skipped = [stage for stage in stages if stage.state is State.SKIPPED]
    if skipped:
        message = f"{skipped[0].name}: {skipped[0].message}"
        return Result(job, State.SKIPPED, message, stages=tuple(stages), facts=facts)
    return Result(job, State.PASSED, stages=tuple(stages), facts=facts)
