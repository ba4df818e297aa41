"""Which single constant of a program, given another value, would mend it.

Candidates come from what is demanded of the operators that are under suspicion. Whether one holds is for the
proof of the changed program to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from emulator.backward import NOTHING, Fault, Suspicion
from emulator.elements import PADDING
from emulator.gaps import loops_around
from emulator.program import (
    Call,
    For,
    If,
    Position,
    Program,
    Ref,
    Statement,
    evaluate,
    flat,
)
from emulator.sources import Leaf, leaves, replaced
from emulator.trace import Copy, Event

_AROUND = 3
"""How far from what it is a bound, a padding or a stride is tried."""


@dataclass(frozen=True)
class Change:
    """Another value for a constant, in an operand of an operator or a bound of a loop.

    With `parts` only these numbers of a list change, in each list that the same text stands for. `text` is how the source
    names the other value, if it is a tile or tensor.
    """

    operand: str
    leaf: Leaf
    value: Any
    parts: Mapping[int, int] = field(default_factory=dict)
    text: str = ""

    def applied(self, program: Program) -> Program:
        """The program with the value wherever this text is read."""
        functions = {
            name: replace(function, body=self._block(function.body))
            for name, function in program.functions.items()
        }
        return replace(program, functions=functions)

    def everywhere(self, program: Program) -> bool:
        """Whether the text stands for one number or list, wherever a helper with it is expanded."""
        values = {
            self._value(leaf) if self._same(leaf) else leaf.value
            for function in program.functions.values()
            for statement in flat(function.body)
            if isinstance(statement, Call)
            for leaf in leaves(statement.written.get(self.operand, ()))
            if same_constant(leaf, self.leaf)
        }
        return isinstance(self.value, Ref) or len(values) < 2

    def _block(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(map(self._statement, statements))

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Call):
            for operand, tree in statement.written.items():
                for leaf in leaves(tree):
                    if self._same(leaf):
                        statement = replaced(statement, operand, leaf, self._value(leaf))
        elif isinstance(statement, For):
            statement = replace(statement, body=self._block(statement.body))
            for operand, tree in zip(("start", "stop"), statement.written, strict=False):
                for leaf in leaves(tree):
                    if self._same(leaf):
                        statement = replaced(statement, operand, leaf, self.value)
        elif isinstance(statement, If):
            then, orelse = self._block(statement.then), self._block(statement.orelse)
            statement = replace(statement, then=then, orelse=orelse)
        return statement

    def _same(self, leaf: Leaf) -> bool:
        return same_constant(leaf, self.leaf) and (bool(self.parts) or leaf.value == self.leaf.value)

    def _value(self, leaf: Leaf) -> Any:
        if not self.parts or not isinstance(leaf.value, tuple):
            return self.value
        return tuple(self.parts.get(at, number) for at, number in enumerate(leaf.value))


def same_constant(one: Leaf, other: Leaf) -> bool:
    """Whether two texts are one, or one name that one assignment gave its value."""
    if one.text != other.text or one.position.file != other.position.file:
        return False
    if (one.position.line, one.column) == (other.position.line, other.column):
        return True
    return one.origin is not None and one.origin == other.origin


def candidates(program: Program, group: Sequence[Suspicion]) -> Iterator[Change]:
    """Changes that might mend what a line is under suspicion of, the likelier first."""
    first = group[0]
    for event in (first.event, first.also):
        if event is not None and first.fault in (Fault.MISSING_TERMS, Fault.UNWRITTEN, Fault.STALE):
            yield from _bounds(program, event.step.call, (("stop", 1), ("start", -1)))
        elif event is not None and first.fault is Fault.TWICE:
            yield from _bounds(program, event.step.call, (("start", 1), ("stop", -1)))
    windows = first.fault in (Fault.PADDING, Fault.READERS)
    if windows:  # one that only shifts what it reads has neither
        yield from _windows(group)
    yield from _numbers(group)
    yield from _names(program, first.event)
    if not windows:
        yield from _windows(group)


def numbered(group: Sequence[Suspicion]) -> bool:
    """Whether each round alone could be mended by a number."""
    asked = [_asked(suspicion) for suspicion in group]
    return all(any(value not in (None, NOTHING) for *_, value in each) for each in asked)


def _bounds(program: Program, call: Call, moves: Sequence[tuple[str, int]]) -> Iterator[Change]:
    for loop in loops_around(program, call):
        for operand, move in moves:
            tree = loop.written[("start", "stop").index(operand)] if loop.written else ()
            for leaf in leaves(tree):
                if isinstance(leaf.value, int):
                    for distance in range(1, _AROUND):
                        yield Change(operand, leaf, leaf.value + move * distance)
                        yield Change(operand, leaf, leaf.value - move * distance)


def _numbers(group: Sequence[Suspicion]) -> Iterator[Change]:
    """Constants for which all rounds ask the same value."""
    asked = [_asked(suspicion) for suspicion in group]
    for wanted in zip(*asked, strict=True) if len({len(each) for each in asked}) == 1 else ():
        operand, component = wanted[0][:2]
        if any(value is None for _, _, value in wanted):
            continue
        trees = [suspicion.event.step.call.written.get(operand) for suspicion in group]
        first = trees[0]
        for leaf in leaves(first) if first is not None else ():
            if isinstance(leaf.value, int):
                found = {
                    _solved(suspicion.event, operand, component, leaf, value)
                    for suspicion, (_, _, value) in zip(group, wanted, strict=True)
                    if value is not None and value != NOTHING
                }
                found.discard(NOTHING)
                if len(found) == 1 and (value := found.pop()) not in (None, leaf.value):
                    yield Change(operand, leaf, value)


Asked = tuple[str, int | None, int | None]
"""An operand, which of its numbers (None: it is one), and the value that it should have; None: no value does."""


def _asked(suspicion: Suspicion) -> Sequence[Asked]:
    """The operands that could be at fault, and the values that they should have in this round."""
    event, right = suspicion.event, suspicion.right
    kind = event.step.call.operator.rpartition(".")[2]
    if suspicion.fault is Fault.PLACE or kind in ("load", "gather_row"):
        name = "src_offset" if kind == "gather_row" else "offsets"
        row, column = right if right is not None else (None, None)
        return [(name, 0, row), (name, 1, column)]
    if kind == "extract":
        row, column = right if right is not None else (None, None)
        return [("row", None, row), ("col", None, column)]
    if kind == "img2col" and isinstance(event, Copy) and suspicion.demand is not None:
        moves: list[Asked] = [("pos_m", None, position) for position in _positions(event, suspicion)]
        return [*moves, *(("pos_k", None, step) for step in _steps(event, suspicion))]
    return []


def _shift(event: Copy, suspicion: Suspicion) -> tuple[int, int] | None:
    """How many pixels and columns further in its image all lies that is demanded of img2col."""
    assert suspicion.demand is not None
    use = (suspicion.demand != NOTHING) & (suspicion.demand > PADDING) & (event.index >= 0)
    if not use.any():
        return NOTHING, NOTHING
    flat_held, wanted = event.held.reshape(-1), suspicion.demand[use]
    order = np.argsort(flat_held, kind="stable")
    at = order[np.minimum(np.searchsorted(flat_held, wanted, sorter=order), flat_held.size - 1)]
    if (flat_held[at] != wanted).any():
        return None
    columns = event.source.shape[1]
    rows = at // columns - event.index[use] // columns
    across = at % columns - event.index[use] % columns
    if (rows != rows[0]).any() or (across != across[0]).any():
        return None
    return int(rows[0]), int(across[0])


def _positions(event: Copy, suspicion: Suspicion) -> list[int | None]:
    """Positions of img2col that would read what is demanded: whole rows away, or columns."""
    operands: Mapping[str, Any] = event.step.call.operands
    width, padding = operands["image_shape"][1], operands["padding"]
    out = (width + padding[2] + padding[3] - operands["kernel_size"][1]) // operands["stride"][1] + 1
    shift = _shift(event, suspicion)
    if shift is None or shift[1] not in (0, NOTHING):
        return [None, None]
    if shift[1]:
        return [NOTHING, NOTHING]
    down, right = shift[0] / (width * operands["stride"][0]) * out, shift[0] / operands["stride"][1]
    return [int(event.numbers["pos_m"] + move) if move == int(move) else None for move in (down, right)]


def _steps(event: Copy, suspicion: Suspicion) -> list[int | None]:
    """The position in K of img2col that would read what is demanded: another tap or plane."""
    operands: Mapping[str, Any] = event.step.call.operands
    (height, width), kernel = operands["kernel_size"], operands["image_shape"][1]
    shift = _shift(event, suspicion)
    if shift is None:
        return [None]
    if shift[1] == NOTHING:
        return [NOTHING]
    down = round(shift[0] / kernel)
    tap = down * width + shift[0] - down * kernel
    return [int(event.numbers["pos_k"] + 32 * (shift[1] // 32 * height * width + tap))]


def _solved(event: Event, operand: str, component: int | None, leaf: Leaf, wanted: int) -> int | None:
    """The value of a constant for which an operand is as wanted; `NOTHING` if it does not depend on it."""

    def value(constant: int) -> int:
        assert own is not None
        changed = replaced(call, operand, own, constant).operands[operand]
        part: Any = changed if component is None else changed[component]  # type: ignore[index]
        return evaluate(part, event.step.rounds)

    call = event.step.call
    own = next((each for each in leaves(call.written[operand]) if same_constant(each, leaf)), None)
    if own is None or not isinstance(own.value, int):
        return None
    try:
        now = value(own.value)
        slope = value(own.value + 1) - now
        if now == wanted and slope == 0:
            return NOTHING
        if slope == 0 or (wanted - now) % slope:
            return None
        solved = own.value + (wanted - now) // slope
        return solved if value(solved) == wanted else None
    except ArithmeticError:
        return None


def _names(program: Program, event: Event) -> Iterator[Change]:
    """Other tiles and tensors of the same type for what an operator reads, by names of the same function."""
    call = event.step.call
    for function in program.functions.values():
        if not any(statement is call for statement in flat(function.body)):
            continue
        types: dict[str, Any] = {param.name: param.type for param in function.params}
        types |= {each.target: each.result for each in flat(function.body) if isinstance(each, Call)}
        names = {name: Ref(name) for name in (param.name for param in function.params)}
        known: list[tuple[str, Position | None, str, Ref]] = [
            (call.position.file, None, name, ref) for name, ref in names.items()
        ]
        for each in flat(function.body):
            for tree in each.written.values() if isinstance(each, Call) else ():
                for leaf in leaves(tree):
                    if isinstance(leaf.value, Ref):
                        known.append((leaf.position.file, leaf.position.caller, leaf.text, leaf.value))
        for operand, value in call.operands.items():
            for leaf in leaves(call.written.get(operand, ())):
                where = leaf.position.file, leaf.position.caller
                for file, caller, text, ref in dict.fromkeys(known):
                    if (file, caller) == where and ref != value and isinstance(value, Ref):
                        if types.get(ref.name) == types.get(value.name):
                            yield Change(operand, leaf, ref, text=text)


def _windows(group: Sequence[Suspicion]) -> Iterator[Change]:
    """Other paddings, strides and image shapes of img2col under which the first rounds would be right."""
    suspicion = group[0]
    if suspicion.event.step.call.operator != "tile.img2col":
        return
    for operand in ("padding", "stride", "kernel_size", "image_shape"):
        for leaf in leaves(suspicion.event.step.call.written.get(operand, ())):
            for parts in _others(operand, leaf.value):
                value = parts.get(0, leaf.value) if isinstance(leaf.value, int) else leaf.value
                change = Change(operand, leaf, value, {} if isinstance(leaf.value, int) else parts)
                if all(_mends(each, change) for each in group[:8]):
                    yield replace(change, value=change._value(leaf))


def _others(operand: str, value: Any) -> Iterator[Mapping[int, int]]:
    """Other values, by the number of the list that changes; 0 for a number alone."""
    near = range(_AROUND + 1)
    if isinstance(value, int):
        yield from ({0: other} for other in range(max(0, value - _AROUND), value + _AROUND) if other != value)
    elif operand == "image_shape":
        yield dict(enumerate(reversed(value)))
    elif operand == "padding":
        for first in (2, 0):
            pairs = ({first: one, first + 1: other} for one, other in product(near, repeat=2))
            # Those that leave the output its size come first: only their windows are elsewhere.
            yield from sorted(pairs, key=lambda pair: sum(pair.values()) != sum(value[first : first + 2]))
        yield from (dict(enumerate(four)) for four in product(near, repeat=4))
    else:
        yield from (dict.fromkeys(range(len(value)), other) for other in near[1:])
        yield from ({at: other} for at in range(len(value)) for other in near[1:])
        yield from (dict(enumerate(both)) for both in product(near[1:], repeat=len(value)))


def _mends(suspicion: Suspicion, change: Change) -> bool:
    """Whether an img2col would bring what is demanded of it."""
    event = suspicion.event
    assert isinstance(event, Copy)
    assert suspicion.demand is not None
    call = event.step.call
    written = call.written.get(change.operand, ())
    own = [leaf for leaf in leaves(written) if same_constant(leaf, change.leaf)]
    if not own or not change._same(own[0]):
        return bool(own)
    other = replaced(call, change.operand, own[0], change._value(own[0]))
    changed = Copy(
        replace(event.step, call=other),
        event.number,
        event.numbers,
        event.target,
        event.at,
        event.shape,
        event.source,
        event.held,
    )
    try:
        index = changed.index
    except ArithmeticError:
        return False
    if index.max() >= event.held.size:
        return False
    ids = np.where(index < 0, PADDING, event.held.reshape(-1)[index])
    return bool(((suspicion.demand == NOTHING) | (ids == suspicion.demand)).all())
