"""The one error of a matrix that is refused, and the wording all its refusals share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from golden.errors import UserError

_SHOWN = 60


class MatrixError(UserError):
    """A matrix is refused: one line, `file:line: key: what; remedy`.

    Args:
        file: path of the file as the user gave it.
        line: line of the fault, from 1; None where the file could not be read at all.
        path: keys and list positions that lead to the fault.
        message: what is wrong, and the remedy.
    """

    def __init__(self, file: str, line: int | None, path: Iterable[str | int], message: str) -> None:
        place = file if line is None else f"{file}:{line}"
        key = dotted(path)
        super().__init__(": ".join(part for part in (place, key, message) if part))


def dotted(path: Iterable[str | int]) -> str:
    """Write a path as `lanes.device.include[0].platforms`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown(step)}" for step in path)
    return "".join(steps).lstrip(".")


def shown(value: object) -> str:
    """Show a user's value on one line, as YAML writes it; unprintable text is escaped, long text is cut."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text.isprintable():
        text = ascii(text)[1:-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def closest(name: str, known: Iterable[str]) -> str:
    """Say which known name comes nearest to a wrong one."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return f"the closest known name is `{nearest[0]}`" if nearest else "none is known"


def close_or_all(name: str, known: Iterable[str]) -> str:
    """Say which known name a wrong one resembles; if it resembles none, list all that are known."""
    names = list(known)
    if difflib.get_close_matches(name, names, n=1):
        return closest(name, names)
    return f"write one of {', '.join(f'`{each}`' for each in names)}"
