"""What is installed here, which jobs of the matrix can run, and why the others cannot."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.engines.base import Availability
from pipeline.engines.identity import identify
from pipeline.engines.pypto import toolchain
from pipeline.facts import run_facts
from pipeline.jobs import Job, Lane


def installed(environment: Mapping[str, str]) -> dict[str, str]:
    """Name and version, or absence, of all that decides which jobs can run."""
    facts = run_facts(())
    here = {name: facts[name] for name in ("host", "system", "processors", "python", "numpy", "torch")}
    here["pypto of this Python"] = str(identify())
    here["g++"] = shutil.which("g++") or "none"
    here[toolchain.PYTHON] = environment.get(toolchain.PYTHON) or "not set: this Python"
    try:
        here |= {f"its {name}": version for name, version in toolchain.versions(environment).items()}
    except OSError as error:
        here["its pypto"] = f"cannot be asked: {error.strerror}"
    return here


def examine(
    jobs: Sequence[Job], available: Callable[[Job], Availability], here: Mapping[str, str]
) -> Iterator[str]:
    """The lines of the report: what is installed, then for each platform and lane how many jobs can run.

    Args:
        jobs: the plan.
        available: says whether a job can run here.
        here: what is installed, by `installed`.
    """
    width = max(map(len, here), default=0)
    yield from (f"{name:<{width}}  {version}" for name, version in here.items())
    yield ""
    for platform in dict.fromkeys(job.platform.name for job in jobs):
        for lane in Lane:
            mine = [job for job in jobs if job.platform.name == platform and job.lane is lane]
            if mine:
                yield from _platform_lines(f"{platform} {lane.value}", [available(job) for job in mine])


def _platform_lines(title: str, answers: Sequence[Availability]) -> Iterator[str]:
    can = sum(map(bool, answers))
    yield f"{title}: {can} of {len(answers)} jobs can run"
    for answer, count in Counter(answer for answer in answers if not answer).most_common():
        yield f"  {count} cannot: {answer.reason}"
        if answer.remedy:
            yield f"    remedy: {answer.remedy}"
