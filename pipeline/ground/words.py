"""Wording that all packages share."""

from __future__ import annotations

from collections.abc import Sequence

_PARTS = 6


def counted(count: int, thing: str, things: str = "") -> str:
    """A count and its noun: `1 job`, `2 jobs`; `things` is the plural if it is not `thing` with an s."""
    return f"{count} {thing if count == 1 else things or f'{thing}s'}"


def listed(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: `5, 37`, `0..31`, `0, 2, ..., 62`; of more than six parts the first six."""
    parts, first = [], 0
    while first < len(numbers):
        last = first
        while (
            last + 1 < len(numbers)
            and numbers[last + 1] - numbers[last] == numbers[first + 1] - numbers[first]
        ):
            last += 1
        step = numbers[last] - numbers[last - 1]
        if last - first < (2 if step == 1 else 3):
            parts.append((str(numbers[first]), 1))
            first += 1
            continue
        between = ".." if step == 1 else f", {numbers[first + 1]}, ..., "
        parts.append((f"{numbers[first]}{between}{numbers[last]}", last - first + 1))
        first = last + 1
    more = sum(count for _, count in parts[_PARTS:])
    return ", ".join(text for text, _ in parts[:_PARTS]) + (f" and {more} more" if more else "")
