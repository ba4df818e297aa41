"""Which lines of a program are to blame for a failed proof, in words, and which number would mend them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from emulator.backward import NOTHING, Fault, Line, Suspicion, suspicions
from emulator.coordinates import Coordinates
from emulator.elements import PADDING
from emulator.engine import walk_program
from emulator.errors import AccessError, KernelError, callers
from emulator.gaps import loops_around, missing_round
from emulator.program import Bind, Call, For, Invoke, Position, Program, Ref, flat
from emulator.repair import Change, candidates, numbered
from emulator.soc import Soc
from emulator.terms import NEVER, Ids, Numbering
from emulator.trace import Copy, Recorder


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
    lines = [group[0].event.line for group in groups]
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


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those with one cause together: one number, or one operator of a helper in several lines."""
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


def _refused(error: AccessError) -> Finding:
    """What the walk itself refused."""
    return Finding(error.position, error.operator.removeprefix("pl."), error.rounds, "", error.problem, 0)


def _grouped(found: Sequence[Suspicion]) -> list[list[Suspicion]]:
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
            suspicion.also = None
        lines.setdefault(suspicion.event.line, []).append(suspicion)
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

    def change(self, group: Sequence[Suspicion], lines: Sequence[Line]) -> Change | None:
        """A number that mends what a line is under suspicion of.

        Either nothing is wrong with it any more, or of all `lines` under suspicion this one no longer is, and
        no other has come.
        """
        for change in candidates(self._program, group):
            if time.process_time() > self._until:
                break
            program = change.applied(self._program)
            wrong = self._wrong(program)
            several = len(lines) > 1 and not change.parts
            if wrong == 0 or (several and self._better(program, group[0].event.line, lines)):
                return change
        return None

    def _better(self, program: Program, line: Line, lines: Sequence[Line]) -> bool:
        left = {
            suspicion.event.line
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
    value = leaf.text if isinstance(leaf.value, Ref) else leaf.value
    right = change.text if isinstance(change.value, Ref) else change.value
    return Hint(change.operand, leaf.text, leaf.position, value, right, origin)


def _passed(program: Program, numbering: Numbering, suspicion: Suspicion) -> tuple[Position, str] | None:
    """The line in `main` that passes another tensor than the parameter is named for, and what is wrong with it."""
    call = suspicion.event.step.call
    wanted, held = (numbering.tensor(each) for each in (suspicion.wanted, suspicion.held))
    operand = call.operands.get("tensor")
    if not isinstance(operand, Ref) or operand.name != wanted or held in ("", wanted):
        return None
    for invoke in program.main.body:
        if isinstance(invoke, Invoke):
            function = program.functions[invoke.function]
            names = [param.name for param in function.params]
            if any(each is call for each in flat(function.body)) and operand.name in names:
                given = invoke.arguments[names.index(operand.name)]
                return invoke.position, f"main passes {given} for {operand.name} of {function.name}"
    return None


def _empty(program: Program, suspicion: Suspicion) -> list[Position]:
    """The assignments that gave the tile its name and stand for no operator, such as of a helper that does nothing."""
    if suspicion.fault is Fault.MISSING_TERMS and suspicion.leave is not None:
        call, operands = suspicion.leave.step.call, ("acc", "tile")
    elif suspicion.fault in (Fault.READERS, Fault.SOURCE, Fault.PADDING):
        call, operands = suspicion.event.step.call, ("tile", "a", "b", "bias", "scale")
    else:
        return []
    for function in program.functions.values():
        statements = [*flat(function.body)]
        if any(each is call for each in statements):
            called = {
                (line.file, line.line)
                for each in statements
                if isinstance(each, Call)
                for line in callers(each.position)
            }
            binds = {each.target: each for each in statements if isinstance(each, Bind)}
            given = [call.operands.get(operand) for operand in operands]
            names = [ref.name for ref in given if isinstance(ref, Ref)]
            found = []
            while names and (bind := binds.pop(names[0], None)) is not None:
                names = [bind.source]
                if (bind.position.file, bind.position.line) not in called:
                    found.append(bind.position)
            return found
    return []


def _in_parts(change: Change) -> str:
    """What would be right of a text that stands for other numbers in other bands."""
    leaf = change.leaf
    if not change.parts:
        return f"{leaf.text}, {chain(leaf.position)}, is {leaf.value} there, {change.value} would be right"
    assert isinstance(leaf.value, tuple)
    parts = [f"{value} as number {at + 1}" for at, value in change.parts.items() if leaf.value[at] != value]
    return f"{' and '.join(parts)} of {leaf.text} would be right in every round"


def _finding(
    program: Program, numbering: Numbering, group: Sequence[Suspicion], lines: Sequence[Line], trials: _Trials
) -> Finding:
    first = group[0]
    call = first.event.step.call
    finding = Finding(
        call.position,
        call.operator,
        first.event.step.rounds,
        _tensor(numbering, first),
        _words(numbering, first),
        sum(each.count for each in group),
        tuple(each.also.step.call.position for each in group if each.also is not None),
    )
    if isinstance(first.event, Copy) and first.event.source.given and first.wanted not in first.event.held:
        source = first.event.source.name
        words = (
            f"{source}, which the host makes, does not hold {numbering.name(first.wanted)}, which is needed"
        )
        return replace(finding, operator="host", words=words)
    if (passed := _passed(program, numbering, first)) is not None:
        line, words = passed
        return replace(
            finding, position=line, operator="call", rounds={}, words=words, others=(call.position,)
        )
    finding = _located(program, finding, first)
    change = trials.change(group, lines)
    words = finding.words
    if change is None:
        words += "; no single number would mend every round" if numbered(group) else ""
        return replace(finding, words=words)
    if change.operand in ("start", "stop") and change.leaf.position != finding.position:
        others = (finding.position, *finding.others)
        finding = replace(finding, position=change.leaf.position, operator="for", others=others)
    if not change.everywhere(program):
        return replace(finding, words=f"{words}; {_in_parts(change)}")
    if change.leaf.source is None:  # the source does not say it
        return replace(
            finding, words=f"{words}; the loop starts at {change.leaf.value}, {change.value} would be right"
        )
    return replace(finding, hint=_hint(change))


def _located(program: Program, finding: Finding, suspicion: Suspicion) -> Finding:
    """The finding at the line that it is about: of missing work this is a loop, a branch, or an assignment."""
    call, lines = suspicion.event.step.call, [*finding.others]
    loops = loops_around(program, call)
    if suspicion.fault is Fault.TWICE:
        lines += [loop.position for loop in loops[:1]]
    elif suspicion.fault is Fault.UNWRITTEN:
        lines += [loop.position for loop in loops]
        missing = missing_round(program, suspicion.writers, suspicion.place)
        if missing is not None:
            kind = "for" if isinstance(missing, For) else "if"
            lines = [finding.position, *lines]
            finding = replace(finding, position=missing.position, operator=kind, rounds={})
    elif suspicion.fault in _LOOPS:
        calls = [each.step.call for each in (suspicion.event, suspicion.also) if each is not None]
        lines += [loop.position for each in calls for loop in loops_around(program, each)[:1]]
        lines += [call.position]
        lines += [each for product in calls for each in _operands(program, product)]
        if loops:
            finding = replace(finding, position=loops[0].position, operator="for")
    if empty := _empty(program, suspicion):
        lines += empty
        words = f"{finding.words}; or {chain(empty[0])}, an assignment without an operator, should have one"
        finding = replace(finding, words=words)
    others = tuple(line for line in dict.fromkeys(lines) if line != finding.position)
    return replace(finding, others=others)


def _operands(program: Program, call: Call) -> Iterator[Position]:
    """The lines that made the operands of a product, whose sizes say how many terms it adds."""
    for function in program.functions.values():
        statements = [each for each in flat(function.body) if isinstance(each, Call)]
        if any(each is call for each in statements):
            names = {ref.name for key in ("a", "b") if isinstance(ref := call.operands.get(key), Ref)}
            yield from (
                each.position
                for each in statements
                if each.target in names and each.position.caller == call.position.caller
            )


_LOOPS = (Fault.MISSING_TERMS, Fault.UNWRITTEN, Fault.STALE)
"""Faults of a loop that ends too early, if there is one."""

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
        windows = ""
        if suspicion.also is not None:
            also = suspicion.also.step.call
            windows = (
                f", or {also.operator.rpartition('.')[2]}, {also.position}, reads the windows of another tile"
            )
        return (
            f"it stores {must} at [{row}, {column}] of {event.target.name}{there}; every sum is made, so "
            f"the place is wrong{windows}"
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
    if fault is Fault.STALE:
        return (
            f"after it [{row}, {column}] of {event.target.name} still holds {has} of an earlier round where {must} is "
            f"needed, the first of {suspicion.count} such elements"
        )
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
