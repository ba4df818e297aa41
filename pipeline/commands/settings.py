"""Reads the settings of a run from its command line, and checks them against its jobs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.commands.options import OUTPUT
from pipeline.ground.jobs import Job
from pipeline.ground.settings import DECLARED
from workloads.faults import FaultError, fault_named


def settings_given(arguments: Namespace) -> dict[str, Any]:
    """The settings that a command line gives, by name; those it leaves out are missing.

    A file of references that does not exist yet counts as none: no job can be compared with it.
    """
    values = {each.name: getattr(arguments, each.name, None) for each in DECLARED}
    given = {name: _plain(value) for name, value in values.items() if value not in (None, "", [])}
    if given["output"] == str(OUTPUT.absolute()):
        del given["output"]
    if "references" in given and not arguments.references.exists():
        given["references"] = None
    return given


def _plain(value: Any) -> Any:
    """A value as `Settings` holds it: overlays as they were written, other paths absolute."""
    if isinstance(value, list):
        return tuple(map(str, value))
    return str(value.absolute()) if isinstance(value, Path) else value


def check_injection(name: str, plan: Sequence[Job]) -> None:
    """Raise `FaultError` if there is no such fault, or if a job does not run on the emulator."""
    fault_named(name)
    for job in plan:
        platform = job.platforms[0]
        if platform.backend != "emulator":
            raise FaultError(
                f"--inject {name}: faults are injected on the emulator only, and {job.id} runs on "
                f"{platform.backend}: choose platforms with --platform"
            )
