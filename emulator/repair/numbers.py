"""Numbers of an operand that is under suspicion for which all rounds ask the same value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from emulator.backward import NOTHING, Fault, Suspicion
from emulator.operands import Expr, evaluate
from emulator.repair.change import Change, replaced, same_constant
from emulator.repair.windows import positions, steps
from emulator.sources import Leaf, leaves
from emulator.trace import Copy, Event

_ROUNDS = 100
"""Rounds of a line that are asked which number they need."""


@dataclass(frozen=True)
class _Asked:
    """A value that an operand should have in one round.

    Attributes:
        operand: the operand.
        part: which of its numbers; None if it is one number.
        value: the value; None if no value would do, `NOTHING` if any would.
    """

    operand: str
    part: int | None
    value: int | None


def numbered(group: Sequence[Suspicion]) -> bool:
    """Whether each round alone could be mended by a number."""
    asked = map(_asked, _spread(group))
    return all(any(each.value not in (None, NOTHING) for each in values) for values in asked)


def _spread(group: Sequence[Suspicion]) -> Sequence[Suspicion]:
    """Some rounds of all; what they ask is proved for the others with them."""
    return group[:: -(-len(group) // _ROUNDS)]


def numbers(group: Sequence[Suspicion]) -> Iterator[Change]:
    """Other values of constants, each of which all rounds ask for that are looked at."""
    group = _spread(group)
    rounds = [_asked(suspicion) for suspicion in group]
    for asked in zip(*rounds, strict=True) if len({len(each) for each in rounds}) == 1 else ():
        if any(each.value is None for each in asked):
            continue
        operand = asked[0].operand
        for leaf in leaves(group[0].event.step.call.written.get(operand, ())):
            if isinstance(leaf.value, int):
                found = {
                    _solved(suspicion.event, each, leaf)
                    for suspicion, each in zip(group, asked, strict=True)
                    if each.value != NOTHING
                }
                found.discard(NOTHING)
                if len(found) == 1 and (value := found.pop()) not in (None, leaf.value):
                    yield Change(operand, leaf, value)


def _asked(suspicion: Suspicion) -> Sequence[_Asked]:
    """What could be at fault in this round; always the same operands for one operator and one fault."""
    event, right = suspicion.event, suspicion.right
    kind = event.step.call.operator.rpartition(".")[2]
    row, column = right if right is not None else (None, None)
    if suspicion.fault is Fault.PLACE or kind in ("load", "gather_row"):
        name = "src_offset" if kind == "gather_row" else "offsets"
        return [_Asked(name, 0, row), _Asked(name, 1, column)]
    if suspicion.fault is Fault.CUT:
        return [_Asked("valid_rows", None, row)]
    if kind == "extract":
        return [_Asked("row", None, row), _Asked("col", None, column)]
    if kind == "img2col" and isinstance(event, Copy) and suspicion.demand is not None:
        moves = [_Asked("pos_m", None, position) for position in positions(event, suspicion)]
        return [*moves, *(_Asked("pos_k", None, step) for step in steps(event, suspicion))]
    return []


def _solved(event: Event, asked: _Asked, leaf: Leaf) -> int | None:
    """The value of a constant that gives an operand its value; `NOTHING` if it does not depend on it."""

    def value(constant: int) -> int:
        assert own is not None
        changed = replaced(call, asked.operand, own, constant).operands[asked.operand]
        part = changed if asked.part is None else cast(tuple[Expr, ...], changed)[asked.part]
        return evaluate(cast(Expr, part), event.step.rounds)

    call, wanted = event.step.call, asked.value
    own = next((each for each in leaves(call.written[asked.operand]) if same_constant(each, leaf)), None)
    if own is None or not isinstance(own.value, int) or wanted is None:
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
