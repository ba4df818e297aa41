"""Where work is missing: the loop or branch whose next round would have written a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from emulator.operands import evaluate, variables
from emulator.program import Call, For, If, Program, Statement, flat
from emulator.trace import Event, line_of

_ROUNDS = 4096
"""Rounds of the loops around a call that are looked at."""

_WHERE = {"tile.gather_row": "dst_offset"}
"""The operand that says where an operator writes, if it is not `offsets`."""


def around(program: Program, call: Call) -> list[For | If]:
    """The loops and branches around a call, the innermost first."""
    return _around(program.function_of(call).body, call)


def loops_around(program: Program, call: Call) -> list[For]:
    """The loops around a call, the innermost first."""
    return [statement for statement in around(program, call) if isinstance(statement, For)]


def _around(statements: Sequence[Statement], call: Call) -> list[For | If]:
    for statement in statements:
        if isinstance(statement, For | If):
            body = statement.body if isinstance(statement, For) else (*statement.then, *statement.orelse)
            if any(inner is call for inner in flat(body)):
                return [*_around(body, call), statement]
    return []


def missing_round(program: Program, writers: Sequence[Event], place: tuple[int, int]) -> For | If | None:
    """The loop that would have come to a place in the round after its last or before its first.

    Or the branch that was not taken in the round that would have, or never is.

    Args:
        program: the program.
        writers: what was written to the tile or tensor.
        place: the first row and column that nothing wrote.
    """
    last = {event.call: event for event in writers}
    for function in program.functions.values():
        for branch in function.decided:
            left_out = branch.orelse if branch.condition else branch.then
            for call in (each for each in flat(left_out) if isinstance(each, Call)):
                loops = [each for each in _around(left_out, call) if isinstance(each, For)]
                alike = [event for event in writers if event.line == line_of(call)]
                if any(_ever_writes(event, call, loops, place) for event in alike[:1]):
                    return branch
    for event in last.values():
        call = event.step.call
        loops = loops_around(program, call)
        for number, loop in enumerate(loops):
            outer = {each.variable: event.step.rounds[each.variable] for each in loops[number + 1 :]}
            for index in (evaluate(loop.stop, outer), evaluate(loop.start, outer) - 1):
                rounds = _first(loops[:number], {**outer, loop.variable: index})
                if _writes(event, call, rounds, place):
                    return loop
        inside = next((each for each in around(program, call) if isinstance(each, If)), None)
        if inside is not None and _ever_writes(event, call, loops, place):
            return inside
    return None


def _first(inner: Sequence[For], rounds: Mapping[str, int]) -> dict[str, int]:
    """The first round of the inner loops in a round of those around them."""
    found = dict(rounds)
    for loop in reversed(inner):
        found[loop.variable] = evaluate(loop.start, found)
    return found


def all_rounds(
    loops: Sequence[For], outer: Mapping[str, int] = MappingProxyType({})
) -> Iterator[Mapping[str, int]]:
    """All rounds of loops, given the innermost first, in a round of those around them."""
    if not loops:
        yield outer
        return
    *inner, loop = loops
    for index in range(evaluate(loop.start, outer), evaluate(loop.stop, outer)):
        yield from all_rounds(inner, {**outer, loop.variable: index})


def _ever_writes(event: Event, call: Call, loops: Sequence[For], place: tuple[int, int]) -> bool:
    """Whether a call would write a place in one of the rounds of loops that are looked at."""
    return any(_writes(event, call, rounds, place) for rounds in islice(all_rounds(loops), _ROUNDS))


def _writes(event: Event, call: Call, rounds: Mapping[str, int], place: tuple[int, int]) -> bool:
    """Whether a call that writes rectangles as an event did would write a place in a round.

    Offsets that depend on loops which are not in the round may be any.
    """
    where = call.operands.get(_WHERE.get(call.operator, "offsets"))
    if not isinstance(where, tuple):
        return False
    return all(
        evaluate(start, rounds) <= index < evaluate(start, rounds) + size
        for start, index, size in zip(where, place, event.shape, strict=True)
        if variables(start) <= rounds.keys()
    )
