"""Reads the settings of a run from its command line; refuses what does not go together, or with its jobs."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.commands.options import OUTPUT, REFERENCES, RELATIVE
from pipeline.commands.selection import BASE
from pipeline.ground.files import destination, is_there
from pipeline.ground.jobs import Job
from pipeline.ground.settings import DECLARED
from pipeline.ground.words import shown
from pipeline.matrix.select import FilterError
from pipeline.report.files import ReportFiles
from workloads.faults import FaultError, fault_named

CHECKOUT = "CI_PROJECT_DIR"
"""Environment variable in which GitLab names the checkout of a job; paths in its reports start there."""

MOST_JOBS = 1024
"""The most jobs that one host runs in parallel: each has processes, open files and tensors of its own."""


def settings_given(arguments: Namespace) -> dict[str, Any]:
    """The settings that a command line gives, by name; those it leaves out are missing.

    A file of references that does not exist yet counts as none: no job can be compared with it.
    """
    values = {each.name: getattr(arguments, each.name, None) for each in DECLARED}
    given = {
        name: _plain(value)
        for name, value in values.items()
        if value not in (None, "", []) and value is not False  # 0 is given, a flag that is off is not
    }
    if given["output"] == str(OUTPUT.absolute()):
        del given["output"]
    if "references" in given and not is_there(arguments.references):
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


def report_files(arguments: Namespace, *, retold: bool = False) -> ReportFiles:
    """The report files that a command line asks for. Raises `ReportError` if one cannot be written.

    Relative paths in them start at GitLab's checkout or else at the current folder.
    """
    start = Path(os.environ.get(CHECKOUT) or Path.cwd()) if arguments.attachments == RELATIVE else None
    return ReportFiles(arguments.junit, arguments.summary, start, retold=retold)


def refuse_unsayable(arguments: Namespace) -> None:
    """Raise `FilterError` if a path is not UTF-8: the journal could not hold it."""
    for each in DECLARED:
        value = getattr(arguments, each.name, None)
        for path in value if isinstance(value, list) else [value]:
            try:
                str(path.absolute() if isinstance(path, Path) else path).encode()
            except UnicodeEncodeError:
                raise FilterError(
                    f"{each.option} {shown(path)}: its full path is not UTF-8; name another"
                ) from None


def refuse_overwriting(arguments: Namespace) -> None:
    """Raise `FilterError` if a report would overwrite a file that the run needs, or the other report."""
    given = vars(arguments)
    read = [BASE, REFERENCES, *given.get("matrix", ()), given.get("references"), given.get("inputs")]
    read.append(given.get("baseline"))
    taken = {destination(Path(path)) for path in read if path is not None}
    for option in ("junit", "summary"):
        path: Path | None = getattr(arguments, option)
        if path is None:
            continue
        refuse_loop(option, path)
        if destination(path) in taken:
            raise FilterError(f"--{option} {path}: this file has another use in this run; name another")
        taken.add(destination(path))


def refuse_loop(option: str, path: Path) -> None:
    """Raise `FilterError` if the path of a report is a loop of symbolic links."""
    if os.path.islink(destination(path)):  # noqa: PTH114 (`Path` raises if the name is too long)
        raise FilterError(f"--{option} {path}: is a loop of symbolic links; name another")


def refuse_unheeded(arguments: Namespace) -> None:
    """Raise `FilterError` if an option that selects jobs is given with `--resume` or `--failed`.

    Also if `--queue` is given without `task-submit`, or `--address` without `--executor ray`, or if there are
    more `--jobs` than one host can run in parallel.
    """
    if arguments.executor == "local" and arguments.jobs > MOST_JOBS:
        raise FilterError(
            f"--jobs {arguments.jobs} does not go with --executor local, which runs at most {MOST_JOBS} in "
            "parallel; leave it out for one per processor"
        )
    if arguments.queue is not None and arguments.launcher != "task-submit":
        raise FilterError(f"--queue does not go with --launcher {arguments.launcher}, only with task-submit")
    if arguments.address is not None and arguments.executor != "ray":
        raise FilterError(f"--address does not go with --executor {arguments.executor}, only with ray")
    if arguments.executor == "ray" and arguments.launcher != "local":
        raise FilterError(f"--launcher {arguments.launcher} does not go with --executor ray; leave one out")
    brought = next((name for name in ("resume", "failed") if getattr(arguments, name)), None)
    for name in ("geometry", "platform", "kernel", "profile", "id", "shard", "engines"):
        if brought and getattr(arguments, name, None):
            raise FilterError(f"--{name} does not go with --{brought}, which brings a plan of its own")
