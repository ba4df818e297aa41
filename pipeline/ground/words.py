"""Wording that all packages share."""

from __future__ import annotations


def counted(count: int, thing: str, things: str = "") -> str:
    """A count and its noun: `1 job`, `2 jobs`; `things` is the plural if it is not `thing` with an s."""
    return f"{count} {thing if count == 1 else things or f'{thing}s'}"
