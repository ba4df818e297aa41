"""The flags that a program cannot do without: those of the rule, less each that the checker does not miss."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.memory import MemoryMap, place
from emulator.program import Function, Program
from emulator.soc import Soc
from lowering.check import actions, problems, unreturned
from lowering.flags import Flags, needed, numbered
from lowering.trace import Step, unroll

_ROUNDS = 3
"""Rounds of each loop on which flags are sought: a first, a last and one between them.

What is found is proved on all rounds at the end. If it does not hold, flags are sought on all of them."""


class UnprovedError(Exception):
    """Flags that are chosen by the rule do not hold: the rule is wrong, not the program."""


def sufficient(steps: Sequence[Step]) -> Flags:
    """The flags of the rule, with others in front of those whose event may still be set: they take it back.

    In a loop the source of a flag may have nothing to do in a round and would set the event again before the
    target has waited for it. So the source first waits for the target.
    """
    pairs = needed(steps)
    while True:
        flags = numbered(pairs)
        added = False
        for action in unreturned([*actions(steps, flags)]):
            back = (action.flag.target, action.flag.source)
            if back not in pairs[action.call]:
                pairs[action.call] = (back, *pairs[action.call])
                added = True
        if not added:
            return flags


def proved(steps: Sequence[Step], flags: Flags) -> bool:
    """Whether the checker finds nothing."""
    return next(problems([*actions(steps, flags)]), None) is None


def minimal(steps: Sequence[Step], flags: Flags) -> Flags:
    """Flags of which none can be left out; the earliest of the program is tried first."""
    kept = dict(flags)
    for call, own in flags.items():
        for flag in own:
            fewer = {**kept, call: tuple(other for other in kept[call] if other != flag)}
            if proved(steps, fewer):
                kept = fewer
    return kept


def program_flags(program: Program, soc: Soc) -> dict[str, Flags]:
    """The minimal flags of each InCore function of a program, by its name; raises as `flags_of`."""
    return {
        name: flags_of(function, place(function, soc.capacity))
        for name, function in program.functions.items()
        if not function.orchestration
    }


def flags_of(function: Function, memory: MemoryMap) -> Flags:
    """The minimal flags of an InCore function, proved on its whole run.

    Raises:
        UnprovedError: the checker refuses them; the message says what is wrong.
    """
    whole = unroll(function, memory)
    problem: str | None = None
    # A branch that only a later round takes is not in the first rounds.
    for steps in (unroll(function, memory, _ROUNDS), whole):
        flags = minimal(steps, sufficient(steps))
        problem = next(problems([*actions(whole, flags)]), None)
        if problem is None:
            return flags
    raise UnprovedError(f"{function.position}: event flags of {function.name} are not proved: {problem}")
