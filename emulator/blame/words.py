"""What is wrong with an operator, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from emulator.backward import NOTHING, Fault, Suspicion
from emulator.blame.finding import chain
from emulator.elements import PADDING
from emulator.program import Call
from emulator.repair import Change
from emulator.terms import Numbering
from emulator.trace import Multiply

_OF_SUMS = (Fault.PLACE, Fault.TWICE, Fault.MISSING_TERMS, Fault.DISCARDED, Fault.CUT, Fault.UNWRITTEN)
"""Faults whose wanted id is that of a sum."""

_PARTS: Mapping[str, tuple[str, ...]] = {
    "padding": ("top padding", "bottom padding", "left padding", "right padding"),
    "stride": ("stride down", "stride across"),
    "kernel_size": ("kernel height", "kernel width"),
    "image_shape": ("image height", "image width"),
}
"""What the numbers of an operand are."""


def tensor_of(numbering: Numbering, suspicion: Suspicion) -> str:
    """The tensor that an operator helps to compute: that of its sums, or of sums that read its elements."""
    if suspicion.fault in (Fault.BIAS, Fault.TABLE):
        return numbering.tensor(suspicion.of)
    if suspicion.fault in _OF_SUMS:
        return numbering.tensor(suspicion.wanted)
    known = suspicion.wanted if suspicion.wanted not in (NOTHING, PADDING) else suspicion.held
    return numbering.read_by(numbering.tensor(known)) if known != NOTHING else ""


def words_of(numbering: Numbering, suspicion: Suspicion) -> str:
    """What is wrong with an operator."""
    return _WORDS.get(suspicion.fault, _elements)(numbering, suspicion)


def parts_of(change: Change) -> str:
    """What would be right of a text that stands for other numbers in other bands."""
    leaf, where = change.leaf, f"{change.leaf.text}, {chain(change.leaf.position)}"
    if not change.parts:
        return f"{where}, is {leaf.value} there, {change.value} would be right"
    assert isinstance(leaf.value, tuple)
    names, numbers = _PARTS[change.operand], leaf.value
    others = {at: value for at, value in change.parts.items() if numbers[at] != value}
    now = " and ".join(f"{names[at]} {numbers[at]}" for at in others)
    then = " and ".join(f"{names[at]} {value}" for at, value in others.items())
    return f"{where}, has {now}; {then} would be right in every round"


def _name(numbering: Numbering, element: int) -> str:
    """An element in words; empty if there is none."""
    return "" if element == NOTHING else numbering.name(element)


def _line(call: Call) -> str:
    return f"{call.operator.rpartition('.')[2]}, {call.position}"


def _place(numbering: Numbering, suspicion: Suspicion) -> str:
    must, has = _name(numbering, suspicion.wanted), _name(numbering, suspicion.held)
    row, column = suspicion.place
    there = f", where {has} belongs" if has else ""
    also = suspicion.also
    windows = "" if also is None else f", or {_line(also.step.call)}, reads the windows of another tile"
    return (
        f"it stores {must} at [{row}, {column}] of {suspicion.event.target.name}{there}; every sum is made, "
        f"so the place is wrong{windows}"
    )


def _twice(numbering: Numbering, suspicion: Suspicion) -> str:
    must = numbering.name(suspicion.wanted)
    return f"{_term(numbering, suspicion)} is added to the sum of {must} a second time"


def _missing(numbering: Numbering, suspicion: Suspicion) -> str:
    assert suspicion.terms is not None
    count, must = suspicion.terms.count, numbering.name(suspicion.wanted)
    if count == 1:
        return f"1 term of the sum of {must} never comes: {_term(numbering, suspicion)}"
    return f"{count} terms of the sum of {must} never come, the first is {_term(numbering, suspicion)}"


def _discarded(numbering: Numbering, suspicion: Suspicion) -> str:
    assert suspicion.terms is not None
    must, count = numbering.name(suspicion.wanted), suspicion.terms.count
    return f"the sum of {must} begins anew here; {count} of its terms were added before and are lost"


def _term(numbering: Numbering, suspicion: Suspicion) -> str:
    """The first term of those that are missing or double."""
    assert suspicion.terms is not None
    return f"{numbering.name(suspicion.terms.left)} x {numbering.name(suspicion.terms.right)}"


def _bias(numbering: Numbering, suspicion: Suspicion) -> str:
    must, has = _name(numbering, suspicion.wanted), _name(numbering, suspicion.held)
    begins = f"begins with {has or 'no bias'}, it must begin with {must or 'none'}"
    return f"the sum of {numbering.name(suspicion.of)} {begins}"


def _table(numbering: Numbering, suspicion: Suspicion) -> str:
    of, must = numbering.name(suspicion.of), _name(numbering, suspicion.wanted)
    if must:
        return f"the sum of {of} is stored as it is, {must} must requantise it"
    return f"the sum of {of} is requantised, but is defined as it is"


def _stale(numbering: Numbering, suspicion: Suspicion) -> str:
    must, has = numbering.name(suspicion.wanted), numbering.name(suspicion.held)
    row, column = suspicion.place
    return (
        f"after it [{row}, {column}] of {suspicion.event.target.name} still holds {has} of an earlier round "
        f"where {must} is needed, the first of {suspicion.count} such elements"
    )


def _cut(numbering: Numbering, suspicion: Suspicion) -> str:
    assert suspicion.leave is not None
    valid, (rows, _) = suspicion.event.shape[0], suspicion.event.target.shape
    return (
        f"only {valid} of {rows} rows leave {suspicion.event.target.name}: {_unwritten(numbering, suspicion)}"
    )


def _unwritten(numbering: Numbering, suspicion: Suspicion) -> str:
    row, column = suspicion.place
    target = (suspicion.leave or suspicion.event).target
    return (
        f"nothing writes {numbering.name(suspicion.wanted)} to [{row}, {column}] of "
        f"{target.name}, the first of {suspicion.count} elements without a writer"
    )


def _elements(numbering: Numbering, suspicion: Suspicion) -> str:
    """What it reads, and what it needs."""
    must, has = _name(numbering, suspicion.wanted), _name(numbering, suspicion.held)
    reads = f"it reads {has or 'an element'} where {must} is needed"
    also = suspicion.also
    if also is not None and isinstance(suspicion.event, Multiply):
        return f"{reads}; {_line(also.step.call)}, which made it, did not do so for this step"
    if suspicion.fault is Fault.READERS:
        return f"{reads}; other readers of the same places are right"
    if also is None:
        return reads
    return (
        f"{reads}, which is elsewhere in {also.target.name}; or {_line(also.step.call)}, put it there wrongly"
    )


_WORDS: Mapping[Fault, Callable[[Numbering, Suspicion], str]] = {
    Fault.PLACE: _place,
    Fault.TWICE: _twice,
    Fault.MISSING_TERMS: _missing,
    Fault.DISCARDED: _discarded,
    Fault.BIAS: _bias,
    Fault.TABLE: _table,
    Fault.STALE: _stale,
    Fault.CUT: _cut,
    Fault.UNWRITTEN: _unwritten,
}
"""How the words of each fault are made; all others are of the elements that an operator reads."""
