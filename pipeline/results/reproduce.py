"""The command line that runs one job again, on the same inputs, or that finishes its run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from golden import profiles
from pipeline.commands.options import LANES, OUTPUT
from pipeline.ground.computed import Computed
from pipeline.ground.jobs import INPUTS, Job, Lane, State
from pipeline.ground.results import REPRODUCE, Result
from pipeline.ground.settings import Settings
from pipeline.run.listener import RunSummary


def interpreter() -> str:
    """This Python as a user here would type it: relative where it lies below the current folder."""
    python, here = Path(sys.executable), Path.cwd()
    return str(python.relative_to(here)) if python.is_relative_to(here) else str(python)


def command_line(job: Job, settings: Settings, device: int | None = None) -> str:
    """The command line of a job, to be run in the folder of `matrix.yaml`.

    Args:
        job: with the seed of `@nightly` settled; the night is then given as a date.
        settings: of the job's run; all that are not the default are named.
        device: the one that its run chose for it, if any.
    """
    profile = job.written_profile or job.profile
    option = "--engines" if job.other else "--platform"
    words = [option, ",".join(platform.name for platform in job.platforms)]
    words += ["--geometry", job.geometry_name]
    if job.lane is not Lane.COMPARE:
        words += ["--kernel", job.kernel]
    if profile and profile != INPUTS and job.lane is not Lane.COMPILE:
        words += ["--profile", profile]
    if device is not None:
        words += ["--devices", str(device)]
    if job.written_profile and settings.date is None:
        # The night that gave the profile its seed.
        night = datetime.strptime(str(profiles.seed_of(job.profile or "")), "%Y%m%d").date()
        settings = replace(settings, date=night)
    return _call(job, words + settings.words())


def with_resume(summary: RunSummary) -> RunSummary:
    """A run's summary in which each job that was interrupted has the command line that finishes the run.

    The run's other settings are in its journal.
    """
    output = summary.folder.parent.parent
    settings = Settings(output=None if output == OUTPUT.absolute() else str(output))
    rest = ["--resume", summary.run_id, *settings.words()]

    def told(result: Result) -> Result:
        if result.state is not State.INTERRUPTED:
            return result
        return replace(result, facts={**result.facts, REPRODUCE: _call(result.job, rest)})

    return replace(summary, results=Computed(told, summary.results))


def _call(job: Job, words: Sequence[str]) -> str:
    command = next(name for name, lane in LANES.items() if lane is job.lane)
    return shlex.join([interpreter(), "-m", "pipeline", command, *words])
