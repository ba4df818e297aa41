"""Event flags between the pipes of a card: which the program needs, by one rule, and how they get events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lowering.instructions import Pipe
from lowering.trace import Area, Step

EVENTS = 8
"""Events that the hardware has for each ordered pair of pipes (`EVENT_ID_MAX` of the headers)."""


@dataclass(frozen=True)
class Flag:
    """Right before an instruction: `source` sets an event after all it was given, `target` waits for it."""

    source: Pipe
    target: Pipe
    event: int

    def __str__(self) -> str:
        return f"{self.source.value} to {self.target.value}, event {self.event}"


Flags = Mapping[int, tuple[Flag, ...]]
"""The flags right before each call, by the `id` of the call."""


class Accesses:
    """The last access of each pipe to each area; an earlier one of the same pipe ended before it did."""

    def __init__(self, steps: Iterable[Step]) -> None:
        areas = dict.fromkeys(area for step in steps for area in (*step.reads, step.write))
        self._meeting = {area: [other for other in areas if other.meets(area)] for area in areas}
        self._reads: dict[Area, dict[Pipe, int]] = defaultdict(dict)
        self._writes: dict[Area, dict[Pipe, int]] = defaultdict(dict)

    def conflicts(self, step: Step) -> Iterator[tuple[Pipe, int]]:
        """What a step must come after: other pipes' last steps, by number, that access what it accesses.

        At least one of the two writes.
        """
        for area in (*step.reads, step.write):
            for other in self._meeting[area]:
                earlier = [self._writes[other]] + [self._reads[other]] * (area is step.write)
                for table in earlier:
                    yield from ((pipe, number) for pipe, number in table.items() if pipe is not step.pipe)

    def note(self, step: Step, number: int) -> None:
        """Take down what a step accesses."""
        for area in step.reads:
            self._reads[area][step.pipe] = number
        self._writes[step.write][step.pipe] = number


Pair = tuple[Pipe, Pipe]
"""The source and the target of a flag."""


def needed(steps: Sequence[Step]) -> dict[int, tuple[Pair, ...]]:
    """The flags of a run by the rule, without their events, by the `id` of the call.

    The rule: right before an instruction, for each other pipe with a conflicting access that the
    instruction's pipe has not yet waited for, that pipe sets an event and the instruction's waits for it.

    A flag stands in the program and not in the run: it is met in every round of the loops around it. So the
    run is gone through again until a whole pass adds none.
    """
    sources: dict[int, dict[Pipe, None]] = {id(step.call): {} for step in steps}
    grown = True
    while grown:
        grown = False
        accesses = Accesses(steps)
        waited: dict[Pair, int] = {}
        for number, step in enumerate(steps):
            own = sources[id(step.call)]
            waited.update({(source, step.pipe): number for source in own})
            for source, earlier in accesses.conflicts(step):
                if earlier >= waited.get((source, step.pipe), 0):
                    own[source] = None
                    waited[source, step.pipe] = number
                    grown = True
            accesses.note(step, number)
    pipes = {id(step.call): step.pipe for step in steps}
    return {call: tuple((source, pipes[call]) for source in own) for call, own in sources.items()}


def numbered(pairs: Mapping[int, Sequence[Pair]]) -> Flags:
    """Give the flags of each pair of pipes the events in turn, in the order of the program."""
    used: Counter[Pair] = Counter()
    flags = {}
    for call, own in pairs.items():
        flags[call] = tuple(Flag(*pair, used[pair] % EVENTS) for pair in own)
        used.update(own)
    return flags
