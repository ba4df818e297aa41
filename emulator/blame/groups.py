"""Which suspicions are one cause, and which findings are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from emulator.backward import Fault, Suspicion
from emulator.blame.finding import Finding
from emulator.operands import Position
from emulator.trace import Line


def grouped(found: Sequence[Suspicion]) -> list[list[Suspicion]]:
    """The suspicions of each line, those with most elements first.

    Where one of two lines is at fault, and something else is seen of one of them, it is that one.
    """
    certain = {suspicion.event.line for suspicion in found if suspicion.also is None}
    lines: dict[Line, list[Suspicion]] = {}
    for suspicion in sorted(found, key=lambda each: each.event.number):
        also = suspicion.also
        if also is not None and also.line in certain and suspicion.event.line not in certain:
            continue
        if also is not None and suspicion.event.line in certain and also.line not in certain:
            suspicion = replace(suspicion, also=None)
        lines.setdefault(suspicion.event.line, []).append(suspicion)
    groups = [group for line in lines.values() for group in _apart(line)]
    return sorted(groups, key=lambda group: -sum(suspicion.count for suspicion in group))


def _apart(line: Sequence[Suspicion]) -> list[list[Suspicion]]:
    """The suspicions of one line, those apart that are wrong by another distance in another band."""
    chains: dict[Position, list[Suspicion]] = {}
    for suspicion in line:
        chains.setdefault(suspicion.event.step.call.position, []).append(suspicion)
    groups: dict[Any, list[Suspicion]] = {}
    for chain_of in chains.values():
        distances = frozenset(map(_distance, chain_of))
        groups.setdefault(distances if len(distances) == 1 else None, []).extend(chain_of)
    return [sorted(group, key=lambda each: each.event.number) for group in groups.values()]


def _distance(suspicion: Suspicion) -> tuple[int, int] | None:
    """How many rows and columns from where it should an operator reads or writes; None if it is not that."""
    if suspicion.right is None:
        return None
    numbers = suspicion.event.numbers
    row, column = suspicion.event.at if suspicion.fault is Fault.PLACE else numbers.get("from", (0, 0))
    return suspicion.right[0] - row, suspicion.right[1] - column


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those with one cause together: a number, or an operator of a helper in several lines."""
    causes: dict[Any, list[Finding]] = {}
    for finding in findings:
        hint, callers_of = finding.hint, finding.position.caller
        cause: Any = finding
        if hint is not None:
            cause = hint.text, hint.position.file, hint.origin or hint.position.line, str(hint.right)
        elif finding.operator == "call":
            cause = finding.position
        elif callers_of is not None:
            cause = finding.operator, finding.position.file, callers_of.file, str(callers_of.line)
        causes.setdefault(id(cause) if cause is finding else cause, []).append(finding)
    return [_together(alike) for alike in causes.values()]


def _together(alike: Sequence[Finding]) -> Finding:
    first = alike[0]
    words = (
        "; ".join(dict.fromkeys(each.words for each in alike)) if first.operator == "call" else first.words
    )
    lines = (position for finding in alike for position in (finding.position, *finding.others))
    return replace(
        first,
        words=words,
        elements=sum(finding.elements for finding in alike),
        others=tuple(position for position in dict.fromkeys(lines) if position != first.position),
    )
