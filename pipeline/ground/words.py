"""Wording that all packages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_PARTS = 6
_SHOWN = 60
_FEW = 8
_TELLING = 4
"""Characters of a beginning that tell which name is meant."""


def counted(count: int, thing: str, things: str = "") -> str:
    """A count and its noun: `1 job`, `2 jobs`; `things` is the plural if it is not `thing` with an s."""
    return f"{count} {thing if count == 1 else things or f'{thing}s'}"


def unbroken(text: str) -> str:
    r"""A text on one line, for a terminal: a path or a file's text that it quotes may hold anything.

    What does not print, such as a control of the cursor or of the writing direction, becomes an escape such
    as `\u202e`.
    """
    line = " ".join(text.splitlines())
    return line if line.isprintable() else "".join(map(_escaped, line))


def _escaped(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def shown(value: object) -> str:
    """Show a user's value on one line, as YAML writes it; unprintable text is escaped, long text is cut."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text.isprintable():
        text = ascii(text)[1:-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def closest(name: str, known: Iterable[str]) -> str:
    """Say which known name a wrong one resembles; if it resembles none, say so, or list them if few are."""
    names = list(known)
    if not names:
        return "none is known"
    said = close_or_all(name, names)
    return "no known name is close to it" if len(names) > _FEW and said == _all(names) else said


def close_or_all(name: str, known: Iterable[str]) -> str:
    """Say which known name a wrong one begins or resembles; if there is none, list all that are known."""
    import difflib  # imported here, because only a mistake needs it

    names = list(known)
    longer = [each for each in names if len(name) >= _TELLING and each.startswith(name)]
    nearest = difflib.get_close_matches(name, longer or names, n=1, cutoff=0.0 if longer else 0.6)
    return f"the closest known name is `{nearest[0]}`" if nearest else _all(names)


def _all(names: Iterable[str]) -> str:
    return f"write one of {', '.join(f'`{each}`' for each in names)}"


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
