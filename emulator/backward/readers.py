"""Decides whether those that read a buffer are at fault, or what is before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.backward.lookup import FAR, displacement, first
from emulator.backward.stores import misplaced
from emulator.backward.suspicion import NOTHING, Fault, Suspicion
from emulator.elements import PADDING
from emulator.operands import variables
from emulator.sums import Mask
from emulator.terms import Ids, Index
from emulator.trace import Buffer, Copy, Event, Line

_MOVING = {"tile.img2col": ("pos_m", "pos_k"), "tile.extract": ("row", "col"), "load": ("offsets",)}
"""The operands that say where an operator reads."""


@dataclass(frozen=True)
class Padded:
    """Padding where an element is needed, or the reverse: how often, where first, and the id needed there."""

    count: int
    place: tuple[int, int]
    wanted: int


@dataclass(eq=False)
class Reading:
    """What events demand of places of a buffer, and what these held.

    Attributes:
        events: the events, the last one first; all demand the same.
        index: the places, counted row by row; in the shape of what the events wrote, as are all ids here.
        wanted: the ids that are demanded of them; `NOTHING` where it does not matter.
        held: the ids that they held.
        demand: what the events should have written.
        padded: whether padding is amiss.
    """

    events: list[Event]
    index: Index
    wanted: Ids
    held: Ids
    demand: Ids
    padded: Padded | None = None

    def __post_init__(self) -> None:
        self.wrong: Mask = (self.wanted != self.held) & (self.wanted != NOTHING)

    @property
    def event(self) -> Event:
        """The first of the events."""
        return self.events[-1]

    @property
    def amiss(self) -> bool:
        """Whether anything is wrong there."""
        return bool(self.wrong.any()) or self.padded is not None

    def suspected(self, event: Event, fault: Fault, also: Event | None = None) -> Suspicion:
        """Suspect one of the events, or `also` in its stead."""
        right = offset_for(event, self.demand) if isinstance(event, Copy) else None
        count = int(self.wrong.sum())
        if self.padded is not None:
            place, wanted, count = self.padded.place, self.padded.wanted, count + self.padded.count
            held = PADDING if wanted != PADDING else int(self.held[place])
        else:
            at = int(self.wrong.reshape(-1).argmax())
            source = event.source if isinstance(event, Copy) else None
            columns = source.shape[1] if source is not None else self.wrong.shape[1]
            place = divmod(int(self.index.reshape(-1)[at]), columns)
            wanted, held = int(self.wanted.reshape(-1)[at]), int(self.held.reshape(-1)[at])
        return Suspicion(fault, event, place, wanted, held, count, self.demand, also, right)


def copied(event: Copy, demand: Ids) -> Reading:
    """What a copy demands of its source, ids in its shape, so that it would have brought what it should."""
    index = event.index
    inside = index >= 0
    padded = None
    held = event.held.reshape(-1)[np.maximum(index, 0)]
    padding = np.where(inside, held == PADDING, True)  # a buffer may hold padding, too
    amiss = (demand != NOTHING) & np.where(demand == PADDING, ~padding, ~inside)
    if amiss.any():
        place = first(amiss)
        padded = Padded(int(amiss.sum()), place, int(demand[place]))
    use = inside & (demand != PADDING)
    return Reading([event], index, np.where(use, demand, NOTHING), held, demand, padded)


def whole(event: Event, buffer: Buffer, wanted: Ids, held: Ids) -> Reading:
    """What an event that reads all of a buffer demands of it, ids in its shape."""
    index = np.arange(buffer.size, dtype=np.int32).reshape(buffer.shape)
    return Reading([event], index, wanted, held, wanted)


def faulty_readers(buffer: Buffer, readings: Sequence[Reading]) -> dict[Line, Fault]:
    """The calls that padding, or a place that others demand otherwise, shows to be wrong."""
    wrong = [reading for reading in readings if reading.amiss]
    faulty = {reading.event.line: Fault.PADDING for reading in wrong if reading.padded}
    dtype = readings[0].held.dtype
    low, high = np.full(buffer.size, NOTHING, dtype), np.full(buffer.size, -NOTHING, dtype)
    for reading in readings:
        use = reading.wanted != NOTHING
        np.minimum.at(low, reading.index[use], reading.wanted[use])
        np.maximum.at(high, reading.index[use], reading.wanted[use])
    disputed = (high != -NOTHING) & (low != high)
    if disputed.any():
        for reading in wrong:
            if disputed[reading.index[reading.wrong]].any():
                faulty.setdefault(reading.event.line, Fault.READERS)
    if faulty:  # others that demand the same in their stead are misled in the same way
        theirs = np.zeros(buffer.size, bool)
        for reading in wrong:
            if reading.event.line in faulty:
                theirs[reading.index[reading.wrong]] = True
        for reading in wrong:
            if theirs[reading.index[reading.wrong]].any():
                faulty.setdefault(reading.event.line, Fault.SOURCE)
    return faulty


def movable(
    buffer: Buffer, readings: Sequence[Reading], writers: Sequence[Event]
) -> tuple[bool, Event | None]:
    """Whether the readers of a buffer, which agree, should read elsewhere in it.

    They should not if something is demanded that the buffer does not hold, or if the stores to it have all
    that is demanded, each at another place. Also the writer that could be at fault in their stead.
    """
    wrong = [reading for reading in readings if reading.amiss]
    if not all(isinstance(reading.event, Copy) for reading in wrong):
        return False, None
    held = next(reading.event.held for reading in readings if isinstance(reading.event, Copy))
    distances = {id(reading): _distance(held, reading) for reading in wrong}
    if any(distance is None for distance in distances.values()):
        return False, None
    flat = np.full(buffer.size, NOTHING, held.dtype)
    for reading in readings:
        use = reading.wanted != NOTHING
        flat[reading.index[use]] = reading.wanted[use]
    demand = flat.reshape(buffer.shape)
    fills = [writer for writer in writers if isinstance(writer, Copy)]
    refillable = bool(fills) and all(offset_for(fill, demand[fill.cells]) is not None for fill in fills)
    calls = {reading.event.call for reading in wrong}
    steady = _steady([reading for reading in readings if reading.event.call in calls], distances)
    if elsewhere := misplaced(writers, demand, held):
        return steady, next(iter(elsewhere))
    if steady or not refillable:
        return True, fills[0] if refillable else None
    return False, None


def offset_for(event: Copy, demand: Ids) -> tuple[int, int] | None:
    """The offset in its source at which a copy would bring all that is demanded of it; None if none would."""
    if event.step.call.operator == "tile.img2col":
        return None
    use = (demand != NOTHING) & (demand != PADDING)
    row, column = event.numbers["from"]
    if not use.any():
        return row, column
    moved = displacement(event.held, event.index[use], demand[use])
    return None if moved is None or moved == FAR else (row + moved[0], column + moved[1])


def _distance(held: Ids, reading: Reading) -> tuple[int, int] | None:
    """Rows and columns by which all that is demanded lies further in the source; None if it is not there."""
    use = reading.wanted != NOTHING
    return displacement(held, reading.index[use], reading.wanted[use]) if use.any() else None


def _steady(readings: Sequence[Reading], distances: Mapping[int, tuple[int, int] | None]) -> bool:
    """Whether one operand, as the loops that it depends on let it be, could bring all distances about."""
    operands = _MOVING.get(readings[0].event.step.call.operator, ())
    for operand in operands:
        seen: dict[tuple[int, ...], tuple[int, int] | None] = {}
        for reading, event in ((one, event) for one in readings for event in one.events):
            names = variables(event.step.call.operands[operand])
            key = (event.call, *(event.step.rounds[name] for name in sorted(names)))
            distance = distances.get(id(reading), (0, 0))
            if distance == FAR or seen.setdefault(key, distance) != distance:
                break
        else:
            return True
    return False
