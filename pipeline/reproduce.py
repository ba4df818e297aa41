"""The command line that runs one job again, on the same inputs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from pipeline.jobs import Job, Lane
from pipeline.options import LANES

INPUTS = "inputs"
"""The profile of a job that runs on a user's tensors."""

_OPTIONS = {"inputs": "--inputs", "injected": "--inject", "stage": "--stage", "repeats": "--repeat"}


def interpreter() -> str:
    """This Python as a user here would type it: relative where it lies below the current folder."""
    python, here = Path(sys.executable), Path.cwd()
    return str(python.relative_to(here)) if python.is_relative_to(here) else str(python)


def command_line(job: Job, settings: Mapping[str, str], python: str = "python") -> str:
    """Words for a shell in the folder of `matrix.yaml`.

    Args:
        job: `@nightly` settled: the night is then given as a date.
        settings: facts of the run: `matrix` (overlays, as words of a shell), `inputs`, `injected`, `stage`;
            `repeats`, where one time does not show it.
        python: the interpreter that has the pipeline's packages.
    """
    lane, platforms, geometry, *_, profile = job.id.split("/")
    command = next(name for name, known in LANES.items() if known is job.lane)
    words = [python, "-m", "pipeline", command]
    for overlay in shlex.split(settings.get("matrix", "")):
        words += ["--matrix", overlay]
    words += ["--engines", platforms.replace("+", ",")] if job.other else ["--platform", platforms]
    words += ["--geometry", geometry]
    if lane != Lane.COMPARE.value:
        words += ["--kernel", job.kernel]
    if job.profile and job.profile != INPUTS:
        words += ["--profile", profile]
    if job.profile and profile.endswith("@nightly"):
        night = job.profile.rpartition("@")[2]
        words += ["--date", f"{night[:4]}-{night[4:6]}-{night[6:]}"]
    for fact, option in _OPTIONS.items():
        if fact in settings:
            words += [option, settings[fact]]
    return shlex.join(words)
