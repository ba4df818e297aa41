"""What reports say as text: metrics, and what kernels and tools print, made legal XML and bounded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pipeline.ground.results import PROGRAM_RIGHT, PROGRAM_WRONG, UNEXPLAINED, Metric, StageResult

_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_ILLEGAL = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd"
    + "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 17))
    + "]"
)
_TURNING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Controls of the writing direction, by which a text can look like another one."""

_BREAKING = str.maketrans({code: f"\\u{code:04x}" for code in (0x2028, 0x2029, 0xFFFD, *_TURNING)})
"""Legal characters at which viewers or readers fail: the first two end a line of JavaScript."""

_ATTACHMENT = "[[ATTACHMENT|"

_DECIMALS = {"us": 1}
"""Digits behind the point by unit; all others are whole numbers."""


def safe(text: str) -> str:
    r"""Make any string fit for a report.

    Characters that XML 1.0 forbids or discourages (controls, lone surrogates, non-characters) and terminal
    colour sequences are removed. Characters at which viewers fail, and controls of the writing direction,
    become escapes such as `\ufffd`. An
    attachment line gets a blank, so that a program's output cannot choose which of the host's files a
    dashboard publishes.
    """
    legal = _ILLEGAL.sub("", _COLOUR.sub("", text))
    return legal.translate(_BREAKING).replace(_ATTACHMENT, "[[ATTACHMENT |")


def cut(text: str, limit: int) -> str:
    """Keep about `limit` characters, the head and the tail, and say between them how many were cut.

    A text is whole if what would be said in its place is as long.
    """
    half = limit // 2
    gone = len(text) - 2 * half
    said = f"\n[... {gone} of {len(text)} characters cut ...]\n"
    return (
        text if len(text) <= limit or gone <= len(said) else f"{text[:half]}{said}{text[len(text) - half :]}"
    )


def bounded(text: str, limit: int) -> str:
    """`safe` text of about `limit` characters; cut before it is cleaned: 50 MB cost no more than 50 KB."""
    return safe(cut(text, limit))


def one_line(text: str, limit: int = 500) -> str:
    """`bounded` text with every run of white space as one blank: for attributes, names and facts."""
    return " ".join(bounded(text, limit).split())


def short_commit(commit: str) -> str:
    """The first digits of a commit, and whether the sources were changed since."""
    return one_line(commit)[:12] + ("-dirty" if commit.endswith("-dirty") else "")


def quoted(text: str, limit: int = 500) -> str:
    """As code in Markdown, so that nothing in it is read as Markdown, HTML, or a mention."""
    return f"`{one_line(text, limit).replace('`', chr(0x2CB)) or ' '}`"


def likely(why: str, quote: Callable[[str], str] = one_line) -> str:
    """Why something is wrong: what is most likely, what a proof says, or for what reason nothing is known.

    `quote` quotes it.
    """
    for sure in (UNEXPLAINED, PROGRAM_WRONG, PROGRAM_RIGHT):
        if why.startswith(sure):
            return sure + quote(why.removeprefix(sure))
    return f"most likely: {quote(why)}"


def alternatives(causes: Iterable[str]) -> str:
    """Causes that explain equally much, in one line; empty if there is none."""
    return one_line(" or ".join(causes))


def shown(metric: Metric) -> str:
    """A metric's value, with its limit if it has one: `1024 of 524288`."""
    digits = _DECIMALS.get(metric.unit, 0)
    of = f" of {metric.limit:.{digits}f}" if metric.limit is not None else ""
    return f"{metric.value:.{digits}f}{of}"


def facts_of(stage: StageResult) -> dict[str, str]:
    """All that is known of a stage as text, by name: its metrics, then its facts."""
    return {**{metric.name: shown(metric) for metric in stage.metrics}, **stage.facts}
