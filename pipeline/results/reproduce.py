"""The command line that runs one job again, on the same inputs, or that finishes its run."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

from pipeline.commands.options import LANES, OUTPUT
from pipeline.ground.jobs import INPUTS, REPRODUCE, Job, Lane, State
from pipeline.ground.settings import Settings
from pipeline.run.listener import RunSummary


def interpreter() -> str:
    """This Python as a user here would type it: relative where it lies below the current folder."""
    python, here = Path(sys.executable), Path.cwd()
    return str(python.relative_to(here)) if python.is_relative_to(here) else str(python)


def command_line(job: Job, settings: Settings, python: str = "python") -> str:
    """Words for a shell in the folder of `matrix.yaml`.

    Args:
        job: `@nightly` settled: the night is then given as a date.
        settings: of the job's run; all that are not the default are named.
        python: the interpreter that has the pipeline's packages.
    """
    lane, platforms, geometry, *_, last = job.id.split("/")
    words = [python, "-m", "pipeline", _command(job)]
    words += ["--engines", platforms.replace("+", ",")] if job.other else ["--platform", platforms]
    words += ["--geometry", geometry]
    if lane != Lane.COMPARE.value:
        words += ["--kernel", job.kernel]
    if job.profile and job.profile != INPUTS and job.lane is not Lane.COMPILE:
        words += ["--profile", last]
    # An id of the compile lane does not tell whether the seed was drawn; if not, a date does no harm.
    if settings.date is None and (last.endswith("@nightly") or job.lane is Lane.COMPILE):
        settings = replace(settings, date=_night(job.profile or ""))
    return shlex.join(words + settings.words())


def with_resume(summary: RunSummary) -> RunSummary:
    """A run's summary in which each job that was interrupted has the command line that finishes the run.

    The run's other settings stand in its journal.
    """
    output = summary.folder.parent.parent
    settings = Settings(output=None if output == OUTPUT.absolute() else str(output))
    rest = ["--resume", summary.run_id, *settings.words()]
    results = list(summary.results)
    for place, result in enumerate(results):
        if result.state is State.INTERRUPTED:
            line = shlex.join([interpreter(), "-m", "pipeline", _command(result.job), *rest])
            results[place] = replace(result, facts={**result.facts, REPRODUCE: line})
    return replace(summary, results=tuple(results))


def _command(job: Job) -> str:
    return next(name for name, lane in LANES.items() if lane is job.lane)


def _night(profile: str) -> date | None:
    """The night that gave a profile its seed; None where the seed is not a date."""
    drawn = re.search(r"@(\d{4})(\d\d)(\d\d)$", profile)
    try:
        return date(*map(int, drawn.groups())) if drawn else None
    except ValueError:
        return None
