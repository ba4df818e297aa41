"""Changes that might mend what a line is under suspicion of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from emulator.backward import Fault, Suspicion
from emulator.gaps import loops_around
from emulator.program import Call, Position, Program, Ref, flat
from emulator.repair.change import Change
from emulator.repair.numbers import numbers
from emulator.repair.windows import AROUND, windows
from emulator.sources import leaves
from emulator.trace import Event


def candidates(program: Program, group: Sequence[Suspicion]) -> Iterator[Change]:
    """Changes that might mend what a line is under suspicion of, the likelier first."""
    first = group[0]
    for event in (first.event, first.also):
        if event is not None and first.fault in (Fault.MISSING_TERMS, Fault.UNWRITTEN, Fault.STALE):
            yield from _bounds(program, event.step.call, (("stop", 1), ("start", -1)))
        elif event is not None and first.fault is Fault.TWICE:
            yield from _bounds(program, event.step.call, (("start", 1), ("stop", -1)))
    elsewhere = first.fault is not Fault.READERS
    if not elsewhere:  # places that others read rightly: it does not only read elsewhere
        yield from windows(group)
    yield from numbers(group)
    yield from _names(program, first.event)
    if elsewhere:
        yield from windows(group)


def _bounds(program: Program, call: Call, moves: Sequence[tuple[str, int]]) -> Iterator[Change]:
    for loop in loops_around(program, call):
        for operand, move in moves:
            tree = loop.written[("start", "stop").index(operand)] if loop.written else ()
            for leaf in leaves(tree):
                if isinstance(leaf.value, int):
                    for distance in range(1, AROUND):
                        yield Change(operand, leaf, leaf.value + move * distance)
                        yield Change(operand, leaf, leaf.value - move * distance)


def _names(program: Program, event: Event) -> Iterator[Change]:
    """Other tiles and tensors of the same type for what an operator reads, by names of the same function."""
    call = event.step.call
    function = program.function_of(call)
    calls = [each for each in flat(function.body) if isinstance(each, Call)]
    types: dict[str, Any] = {param.name: param.type for param in function.params}
    types |= {each.target: each.result for each in calls}
    known: list[tuple[str, Position | None, str, Ref]] = [
        (call.position.file, None, param.name, Ref(param.name)) for param in function.params
    ]
    known += [
        (leaf.position.file, leaf.position.caller, leaf.text, leaf.value)
        for each in calls
        for tree in each.written.values()
        for leaf in leaves(tree)
        if isinstance(leaf.value, Ref)
    ]
    for operand, value in call.operands.items():
        if not isinstance(value, Ref):
            continue
        for leaf in leaves(call.written.get(operand, ())):
            where = leaf.position.file, leaf.position.caller
            for file, caller, text, ref in dict.fromkeys(known):
                same_type = types.get(ref.name) == types.get(value.name)
                if (file, caller) == where and ref != value and same_type:
                    yield Change(operand, leaf, ref, text=text)
