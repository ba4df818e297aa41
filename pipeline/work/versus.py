"""Compares two engines: a job on two platforms, whose outputs are compared with the golden and each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeline.engines.registry import engine_for, has_program
from pipeline.ground.jobs import Job, Platform
from pipeline.ground.results import JobContext, Result
from pipeline.ground.subject import subject_of, workload_of
from pipeline.work.comparison import Comparison, Step, comparison
from workloads.base import TileProgram, Workload
from workloads.stages import OutputsCompared, ProgramRun


def compared_programs(workload: Workload, one: Platform, two: Platform) -> tuple[str, ...]:
    """The programs that are compared: those that give a whole output and that both platforms have.

    All run on the same inputs on both; where a program reads another's output, it gets the golden's.
    """
    return tuple(
        program.name
        for program in workload.programs
        if program.shape is None
        and all(has_program(each.backend, workload, program.name) for each in (one, two))
    )


ODD = "odd_one_out"
"""The fact that says, for each program, which of the two platforms and the golden differs from the others."""


def with_odd_one(result: Result) -> Result:
    """The result of a job of two platforms, with the odd one out in its message and facts."""
    clean = {stage.name: stage.diffs[0].clean for stage in result.stages if stage.diffs}
    odd = odd_ones(result.job, clean)
    if not odd:
        return result
    return replace(result, message=f"odd one out: {odd}; {result.message}", facts={**result.facts, ODD: odd})


def steps_of(job: Job, context: JobContext) -> list[Step]:
    """The steps of a job of two platforms: each program runs on both, then its two outputs are compared.

    A fault to inject is committed only on the first platform, which is then the odd one out.
    """
    one, two = job.platforms
    contexts = {
        each: context if each == job.platform else replace(context, device=None) for each in (one, two)
    }
    mine = comparison(replace(job, platform=one), contexts[one])
    its = Comparison(
        engine_for(two.backend),
        replace(job, platform=two),
        replace(contexts[two], settings=replace(context.settings, inject="")),
        subject_of(job, two),
        mine.golden,
        mine.outputs,
    )
    steps: list[Step] = []
    for name in compared_programs(mine.subject.workload, one, two):
        first, second, between = _stages(mine.subject.program(name), one, two)
        steps += [(mine, first), (its, second), (its, between)]
    return steps


def _stages(
    program: TileProgram, one: Platform, two: Platform
) -> tuple[ProgramRun, ProgramRun, OutputsCompared]:
    name = program.name
    first, second = f"{name}-on-{one.name}", f"{name}-on-{two.name}"
    between = OutputsCompared(f"{name}-{one.name}-vs-{two.name}", first, second, program.tensor)
    return ProgramRun(first, name), ProgramRun(second, name), between


def odd_ones(job: Job, clean: Mapping[str, bool]) -> str:
    """The odd one out of each program whose outputs do not all agree; empty if nothing differs.

    `clean` says by stage if its output equals what it was compared with; stages without one are left out.
    """
    one, two = job.platforms
    workload = workload_of(job)
    found: dict[str, list[str]] = {}
    for name in compared_programs(workload, one, two):
        stages = [stage.name for stage in _stages(workload.program(name), one, two)]
        if all(stage in clean for stage in stages) and not all(clean[stage] for stage in stages):
            first, second, alike = (clean[stage] for stage in stages)
            found.setdefault(_odd(one.name, two.name, first, second, alike), []).append(name)
    return "; ".join(f"{who} in {', '.join(names)}" for who, names in found.items())


def _odd(one: str, two: str, first: bool, second: bool, alike: bool) -> str:
    """The odd one out: `first` and `second` say who is right, `alike` whether the two platforms agree."""
    if alike:
        return f"the golden (not {one} and {two}, which agree)"
    if first or second:
        return two if first else one
    return "none (all three differ)"
