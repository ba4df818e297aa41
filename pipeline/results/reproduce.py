"""The command line that runs one job again, on the same inputs, or that finishes its run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from golden import profiles
from pipeline.commands.options import LANES, OUTPUT
from pipeline.ground.jobs import REPRODUCE, Job, Lane, State
from pipeline.run.listener import RunSummary

INPUTS = "inputs"
"""The profile of a job that runs on a user's tensors."""

_OPTIONS = {
    "inputs": "--inputs",
    "injected": "--inject",
    "stage": "--stage",
    "repeats": "--repeat",
    "references": "--references",
    "output": "--output",
}


def interpreter() -> str:
    """This Python as a user here would type it: relative where it lies below the current folder."""
    python, here = Path(sys.executable), Path.cwd()
    return str(python.relative_to(here)) if python.is_relative_to(here) else str(python)


def command_line(job: Job, settings: Mapping[str, str], python: str = "python") -> str:
    """Words for a shell in the folder of `matrix.yaml`.

    Args:
        job: `@nightly` settled: the night is then given as a date.
        settings: facts of the run: `matrix` (overlays, as words of a shell), `inputs`, `injected`, `stage`;
            `repeats`, where one time does not show it; `references` and `output`, where they are not the
            usual ones.
        python: the interpreter that has the pipeline's packages.
    """
    profile = job.written_profile or job.profile
    words = [python, "-m", "pipeline", _command(job)]
    for overlay in shlex.split(settings.get("matrix", "")):
        words += ["--matrix", overlay]
    option = "--engines" if job.other else "--platform"
    words += [option, ",".join(platform.name for platform in job.platforms)]
    words += ["--geometry", job.geometry_name]
    if job.lane is not Lane.COMPARE:
        words += ["--kernel", job.kernel]
    if profile and profile != INPUTS and job.lane is not Lane.COMPILE:
        words += ["--profile", profile]
    if job.written_profile:
        words += ["--date", _night(job).isoformat()]
    for fact, option in _OPTIONS.items():
        if fact in settings:
            words += [option, settings[fact]]
    return shlex.join(words)


def with_resume(summary: RunSummary) -> RunSummary:
    """A run's summary in which each job that was interrupted has the command line that finishes the run."""
    output = summary.folder.parent.parent
    rest = ["--resume", summary.run_id, *(["--output", str(output)] if output != OUTPUT.absolute() else [])]
    results = list(summary.results)
    for place, result in enumerate(results):
        if result.state is State.INTERRUPTED:
            line = shlex.join([interpreter(), "-m", "pipeline", _command(result.job), *rest])
            results[place] = replace(result, facts={**result.facts, REPRODUCE: line})
    return replace(summary, results=tuple(results))


def _command(job: Job) -> str:
    return next(name for name, lane in LANES.items() if lane is job.lane)


def _night(job: Job) -> date:
    """The night that gave the profile its seed, which is its date."""
    _, seed = profiles.parse(job.profile or "")
    return date(seed // 10_000, seed // 100 % 100, seed % 100)
