"""The walk back: each demand goes from what an operator wrote to what it read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emulator.backward.lookup import Results, first
from emulator.backward.products import demands
from emulator.backward.readers import Reading, copied, faulty_readers, movable
from emulator.backward.stores import left_out, misplaced, windows_of, wrong_place
from emulator.backward.suspicion import NOTHING, Fault, Suspicion
from emulator.elements import PADDING
from emulator.sums import Mask
from emulator.terms import NEVER, Ids, Numbering
from emulator.trace import Buffer, Copy, Event, Leave, Multiply, Recorder


def suspicions(recorder: Recorder, numbering: Numbering, wanted: Mapping[Buffer, Ids]) -> list[Suspicion]:
    """The operators at fault, as events; several rounds of one operator are several of them.

    Args:
        recorder: a finished walk.
        numbering: its ids.
        wanted: what the outputs must hold.
    """
    backward = _Backward(numbering, recorder)
    for buffer, ids in wanted.items():
        backward.demand[buffer] = ids.reshape(buffer.shape).astype(numbering.dtype)
        backward.stored(buffer, recorder.contents(buffer))
    for event in reversed(recorder.events):
        backward.step(event)
    backward.unwritten()
    return backward.found


class _Backward:
    """What is demanded of each buffer at the event that the walk back has come to.

    `demand` goes to the events that wrote a buffer, `readings` come from those that read it; what is `found`
    is at fault.
    """

    def __init__(self, numbering: Numbering, recorder: Recorder) -> None:
        self._numbering = numbering
        self._events = recorder.events
        self._readings: dict[Buffer, list[Reading]] = {}
        self._writers: dict[Buffer, list[Event]] = {}
        for event in self._events:
            if not isinstance(event, Multiply):
                self._writers.setdefault(event.target, []).append(event)
        self._misplaced: set[Event] = set()
        self._last: dict[Buffer, Event] = {}
        self._alike: dict[Buffer, dict[tuple[int, ...], Reading]] = {}
        self._results = Results(numbering)
        self.found: list[Suspicion] = []
        self.demand: dict[Buffer, Ids] = {}

    def step(self, event: Event) -> None:
        """Take the demands for what an event wrote to what it read."""
        if isinstance(event, Multiply):
            return
        if self._readings.get(event.target):
            self._settle(event.target)
        self._last.setdefault(event.target, event)
        all_demands = self.demand.get(event.target)
        if all_demands is None:
            return
        demand = all_demands[event.cells].copy()
        all_demands[event.cells] = NOTHING
        if (demand == NOTHING).all():
            return
        if isinstance(event, Leave):
            if event in self._misplaced:
                demand = np.where(event.ids > PADDING, event.ids, NOTHING)
            for asked in demands(event, demand, self._numbering, self._results, self._events):
                if isinstance(asked, Suspicion):
                    self.found.append(asked)
                else:
                    buffer, reading = asked
                    self._readings.setdefault(buffer, []).append(reading)
        elif isinstance(event, Copy):
            self._read(event, copied(event, demand))

    def _read(self, event: Copy, reading: Reading) -> None:
        """Keep what a copy demands, once if it does so in several rounds. An input holds what it must."""
        if event.source.given:
            if reading.amiss:
                fault = Fault.SOURCE if reading.wrong.any() else Fault.PADDING
                self.found.append(reading.suspected(event, fault))
            return
        ends = int(reading.index[0, 0]), int(reading.index[-1, -1])
        key = event.call, *ends, hash(reading.demand.tobytes())
        alike = self._alike.setdefault(event.source, {}).setdefault(key, reading)
        if alike is not reading and np.array_equal(alike.index, reading.index):
            alike.events.append(event)
        else:
            self._readings.setdefault(event.source, []).append(reading)

    def _settle(self, buffer: Buffer) -> None:
        """Decide whether its readers or what is before them are at fault; the demands that are left stay."""
        readings = self._readings.pop(buffer)
        self._alike.pop(buffer, None)
        wrong = [reading for reading in readings if reading.amiss]
        also: Event | None = None
        faulty = faulty_readers(buffer, readings) if wrong else {}
        if wrong and not faulty:
            moved, also = movable(buffer, readings, self._writers[buffer])
            faulty = {reading.event.line: Fault.SOURCE for reading in wrong if moved}
        if isinstance(readings[0].event, Multiply):  # it reads the whole tile: is that the tile of its step?
            also = self._writers[buffer][0]
        for reading in wrong:
            if (fault := faulty.get(reading.event.line)) is not None:
                self.found += [reading.suspected(event, fault, also) for event in reading.events]
        demand = self.demand.setdefault(buffer, np.full(buffer.shape, NOTHING, self._numbering.dtype))
        held = next((each.event.held for each in readings if isinstance(each.event, Copy)), None)
        if held is not None:
            self._stale(buffer, demand, held)
        flat = demand.reshape(-1)
        needed = np.unique(np.concatenate([reading.wanted.reshape(-1) for reading in readings]))
        for reading in readings:
            asked = reading.wanted
            if reading.event.line in faulty:  # of what it read instead, what nobody needs may be anything
                asked = np.where(np.isin(reading.held, needed), reading.held, NOTHING)
            use = (reading.wanted != NOTHING) & (asked >= PADDING)
            flat[reading.index[use]] = asked[use]
        if held is not None:
            self.stored(buffer, held)

    def _stale(self, buffer: Buffer, demand: Ids, held: Ids) -> None:
        """Suspect the last write of a later round for places that it left as this round reads them."""
        later = self._last.pop(buffer, None)
        stale: Mask = (demand != NOTHING) & (demand != held)
        if later is not None and stale.any():
            place, count = first(stale), int(stale.sum())
            wanted, has = int(demand[place]), int(held[place])
            self.found.append(Suspicion(Fault.STALE, later, place, wanted, has, count))
            demand[stale] = NOTHING

    def stored(self, buffer: Buffer, held: Ids) -> None:
        """Suspect the stores to a buffer whose sums are all made and belong elsewhere in it.

        Args:
            buffer: the buffer, whose demands are known.
            held: what it holds, ids in its shape.
        """
        demand, writers = self.demand[buffer], self._writers.get(buffer, [])
        lost = misplaced(writers, demand, held)
        calls = {store.call for store in lost}
        self._misplaced |= {event for event in writers if event.call in calls}
        for store, other in lost.items():
            windows = windows_of(store, demand, self._results, self._writers)
            self.found.append(wrong_place(store, other, demand, windows))

    def unwritten(self) -> None:
        """Suspect what should have written the places that are demanded and have no writer."""
        for buffer in [*self._readings]:
            if not buffer.given:
                self._settle(buffer)
        for buffer, demand in self.demand.items():
            missing = np.asarray(demand != NOTHING)
            if buffer.given or not missing.any():
                continue
            writers = self._writers.get(buffer, [])
            # What a misplaced store holds is made: it is missing here because it lies elsewhere.
            stores = [each.ids for each in writers if isinstance(each, Leave) and each in self._misplaced]
            missing &= ~np.isin(demand, [each for ids in stores for each in np.unique(ids)])
            if not missing.any() or not writers:
                continue
            place = first(missing)
            if (suspicion := left_out(writers, demand, place, int(missing.sum()))) is not None:
                self.found.append(suspicion)
                continue
            beside = sorted(writers, key=lambda event: (event.at, event.number))
            before = [event for event in beside if event.at <= place]
            after = [event for event in beside if event.at > place]
            near = [*before[-1:], *after[:1]]
            also = near[1] if len(near) > 1 else None
            wanted, count = int(demand[place]), int(missing.sum())
            self.found.append(
                Suspicion(Fault.UNWRITTEN, near[0], place, wanted, NEVER, count, also=also, writers=writers)
            )
