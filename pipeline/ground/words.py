"""Wording that all rooms share."""

from __future__ import annotations


def counted(count: int, thing: str, things: str = "") -> str:
    """A count and its noun: `1 job`, `2 jobs`; `things` where the plural is not `thing` with an s."""
    return f"{count} {thing if count == 1 else things or f'{thing}s'}"
