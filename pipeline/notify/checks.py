"""A run as annotations of a GitHub check: one for each cause, at the line of the kernel where it is known."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import kernels
from pipeline.ground.jobs import State
from pipeline.ground.results import DIAGNOSIS, WRONG_STEP, Result, StageResult
from pipeline.ground.words import counted
from pipeline.report.overview import Group, overview
from pipeline.report.text import likely, one_line, safe
from pipeline.results.fingerprint import wrong_stages

MOST = 10
"""Annotations of one kind that GitHub shows of a step."""

_LINE = re.compile(r"(?<![\w./-])([\w./-]+\.py):(\d+)")
"""It is looked for where a word begins only, so that a search takes linear time."""
_KERNELS = Path(kernels.__file__).parent
_TITLE = 200
_LINES = 20
"""Lines of files that are looked up, of those that a text names."""

_NAME = 255
"""Bytes of the name of a file, at most; a search for a longer one raises."""

_TOLD = 2_000
"""Characters of a text in which a line is looked for."""


def annotated(results: Sequence[Result], checkout: Path) -> Iterator[str]:
    """Workflow commands, at most `MOST` of each kind: errors, and warnings for what says nothing of a kernel.

    Paths are relative to `checkout`, as GitHub looks for them.
    """
    groups = overview(results).broken
    for kind, of_host in (("error", False), ("warning", True)):
        told = [group for group in groups if (group.state is State.INFRASTRUCTURE) is of_host]
        shown = told if len(told) <= MOST else told[: MOST - 1]
        yield from (_command(kind, group, checkout) for group in shown)
        if more := told[len(shown) :]:
            jobs = counted(sum(len(group.results) for group in more), "job")
            yield f"::{kind} title=More causes::{counted(len(more), 'more cause')}, {jobs}: see the summary"


def line_of(result: Result, checkout: Path) -> tuple[str, int] | None:
    """The file, relative to `checkout`, and the line of the kernel at fault; None if none is known."""
    return next(lines_of(result, checkout), None)


def lines_of(result: Result, checkout: Path) -> Iterator[tuple[str, int]]:
    """The lines of kernels that a result names, the surest first; some may come again.

    Files are looked for among the shipped kernels and beside the user's own workload.
    """
    own = [Path(result.job.workload.file).parent] if result.job.workload.file else []
    for text in _tellings(result):
        for match in islice(_LINE.finditer(text[:_TOLD]), _LINES):
            name = Path(match[1])
            if len(name.name.encode()) > _NAME:
                continue
            beside = (folder / name for folder in own)
            for path in (*beside, *sorted(_KERNELS.rglob(name.name))):
                if os.path.isfile(path):  # noqa: PTH113 (`Path` raises if it is too long)
                    yield os.path.relpath(path, checkout), int(match[2])
                    break


def _tellings(result: Result) -> Iterator[str]:
    """The texts that may name a line, the surest first."""
    tellers: list[StageResult | Result] = [*wrong_stages(result), result]
    for of in tellers:
        yield from (of.facts.get(name, "") for name in (WRONG_STEP, DIAGNOSIS))
        yield of.message


def _command(kind: str, group: Group, checkout: Path) -> str:
    place = next(filter(None, (line_of(one, checkout) for one in group.results)), None)
    properties = {"title": one_line(group.heading(), _TITLE)}
    if place is not None:
        properties = {"file": place[0], "line": str(place[1]), **properties}
    again = f"again: {group.again}" if group.again else ""
    message = "\n".join(filter(None, (group.message, f"where: {group.where}", likely(group.why), again)))
    told = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::{kind} {told}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """A text as workflow commands need it: line ends would end the command, `more` the property."""
    text = safe(text)
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
