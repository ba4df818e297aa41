"""Proves event flags on a run: every conflicting pair of instructions is ordered, and no pipe waits for ever.

Each pipe does its instructions, sets and waits in their order; the pipes run beside each other. What follows
from that is found with vector clocks: for every action, the last one of each pipe that has certainly ended.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowering.flags import EVENTS, Accesses, Flag, Flags
from lowering.instructions import Pipe
from lowering.trace import Step


@dataclass(frozen=True)
class Set:
    """The source of a flag sets its event; `call` is the `id` of the call that the flag stands before."""

    flag: Flag
    call: int = 0


@dataclass(frozen=True)
class Wait:
    """The target of a flag waits for its event, and takes it back."""

    flag: Flag


Action = Step | Set | Wait


def actions(steps: Sequence[Step], flags: Flags) -> Iterator[Action]:
    """A run with its flags, each of which is set and waited for right before its instruction."""
    for step in steps:
        for flag in flags.get(id(step.call), ()):
            yield Set(flag, id(step.call))
            yield Wait(flag)
        yield step


def unreturned(run: Sequence[Action]) -> tuple[Set, ...]:
    """The sets of events that were not certainly taken back before."""
    return tuple(dict.fromkeys(_Clocks(run).again))


_Clock = dict[Pipe, int]


def problems(run: Sequence[Action]) -> Iterator[str]:
    """What is wrong with a run; nothing if it is proved.

    Deadlock: pipes wait for events that nobody sets. Order: an instruction may run before one whose bytes it
    needs or overwrites. Events: one that the hardware has not; one that is set again before it was certainly
    taken back; one that is left set, on which the next kernel would not wait.
    """
    clocks = _Clocks(run)
    yield from clocks.problems
    if clocks.stuck:
        return
    steps = [action for action in run if isinstance(action, Step)]
    accesses, seen = Accesses(steps), set()
    for number, step in enumerate(steps):
        clock = clocks.at[number]
        for pipe, earlier in accesses.conflicts(step):
            if (
                clock[pipe] < clocks.at[earlier][pipe]
                and (id(step.call), id(steps[earlier].call)) not in seen
            ):
                seen.add((id(step.call), id(steps[earlier].call)))
                yield f"{step} may run before {steps[earlier]} has ended"
        accesses.note(step, number)


class _Clocks:
    """The clock of every step, in the order of the program; each pipe goes on until it has to wait."""

    def __init__(self, run: Sequence[Action]) -> None:
        self.at: dict[int, _Clock] = {}
        self.again: list[Set] = []
        self.problems: list[str] = []
        self._clock = {pipe: dict.fromkeys(Pipe, 0) for pipe in Pipe}
        self._set: dict[Flag, deque[_Clock]] = defaultdict(deque)
        self._taken: dict[Flag, int] = {}
        queues = self._queues(run)
        moved = True
        while moved:
            moved = False
            for pipe, queue in queues.items():
                while queue and self._done(pipe, *queue[0]):
                    queue.popleft()
                    moved = True
        waiting = [f"{pipe.value} waits for {queue[0][1].flag}" for pipe, queue in queues.items() if queue]  # type: ignore[union-attr]
        self.stuck = bool(waiting)
        self.problems += [f"deadlock: {'; '.join(waiting)}"] if waiting else []
        self.problems += [f"{flag} is left set" for flag, left in self._set.items() if left and not waiting]
        self.problems = list(dict.fromkeys(self.problems))

    def _queues(self, run: Sequence[Action]) -> dict[Pipe, deque[tuple[int, Action]]]:
        queues: dict[Pipe, deque[tuple[int, Action]]] = {pipe: deque() for pipe in Pipe}
        number = 0
        for action in run:
            if isinstance(action, Step):
                queues[action.pipe].append((number, action))
                number += 1
            else:
                queues[action.flag.source if isinstance(action, Set) else action.flag.target].append(
                    (-1, action)
                )
        return queues

    def _done(self, pipe: Pipe, number: int, action: Action) -> bool:
        """Do an action, unless it has to wait."""
        clock = self._clock[pipe]
        if isinstance(action, Wait):
            if not self._set[action.flag]:
                return False
            for other, time in self._set[action.flag].popleft().items():
                clock[other] = max(clock[other], time)
        clock[pipe] += 1
        if isinstance(action, Step):
            self.at[number] = dict(clock)
        elif isinstance(action, Wait):
            self._taken[action.flag] = clock[pipe]
        else:
            self._sets(action, clock)
        return True

    def _sets(self, action: Set, clock: _Clock) -> None:
        flag = action.flag
        if not 0 <= flag.event < EVENTS:
            self.problems.append(f"{flag}: the hardware has events 0 to {EVENTS - 1}")
        if self._set[flag] or self._taken.get(flag, 0) > clock[flag.target]:
            self.again.append(action)
            self.problems.append(f"{flag} is set again before it was certainly taken back")
        self._set[flag].append(dict(clock))
