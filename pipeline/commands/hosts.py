"""What a run finds on its host: toolchains, devices, the scheduler; and `doctor`, which prints it."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.commands.facts import run_facts
from pipeline.commands.options import QUEUE
from pipeline.commands.selection import read_matrix
from pipeline.engines.base import Availability, ToolchainError
from pipeline.engines.identity import identify
from pipeline.engines.npu_smi import survey_host
from pipeline.engines.pypto import toolchain
from pipeline.engines.registry import BACKENDS, engine_for
from pipeline.ground.jobs import Job, Platform, State
from pipeline.ground.results import OUTCOMES
from pipeline.ground.subject import workload_of
from pipeline.ground.words import counted, unbroken
from pipeline.matrix.expand import COMPARED, expand
from pipeline.run.devices import LENT, choose_ids, parse_ids
from pipeline.run.task import require
from pipeline.work.versus import compared_programs
from workloads.base import Workload, WorkloadError


def examine_host(arguments: Namespace) -> int:
    """`doctor`: what is installed, which jobs can run here, and why the others cannot, with remedies."""
    matrix = read_matrix(arguments.matrix)
    jobs = expand(matrix, arguments.day)
    for line in examine(jobs, availability, installed(os.environ)):
        sys.stdout.write(f"{unbroken(line)}\n")
    problems = toolchain.preflight(list(matrix.platforms.values()), os.environ)
    for problem in problems:
        sys.stdout.write(f"problem: {unbroken(problem)}\n")
    lacking = {job.platform.name for job in jobs if job.platform.required and not availability(job)}
    for name in sorted(lacking):
        sys.stdout.write(f"problem: platform {name} is required, and not all of its jobs can run\n")
    return OUTCOMES[State.INFRASTRUCTURE].exit_code if problems or lacking else 0


def installed(environment: Mapping[str, str]) -> dict[str, str]:
    """By name, the version of each thing that decides which jobs can run, or that it is missing."""
    from pipeline.engines.isa.engine import installed as isa_installed  # runs start without it

    facts = run_facts(())
    here = {name: facts[name] for name in ("host", "system", "processors", "python", "numpy", "torch")}
    here["this Python's pypto"] = str(identify())
    here["g++"] = shutil.which("g++") or "none"
    here |= isa_installed(environment)
    here[toolchain.PYTHON] = environment.get(toolchain.PYTHON) or "not set: this Python"
    try:
        versions = toolchain.versions(environment)
        here |= {f"PIPELINE_PYTHON's {name}": version for name, version in versions.items()}
    except OSError as error:
        here["PIPELINE_PYTHON's pypto"] = f"cannot be started: {error.strerror}"
    return here


def examine(
    jobs: Sequence[Job], available: Callable[[Job], Availability], here: Mapping[str, str]
) -> Iterator[str]:
    """Lines: what is installed, how many jobs of each platform can run, and why others cannot."""
    width = max(map(len, here), default=0)
    yield from (f"{name:<{width}}  {version}" for name, version in here.items())
    yield ""
    answered: dict[str, list[Availability]] = {}
    for job in jobs:
        answered.setdefault(f"{job.platform.name} {job.lane.value}", []).append(available(job))
    lacking: dict[Availability, Counter[str]] = {}
    for title, answers in answered.items():
        yield f"{title}: {sum(map(bool, answers))} of {counted(len(answers), 'job')} can run"
        for answer in answers:
            if not answer:
                lacking.setdefault(answer, Counter())[title] += 1
    for answer, titles in lacking.items():
        yield ""
        yield f"{counted(titles.total(), 'job')} cannot run: {answer.reason}"
        yield f"  where: {', '.join(titles)}"
        if answer.remedy:
            yield f"  remedy: {answer.remedy}"


def availability(job: Job) -> Availability:
    """Whether a job can run here, as its engines say of the job's programs.

    If the file of its workload is broken, a job can run: it reports what is wrong with the file.
    """
    try:
        workload = workload_of(job)
        if job.other:
            programs = compared_programs(workload, job.platform, job.other)
        elif job.kernel == COMPARED:
            programs = tuple(program.name for program in workload.programs)
        else:
            programs = workload.programs_of(job.kernel)
        places = filter(None, (job.other, job.platform))
        compile_only = job.profile is None
        answers = (_can(platform, workload, programs, compile_only) for platform in places)
        return next((answer for answer in answers if not answer), Availability())
    except WorkloadError:
        return Availability()


def _can(platform: Platform, workload: Workload, programs: Sequence[str], compile_only: bool) -> Availability:
    if platform.backend not in BACKENDS:
        return Availability(f"backend {platform.backend} is not available yet")
    return engine_for(platform.backend).probe(platform, workload, programs, compile_only=compile_only)


def device_pools(plan: Sequence[Job], requested: str | None) -> Mapping[str, tuple[int, ...]]:
    """The ids of the devices that each platform of a plan may use, by its name; `requested` is `--devices`.

    Raises:
        DeviceError: an id is unknown, or outside what `TASK_DEVICE` lends.
    """
    wanted = parse_ids(requested, "--devices") if requested is not None else None
    lent_text = os.environ.get(LENT)
    lent = parse_ids(lent_text, LENT) if lent_text is not None else None
    platforms = {job.platform.name: job.platform for job in plan}
    pools = {}
    for name, each in platforms.items():
        cards = [card.number for card in survey_host().of(each.soc)] if each.on_cards else []
        pools[name] = choose_ids(each, requested=wanted, lent=lent, discovered=cards or None)
    return pools


def queue_limit(arguments: Namespace) -> float | None:
    """How long jobs may wait for a card of `task-submit`; None if this host's own cards are locked."""
    if arguments.launcher == "local":
        return None
    require()
    return QUEUE if arguments.queue is None else float(arguments.queue)


def refuse_broken_toolchains(plan: Sequence[Job]) -> None:
    """Raise `ToolchainError` if a toolchain cannot be used: one error at the start, not one for every job."""
    platforms = {job.platform.name: job.platform for job in plan}
    if problems := toolchain.preflight(list(platforms.values()), os.environ):
        raise ToolchainError("\n".join(problems))
