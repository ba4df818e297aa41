"""Engine against engine: a job on two platforms, each held against the golden, both against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeline.engines.registry import engine_for
from pipeline.ground.jobs import Job, JobContext, Platform, Result
from pipeline.work.comparison import Comparison, Stage, comparison
from pipeline.work.stages import conclude

PROGRAMS: Mapping[str, tuple[str, str]] = {
    "fused": ("fused", "y"),
    "pass1": ("pass1", "mid"),
    "pass2": ("pass2", "y"),
}
"""What is held against one another: programs with their outputs, on the same inputs on both platforms.

`pass2` runs on the golden's mid.
"""

ODD = "odd_one_out"
"""The fact that names, for each program, which of the two and the golden differs from the others."""


def execute(job: Job, context: JobContext) -> Result:
    """Do a job of two platforms in this process.

    Raises:
        InfrastructureError: as `pipeline.work.stages.execute`.
    """
    return with_odd_one(conclude(job, context, steps_of(job, context)))


def with_odd_one(result: Result) -> Result:
    """The result of such a job, whose message and facts say who stands alone."""
    clean = {stage.name: stage.diffs[0].clean for stage in result.stages if stage.diffs}
    odd = odd_ones(result.job, clean)
    if not odd:
        return result
    return replace(result, message=f"odd one out: {odd}; {result.message}", facts={**result.facts, ODD: odd})


def steps_of(job: Job, context: JobContext) -> list[tuple[Comparison, Stage]]:
    """Each program on both platforms, then the two outputs against one another.

    A fault to inject is committed on the first platform only: it is then the odd one out.
    """
    one, two = job.platforms
    contexts = {
        each: context if each == job.platform else replace(context, device=None) for each in (one, two)
    }
    mine = comparison(replace(job, platform=one), contexts[one])
    its = Comparison(
        engine_for(two.backend),
        replace(job, platform=two),
        replace(contexts[two], inject=""),
        mine.golden,
        mine.outputs,
    )
    return [
        (work, stage)
        for name in PROGRAMS
        for work, stage in zip((mine, its, its), _stages(name, one, two), strict=True)
    ]


def _stages(name: str, one: Platform, two: Platform) -> tuple[Stage, Stage, Stage]:
    program, tensor = PROGRAMS[name]
    first, second = f"{name}-on-{one.name}", f"{name}-on-{two.name}"
    between = Stage(f"{name}-{one.name}-vs-{two.name}", "", mid=first, against=second, tensor=tensor)
    return Stage(first, program), Stage(second, program), between


def odd_ones(job: Job, clean: Mapping[str, bool]) -> str:
    """Who stands alone in each program where not all agree; empty where nothing differs.

    Args:
        job: of two platforms.
        clean: by stage, whether its output is what it was held against; stages that gave none are left out.
    """
    one, two = job.platforms
    found: dict[str, list[str]] = {}
    for name in PROGRAMS:
        stages = [stage.name for stage in _stages(name, one, two)]
        if all(stage in clean for stage in stages) and not all(clean[stage] for stage in stages):
            first, second, alike = (clean[stage] for stage in stages)
            found.setdefault(_odd(one.name, two.name, first, second, alike), []).append(name)
    return "; ".join(f"{who} in {', '.join(names)}" for who, names in found.items())


def _odd(one: str, two: str, first: bool, second: bool, alike: bool) -> str:
    """Who of two platforms and the golden stands alone: each right or not, and whether the two are alike."""
    if alike:
        return f"the golden (not {one} and {two}, which agree)"
    if first or second:
        return two if first else one
    return "none (all three differ)"
