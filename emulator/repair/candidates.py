"""Changes that might mend what a line is under suspicion of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product, zip_longest
from typing import Any

from emulator.backward import Fault, Suspicion
from emulator.gaps import loops_around
from emulator.operands import Position, Ref
from emulator.program import Call, Program, flat
from emulator.repair.change import Change
from emulator.repair.numbers import numbers
from emulator.repair.windows import AROUND, windows
from emulator.sources import leaves
from emulator.trace import Event


def candidates(program: Program, group: Sequence[Suspicion]) -> Iterator[Change]:
    """Changes that might mend what a line is under suspicion of, the likelier first."""
    first = group[0]
    calls = [event.step.call for event in (first.event, first.also) if event is not None]
    if first.fault in (Fault.MISSING_TERMS, Fault.UNWRITTEN, Fault.STALE):
        yield from _bounds(program, calls, (("stop", 1), ("start", -1)))
    elif first.fault is Fault.TWICE:
        yield from _bounds(program, calls, (("start", 1), ("stop", -1)))
    elsewhere = first.fault is not Fault.READERS
    if not elsewhere:  # places that others read rightly: it does not only read elsewhere
        yield from windows(group)
    yield from numbers(group)
    yield from _names(program, first.event)
    if elsewhere:
        yield from windows(group)


def _bounds(program: Program, calls: Sequence[Call], moves: Sequence[tuple[str, int]]) -> Iterator[Change]:
    """Bounds of the loops around calls, the inner ones first: one round more before two, or fewer."""
    deep = zip_longest(*(loops_around(program, call) for call in calls))
    loops = {loop.position: loop for each in deep for loop in each if loop is not None}
    for distance, sign in product(range(1, AROUND), (1, -1)):
        for loop, (operand, move) in product(loops.values(), moves):
            tree = loop.written[("start", "stop").index(operand)] if loop.written else ()
            for leaf in leaves(tree):
                if isinstance(leaf.value, int):
                    yield Change(operand, leaf, leaf.value + sign * move * distance)


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
