"""Slots, which Ray gives a run on nodes of its choice, and places, which jobs take in them."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.run.cluster.messages import Ask, Return
from pipeline.run.devices import Device

_MOST_PENDING = 8
"""Slots that Ray is asked for at a time."""

_HELD_SECONDS = 5.0
"""How long a device is not tried again that another run or program held."""

_ANSWERING_SECONDS = 2.0
"""How long the node has to say that a device which is tried again is still held."""


@dataclass(frozen=True)
class Place(Device):
    """A device, or a node, together with the slot in which it is used."""

    slot: int = 0


@dataclass
class _Slot:
    """Resources that Ray was asked for on one of `nodes`. `node` is where it gave them; empty: not yet."""

    resources: Mapping[str, float]
    nodes: tuple[str, ...]
    node: str = ""

    def covers(self, resources: Mapping[str, float]) -> bool:
        return all(self.resources.get(name, 0.0) >= amount for name, amount in resources.items())


class Slots:
    """The slots of a run, by their numbers; `send` tells the liaison. Nodes are named by their keys.

    A node gives no slot as long as the run uses as many there as the node has `processors`. One that is asked
    for nevertheless would only keep jobs from other nodes.
    """

    def __init__(self, send: Callable[[object], None], processors: Callable[[str], int]) -> None:
        self._send, self._processors = send, processors
        self._slots: dict[int, _Slot] = {}
        self._asked: set[int] = set()
        self._idle: set[int] = set()
        self._used: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    def has_room(self, workers: int) -> bool:
        """Whether one is idle, or Ray can be asked for one more of so many."""
        return bool(self._idle) or (len(self._asked) < _MOST_PENDING and len(self._slots) < workers)

    def idle(self, resources: Mapping[str, float]) -> Mapping[str, int]:
        """By node, an idle slot that has such resources."""
        return {
            self._slots[number].node: number for number in self._idle if self._slots[number].covers(resources)
        }

    def node_of(self, number: int) -> str:
        """The node of a slot; empty: it is not given yet."""
        return self._slots[number].node

    def use(self, number: int) -> None:
        """Take an idle slot."""
        self._idle.remove(number)
        node = self._slots[number].node
        self._used[node] += 1
        if self._full(node):
            for asked in [one for one in self._asked if all(map(self._full, self._slots[one].nodes))]:
                self.give_back(asked)

    def _full(self, node: str) -> bool:
        return self._used[node] >= self._processors(node)

    def free(self, number: int) -> None:
        """A slot is used no longer, unless it was given back."""
        if number in self._slots:
            self._idle.add(number)
            self._used[self._slots[number].node] -= 1

    def ask(
        self, resources: Mapping[str, float], nodes: tuple[str, ...], workers: int, *, exchange: bool
    ) -> None:
        """Ask for one more of so many; with `exchange`, give an idle one back for it if there are so many."""
        nodes = tuple(node for node in nodes if not self._full(node))
        if not nodes:
            return
        if len(self._slots) >= workers:
            if not self._idle or not exchange:
                return
            self.give_back(min(self._idle))
        if len(self._asked) < _MOST_PENDING:
            number = next(self._numbers)
            self._slots[number] = _Slot(resources, nodes)
            self._asked.add(number)
            self._send(Ask(number, resources, nodes))

    def grant(self, number: int, node: str, *, fit: bool) -> None:
        """Ray gives a slot on a node; it goes back if the node is not `fit`."""
        slot = self._slots.get(number)
        if slot is None:
            return  # it was given back before
        if not fit:
            self.give_back(number)
            return
        slot.node = node
        self._asked.discard(number)
        self._idle.add(number)

    def give_back(self, number: int) -> None:
        """Give a slot back to Ray."""
        del self._slots[number]
        self._asked.discard(number)
        self._idle.discard(number)
        self._send(Return(number))

    def lose(self, node: str) -> None:
        """Give back all slots of a node, and those not given yet: perhaps only it had what they ask for."""
        for number, slot in list(self._slots.items()):
            if slot.node in (node, ""):
                self.give_back(number)
        del self._used[node]


class Devices:
    """The devices of all nodes that are in use, or held by another run or program, by the names of places."""

    def __init__(self) -> None:
        self._busy: set[str] = set()
        self._held: dict[str, tuple[float, str]] = {}

    def taken(self) -> set[str]:
        """Those that cannot be taken now."""
        now = time.monotonic()
        return self._busy | {name for name, (until, _) in self._held.items() if until > now}

    def use(self, name: str) -> None:
        """Take one; it may still be held, and then its node has some time to say so."""
        self._busy.add(name)
        if name in self._held:
            self._held[name] = (time.monotonic() + _ANSWERING_SECONDS, self._held[name][1])

    def free(self, name: str) -> None:
        """One is used no longer, if it was."""
        self._busy.discard(name)

    def hold(self, name: str, holder: str) -> None:
        """One is held elsewhere, by a holder in words."""
        self._held[name] = (time.monotonic() + _HELD_SECONDS, holder)

    def release(self, name: str) -> None:
        """One is held by nobody else."""
        self._held.pop(name, None)

    def held_elsewhere(self, names: Sequence[str]) -> tuple[str, ...]:
        """Of places that could not be taken, those held elsewhere, and all that are tried again just now.

        A place that is tried again is waited for until its node has had time to answer.
        """
        now = time.monotonic()
        waited = (name for name in names if name in self._held and name not in self._busy)
        tried = (name for name, (end, _) in self._held.items() if name in self._busy and now < end)
        return (*waited, *tried)

    def holder(self, name: str) -> str:
        """Who holds one elsewhere, in words."""
        return self._held[name][1] if name in self._held else "nobody"
