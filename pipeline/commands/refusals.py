"""Options that do not go together, refused before anything is done."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from pipeline.commands.options import REFERENCES
from pipeline.commands.selection import BASE
from pipeline.ground.files import destination
from pipeline.ground.settings import DECLARED
from pipeline.ground.words import shown
from pipeline.matrix.select import FilterError


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
    taken = {destination(path) for path in read if path is not None}
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
    if destination(path).is_symlink():
        raise FilterError(f"--{option} {path}: is a loop of symbolic links; name another")


def refuse_unheeded(arguments: Namespace) -> None:
    """Raise `FilterError` if an option that selects jobs is given with `--resume` or `--failed`.

    Also if `--queue` is given without `task-submit`.
    """
    if arguments.queue is not None and arguments.launcher != "task-submit":
        raise FilterError(f"--queue does not go with --launcher {arguments.launcher}, only with task-submit")
    brought = next((name for name in ("resume", "failed") if getattr(arguments, name)), None)
    for name in ("geometry", "platform", "kernel", "profile", "id", "shard", "engines"):
        if brought and getattr(arguments, name, None):
            raise FilterError(f"--{name} does not go with --{brought}, which brings a plan of its own")
