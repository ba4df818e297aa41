"""Which lines of a program are to blame for a failed proof, in words, and which number would mend them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from emulator.backward import NOTHING, Fault, Suspicion, suspicions
from emulator.coordinates import Coordinates
from emulator.elements import PADDING
from emulator.engine import walk_program
from emulator.errors import AccessError, KernelError, callers
from emulator.program import Position, Program, Ref
from emulator.repair import Change, candidates, loops_around, numbered
from emulator.soc import Soc
from emulator.terms import NEVER, Ids, Numbering
from emulator.trace import Recorder


@dataclass(frozen=True)
class Hint:
    """A number of the source that is wrong.

    Attributes:
        operand: the operand of the operator, or `start` or `stop` of a loop.
        text: what the source says for it, such as `band_mid_start`.
        position: where this text stands.
        value: what it is now.
        right: the one value that is right in every round.
        origin: the assignment that gave the name its value, in words with its line; empty if it has none.
    """

    operand: str
    text: str
    position: Position
    value: Any
    right: Any
    origin: str = ""

    def __str__(self) -> str:
        came = f" ({self.origin})" if self.origin else ""
        return (
            f"{self.text}, {self.position}, is {self.value}{came}; {self.right} would be right in every round"
        )


@dataclass(frozen=True)
class Finding:
    """One cause of wrong elements.

    Attributes:
        position: the line, with its callers.
        operator: such as `tile.fixpipe_requant`; `for` where a loop is too short.
        rounds: the first rounds in which it is wrong.
        tensor: the tensor of the definition whose computation it is part of.
        words: what is wrong, without the place and the hint.
        elements: elements that are wrong there.
        others: further lines that would explain it as well.
        hint: the number that would mend it.
    """

    position: Position
    operator: str
    rounds: Mapping[str, int]
    tensor: str
    words: str
    elements: int
    others: tuple[Position, ...] = ()
    hint: Hint | None = None

    def __str__(self) -> str:
        """The finding in one line."""
        where = [self.operator.rpartition(".")[2], chain(self.position)]
        where += [f"{name} {index}" for name, index in self.rounds.items()]
        hint = f"; {self.hint}" if self.hint else ""
        return f"{', '.join(where)}: {self.words}{hint}"


def chain(position: Position) -> str:
    """A line and those that called it, the innermost first."""
    return " < ".join(map(str, (position, *callers(position))))


def blame(
    program: Program, soc: Soc, numbering: Numbering, given: Mapping[str, Ids], wanted: Mapping[str, Ids]
) -> tuple[Finding, ...]:
    """Find the lines to blame for a proof that failed.

    Args:
        program: the typed program.
        soc: the soc whose capacities apply.
        numbering: the ids of the workload's elements.
        given: the ids of the inputs of `main`, by parameter.
        wanted: the ids that the outputs must have, by parameter.

    Returns:
        The findings, the one that most elements are wrong by first; none where nothing was found.

    Raises:
        CapacityError: a memory is over its capacity.
    """
    try:
        found = _suspicions(program, soc, numbering, given, wanted)
    except AccessError as error:
        return (_refused(error),)
    groups = _grouped(found)
    lines = [_line(group[0]) for group in groups]
    trials = _Trials(program, soc, numbering, given, wanted)
    findings = [_finding(program, numbering, group, lines, trials) for group in groups]
    return tuple(_merged(findings))


def _suspicions(
    program: Program, soc: Soc, numbering: Numbering, given: Mapping[str, Ids], wanted: Mapping[str, Ids]
) -> list[Suspicion]:
    recorder = Recorder(numbering)
    outputs = {name: np.full(ids.shape, NEVER, numbering.dtype) for name, ids in wanted.items()}
    try:
        walk_program(program, soc, {**given, **outputs}, recorder)
    except AccessError as error:
        error.rounds = recorder.rounds
        raise
    recorder.finish()
    return suspicions(recorder, numbering, {recorder.output(name): ids for name, ids in wanted.items()})


Line = tuple[str, int, str]
"""A file, a line, and the operator there."""


def _line(suspicion: Suspicion) -> Line:
    call = suspicion.event.step.call
    return call.position.file, call.position.line, call.operator


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those with one cause together: one number, or one operator of a helper in several lines."""
    causes: dict[Any, list[Finding]] = {}
    for finding in findings:
        hint, callers_of = finding.hint, finding.position.caller
        cause: Any = finding
        if hint is not None:
            cause = hint.text, hint.position.file, hint.origin or hint.position.line, hint.right
        elif callers_of is not None:
            cause = finding.operator, finding.position.file, callers_of.file, callers_of.line
        causes.setdefault(id(cause) if cause is finding else cause, []).append(finding)
    return [_together(alike) for alike in causes.values()]


def _together(alike: Sequence[Finding]) -> Finding:
    first, *others = alike
    lines = (position for finding in alike for position in (finding.position, *finding.others))
    return replace(
        first,
        elements=sum(finding.elements for finding in alike),
        others=tuple(position for position in dict.fromkeys(lines) if position != first.position),
    )


def _refused(error: AccessError) -> Finding:
    """What the walk itself refused."""
    return Finding(error.position, error.operator.removeprefix("pl."), error.rounds, "", error.problem, 0)


def _grouped(found: Sequence[Suspicion]) -> list[list[Suspicion]]:
    """The suspicions of each line, those with most elements first."""
    lines: dict[Line, list[Suspicion]] = {}
    for suspicion in sorted(found, key=lambda each: each.event.number):
        lines.setdefault(_line(suspicion), []).append(suspicion)
    return sorted(lines.values(), key=lambda group: -sum(suspicion.count for suspicion in group))


_SECONDS = 6.0
"""Seconds of processor time after which no further number is tried."""


class _Trials:
    """Proves changed programs."""

    def __init__(
        self,
        program: Program,
        soc: Soc,
        numbering: Numbering,
        given: Mapping[str, Ids],
        wanted: Mapping[str, Ids],
    ) -> None:
        self._program, self._soc, self._numbering = program, soc, numbering
        self._given, self._wanted = given, wanted
        self._until = time.process_time() + _SECONDS
        self._now = self._wrong(program)

    def hint(self, group: Sequence[Suspicion], lines: Sequence[Line]) -> Hint | None:
        """A number that mends what a line is under suspicion of.

        Either nothing is wrong with it any more, or less is and of all `lines` under suspicion this one no
        longer is, and no other has come.
        """
        for change in candidates(self._program, group):
            if time.process_time() > self._until:
                break
            program = change.applied(self._program)
            wrong = self._wrong(program)
            if wrong == 0 or (
                wrong < self._now and len(lines) > 1 and self._better(program, _line(group[0]), lines)
            ):
                return _hint(change)
        return None

    def _better(self, program: Program, line: Line, lines: Sequence[Line]) -> bool:
        left = {
            _line(suspicion)
            for suspicion in _suspicions(program, self._soc, self._numbering, self._given, self._wanted)
        }
        return line not in left and left <= set(lines)

    def _wrong(self, program: Program) -> float:
        """How many elements of the outputs are wrong; infinitely many if the program is refused."""
        outputs = {
            name: np.full(ids.shape, NEVER, self._numbering.dtype) for name, ids in self._wanted.items()
        }
        try:
            walk_program(program, self._soc, {**self._given, **outputs}, Coordinates(self._numbering))
        except (KernelError, ValueError, IndexError, AssertionError, KeyError):
            return float("inf")
        return float(sum(int((outputs[name] != ids).sum()) for name, ids in self._wanted.items()))


def _hint(change: Change) -> Hint:
    leaf = change.leaf
    origin = "" if leaf.origin is None else f"{leaf.origin.text}, {leaf.origin.position}"
    value, right = (each.name if isinstance(each, Ref) else each for each in (leaf.value, change.value))
    return Hint(change.operand, leaf.text, leaf.position, value, right, origin)


def _finding(
    program: Program, numbering: Numbering, group: Sequence[Suspicion], lines: Sequence[Line], trials: _Trials
) -> Finding:
    first = group[0]
    call = first.event.step.call
    position, operator = call.position, call.operator
    others = [each.also.step.call.position for each in group if each.also is not None]
    around = loops_around(program, call)
    if first.fault in (Fault.MISSING_TERMS, Fault.UNWRITTEN) and around:
        position, operator = around[0].position, "for"
    elif first.fault is Fault.TWICE and around:
        others = [around[0].position, *others]
    hint = trials.hint(group, lines)
    words = _words(numbering, first)
    if hint is None and numbered(group):
        words = f"{words}; no single number would mend every round"
    return Finding(
        position,
        operator,
        first.event.step.rounds,
        _tensor(numbering, first),
        words,
        sum(each.count for each in group),
        tuple(dict.fromkeys(others)),
        hint,
    )


_OF_SUMS = (Fault.PLACE, Fault.TWICE, Fault.MISSING_TERMS, Fault.DISCARDED, Fault.UNWRITTEN)


def _tensor(numbering: Numbering, suspicion: Suspicion) -> str:
    """The tensor that the operator helps to compute: that of its sums, or of the sums that read its elements."""
    if suspicion.fault in (Fault.BIAS, Fault.TABLE):
        return numbering.tensor(suspicion.terms[1])
    if suspicion.fault in _OF_SUMS:
        return numbering.tensor(suspicion.wanted)
    known = suspicion.wanted if suspicion.wanted not in (NOTHING, PADDING) else suspicion.held
    return numbering.read_by(numbering.tensor(known)) if known != NOTHING else ""


def _words(numbering: Numbering, suspicion: Suspicion) -> str:
    """What is wrong."""
    event, fault = suspicion.event, suspicion.fault
    name = numbering.name
    must = "" if suspicion.wanted == NOTHING else name(suspicion.wanted)
    has = "" if suspicion.held == NOTHING else name(suspicion.held)
    count, left, right = suspicion.terms
    row, column = suspicion.place
    if fault is Fault.PLACE:
        there = f", where {has} belongs" if has else ""
        return (
            f"it stores {must} at [{row}, {column}] of {event.target.name}{there}; every sum is made, so "
            f"the place is wrong"
        )
    if fault is Fault.TWICE:
        return f"{name(left)} x {name(right)} is added to the sum of {must} a second time"
    if fault is Fault.MISSING_TERMS:
        plural = "terms of" if count > 1 else "term of"
        return f"{count} {plural} the sum of {must} never come, the first is {name(left)} x {name(right)}"
    if fault is Fault.DISCARDED:
        return f"the sum of {must} begins anew here; {count} of its terms were added before and are lost"
    if fault is Fault.BIAS:
        return f"the sum of {name(left)} begins with {has or 'no bias'}, it must begin with {must or 'none'}"
    if fault is Fault.TABLE:
        if must:
            return f"the sum of {name(left)} is stored as it is, {must} must requantise it"
        return f"the sum of {name(left)} is requantised, but is defined as it is"
    if fault is Fault.UNWRITTEN:
        return (
            f"nothing writes {must} to [{row}, {column}] of {event.target.name}, the first of "
            f"{suspicion.count} elements without a writer"
        )
    reads = f"it reads {has} where {must} is needed" if has else f"it reads an element where {must} is needed"
    if fault is Fault.READERS:
        return f"{reads}; other readers of the same places are right"
    if suspicion.also is not None:
        also = suspicion.also.step.call
        return (
            f"{reads}, which is elsewhere in {suspicion.also.target.name}; or "
            f"{also.operator.rpartition('.')[2]}, {also.position}, put it there wrongly"
        )
    return reads
