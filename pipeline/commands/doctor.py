"""What is installed here, which jobs of the matrix can run, and why the others cannot."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.commands.facts import run_facts
from pipeline.engines.base import Availability
from pipeline.engines.identity import identify
from pipeline.engines.pypto import toolchain
from pipeline.ground.jobs import Job
from pipeline.ground.words import counted


def installed(environment: Mapping[str, str]) -> dict[str, str]:
    """By name, the version of each thing that decides which jobs can run, or that it is missing."""
    facts = run_facts(())
    here = {name: facts[name] for name in ("host", "system", "processors", "python", "numpy", "torch")}
    here["this Python's pypto"] = str(identify())
    here["g++"] = shutil.which("g++") or "none"
    here[toolchain.PYTHON] = environment.get(toolchain.PYTHON) or "not set: this Python"
    try:
        here |= {
            f"PIPELINE_PYTHON's {name}": version for name, version in toolchain.versions(environment).items()
        }
    except OSError as error:
        here["PIPELINE_PYTHON's pypto"] = f"cannot be started: {error.strerror}"
    return here


def examine(
    jobs: Sequence[Job], available: Callable[[Job], Availability], here: Mapping[str, str]
) -> Iterator[str]:
    """The lines of the report: what is installed, how many jobs of each platform can run, why others cannot.

    Args:
        jobs: the plan.
        available: says whether a job can run here.
        here: what is installed, by `installed`.
    """
    width = max(map(len, here), default=0)
    yield from (f"{name:<{width}}  {version}" for name, version in here.items())
    yield ""
    lacking: dict[Availability, Counter[str]] = {}
    for title in dict.fromkeys(map(_title, jobs)):
        answers = [available(job) for job in jobs if _title(job) == title]
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


def _title(job: Job) -> str:
    return f"{job.platform.name} {job.lane.value}"
