"""Wording that all packages share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 60


def counted(count: int, thing: str, things: str = "") -> str:
    """A count and its noun: `1 job`, `2 jobs`; `things` is the plural if it is not `thing` with an s."""
    return f"{count} {thing if count == 1 else things or f'{thing}s'}"


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
