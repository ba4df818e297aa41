"""The command line that runs one job again, on the same inputs, or that finishes its run."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from pipeline.commands.options import LANES, OUTPUT
from pipeline.ground.jobs import INPUTS, REPRODUCE, Job, Lane, State
from pipeline.run.listener import RunSummary

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
    lane, platforms, geometry, *_, last = job.id.split("/")
    words = [python, "-m", "pipeline", _command(job)]
    for overlay in shlex.split(settings.get("matrix", "")):
        words += ["--matrix", overlay]
    words += ["--engines", platforms.replace("+", ",")] if job.other else ["--platform", platforms]
    words += ["--geometry", geometry]
    if lane != Lane.COMPARE.value:
        words += ["--kernel", job.kernel]
    if job.profile and job.profile != INPUTS and job.lane is not Lane.COMPILE:
        words += ["--profile", last]
    # An id of the compile lane does not tell whether the seed was drawn; if not, a date does no harm.
    if last.endswith("@nightly") or job.lane is Lane.COMPILE:
        words += _date(job.profile or "")
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


def _date(profile: str) -> list[str]:
    """The option that draws a profile's seed again, where it is one that a night gives."""
    drawn = re.search(r"@(\d{4})(\d\d)(\d\d)$", profile)
    try:
        return ["--date", date(*map(int, drawn.groups())).isoformat()] if drawn else []
    except ValueError:
        return []
