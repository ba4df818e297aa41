"""Goes back through a walk from what the outputs must hold, to the operators that are at fault.

An output demands sums, a sum demands its elements, and each demand goes to the operator that wrote the place
where the element was read. Where a demand is not what the place held, something is wrong there or before:

- Sums that all are made, but lie elsewhere: the operator that stored them is at fault.
- Readers of a buffer that demand different things of one place, or padding where an element is needed, or the
  reverse: the readers are at fault.
- All readers of a place agree, and what they demand is in the buffer: the readers or what filled it. If it is
  not in the buffer: what filled it, or something before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from emulator.elements import PADDING
from emulator.program import variables
from emulator.sums import Mask, middle, split
from emulator.terms import NEVER, Block, Ids, Index, Numbering
from emulator.trace import Buffer, Copy, Event, Leave, Multiply, Recorder

Line = tuple[str, int, str]
"""A file, a line, and the operator there."""

NOTHING = np.iinfo(np.int32).max
"""A demand for no element: what stands there does not matter."""

_WHOLE = 0.75
"""Least share of a tile's sums that must be known for it to be called misplaced: stores move whole tiles."""

_ROWS = 12
"""Rows of an accumulator that are asked which depths their left elements have."""


class Fault(Enum):
    """What is wrong with an operator."""

    PLACE = "place"
    """Its sums are all made, but belong elsewhere."""
    SOURCE = "source"
    """It takes other elements than are demanded."""
    PADDING = "padding"
    """Padding stands where an element is needed, or the reverse."""
    READERS = "readers"
    """It reads what is not demanded, at places that others read rightly, or it disagrees with itself."""
    TWICE = "twice"
    """It adds terms a second time."""
    MISSING_TERMS = "missing terms"
    """The sums lack terms after it."""
    DISCARDED = "discarded"
    """It begins sums anew although they were begun before."""
    BIAS = "bias"
    """It begins with a bias where none belongs, or the reverse."""
    TABLE = "table"
    """It requantises what stays as it is, or the reverse."""
    STALE = "stale"
    """It is the last to write in its round, and leaves places as an earlier round wrote them."""
    UNWRITTEN = "unwritten"
    """Nothing writes what is needed after what it writes."""


@dataclass(eq=False)
class Suspicion:
    """An operator that is at fault, in one round.

    Attributes:
        fault: what is wrong.
        event: the operator as it ran.
        place: the row and column, in what it wrote or of what it read, where it shows first.
        wanted: the id that belongs there.
        held: the id that is there.
        count: elements of which this is so.
        demand: what its target should hold, ids of the shape of the event; `NOTHING` where it does not matter.
        also: an event that would be at fault instead: what is seen does not tell them apart.
        right: where its rectangle should be, in its target if its place is wrong, else in its source; None if no
            other offset would do, or if the fault is none of an offset.
        terms: how many terms are missing, and the first of them, a left and a right element; of a bias or table
            that is wrong, the sum in place of the left element.
        leave: where sums that lack terms leave their accumulator.
        writers: what wrote elsewhere in a buffer in which nothing writes some places.
    """

    fault: Fault
    event: Event
    place: tuple[int, int]
    wanted: int
    held: int
    count: int
    demand: Ids | None = None
    also: Event | None = None
    right: tuple[int, int] | None = None
    terms: tuple[int, int, int] = (0, PADDING, PADDING)
    leave: Leave | None = None
    writers: Sequence[Event] = ()


@dataclass(eq=False)
class Reading:
    """What events, the last one first, demand of places of a buffer, counted row by row, and what they held."""

    events: list[Event]
    index: Index
    wanted: Ids
    held: Ids
    demand: Ids
    padded: tuple[int, int, int, int] | None = None  # count, row and column, id wanted

    def __post_init__(self) -> None:
        self.wrong: Mask = (self.wanted != self.held) & (self.wanted != NOTHING)

    @property
    def event(self) -> Event:
        """The first of the events."""
        return self.events[-1]


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
        backward.outputs(buffer, recorder.contents(buffer))
    for event in reversed(recorder.events):
        backward.step(event)
    backward.unwritten()
    return backward.found


class _Backward:
    def __init__(self, numbering: Numbering, recorder: Recorder) -> None:
        self.numbering = numbering
        self.events = recorder.events
        self.found: list[Suspicion] = []
        self.demand: dict[Buffer, Ids] = {}
        self.readings: dict[Buffer, list[Reading]] = {}
        self.writers: dict[Buffer, list[Event]] = {}
        for event in self.events:
            if not isinstance(event, Multiply):
                self.writers.setdefault(event.target, []).append(event)
        self.misplaced: set[Event] = set()
        self._last: dict[Buffer, Event] = {}
        self._alike: dict[Buffer, dict[tuple[int, ...], Reading]] = {}
        self._results: dict[int, tuple[Ids, Index]] = {}

    # -- what a buffer should have held

    def step(self, event: Event) -> None:
        """Take the demands for what an event wrote to what it read."""
        if isinstance(event, Multiply):
            return
        if self.readings.get(event.target):
            self.settle(event.target)
        self._last.setdefault(event.target, event)
        demands = self.demand.get(event.target)
        if demands is None:
            return
        demand = demands[event.cells].copy()
        demands[event.cells] = NOTHING
        if (demand == NOTHING).all():
            return
        if isinstance(event, Leave):
            if event in self.misplaced:
                demand = np.where(event.ids > PADDING, event.ids, NOTHING)
            self.sums(event, demand)
        elif isinstance(event, Copy):
            self.copied(event, demand)

    def settle(self, buffer: Buffer) -> None:
        """Decide whether its readers or what is before them are at fault; the demands that are left stay."""
        readings = self.readings.pop(buffer)
        self._alike.pop(buffer, None)
        wrong = [reading for reading in readings if reading.wrong.any() or reading.padded]
        faulty: dict[Line, Fault] = {}
        also: Event | None = None
        if wrong:
            faulty = self._faulty_readers(buffer, readings, wrong)
            if not faulty:
                moved, also = self._movable(buffer, readings, wrong)
                faulty = {reading.event.line: Fault.SOURCE for reading in wrong if moved}
        for reading in wrong:
            for event in reading.events if reading.event.line in faulty else ():
                self._blame_reader(event, reading, faulty[event.line], buffer, also)
        demand = self.demand.setdefault(buffer, np.full(buffer.shape, NOTHING, self.numbering.dtype))
        held = next((each.event.held for each in readings if isinstance(each.event, Copy)), None)
        if held is not None:
            self._stale(buffer, demand, held)
        flat = demand.reshape(-1)
        for reading in readings:
            asked = reading.held if reading.event.line in faulty else reading.wanted
            use = (reading.wanted != NOTHING) & (asked > PADDING)
            flat[reading.index[use]] = asked[use]
        if held is not None:
            self.outputs(buffer, held)

    def _stale(self, buffer: Buffer, demand: Ids, held: Ids) -> None:
        """Blame the last write of a later round for places that it left as this round reads them."""
        later = self._last.pop(buffer, None)
        stale = (demand != NOTHING) & (demand != held)
        if later is not None and stale.any():
            row, column = divmod(int(stale.reshape(-1).argmax()), buffer.shape[1])
            wanted, count = int(demand[row, column]), int(stale.sum())
            self.suspect(Fault.STALE, later, (row, column), wanted, int(held[row, column]), count)
            demand[stale] = NOTHING

    def _blame_reader(
        self, event: Event, reading: Reading, fault: Fault, buffer: Buffer, also: Event | None = None
    ) -> None:
        right = _offset(event, reading.demand) if isinstance(event, Copy) else None
        if reading.wrong.any() and not reading.padded:
            first = int(reading.wrong.reshape(-1).argmax())
            cell = int(reading.index.reshape(-1)[first])
            self.suspect(
                fault,
                event,
                divmod(cell, buffer.shape[1]),
                reading.wanted.reshape(-1)[first],
                reading.held.reshape(-1)[first],
                int(reading.wrong.sum()),
                reading.demand,
                also,
                right,
            )
        else:
            assert reading.padded is not None
            count, row, column, wanted = reading.padded
            count += int(reading.wrong.sum())
            held = PADDING if wanted != PADDING else int(reading.held[row, column])
            self.suspect(fault, event, (row, column), wanted, held, count, reading.demand, also, right)

    def _faulty_readers(
        self, buffer: Buffer, readings: Sequence[Reading], wrong: Sequence[Reading]
    ) -> dict[Line, Fault]:
        """The calls that padding, or a place that others demand otherwise, shows to be wrong."""
        faulty = {reading.event.line: Fault.PADDING for reading in wrong if reading.padded}
        low, high = (
            np.full(buffer.size, NOTHING, self.numbering.dtype),
            np.full(buffer.size, -NOTHING, self.numbering.dtype),
        )
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

    def _movable(
        self, buffer: Buffer, readings: Sequence[Reading], wrong: Sequence[Reading]
    ) -> tuple[bool, Event | None]:
        """Whether the readers of a buffer, which agree, should read elsewhere in it.

        They should not if something is demanded that the buffer does not hold, or if the stores to it have all
        that is demanded, each at another place. Also the writer that could be at fault in their stead.
        """
        if not all(isinstance(reading.event, Copy) for reading in wrong):
            return False, None
        held = next(reading.event.held for reading in readings if isinstance(reading.event, Copy))
        distances = {id(reading): _distance(held, reading) for reading in wrong}
        if any(distance is None for distance in distances.values()):
            return False, None
        demand = np.full(buffer.size, NOTHING, self.numbering.dtype)
        for reading in readings:
            use = reading.wanted != NOTHING
            demand[reading.index[use]] = reading.wanted[use]
        demand = demand.reshape(buffer.shape)
        misplaced = self._misplaced(buffer, demand, held)
        fills = [writer for writer in self.writers[buffer] if isinstance(writer, Copy)]
        refillable = bool(fills) and all(_offset(fill, demand[fill.cells]) is not None for fill in fills)
        calls = {reading.event.call for reading in wrong}
        own = [reading for reading in readings if reading.event.call in calls]
        steady = _steady(own, distances)
        if misplaced:
            return steady, next(iter(misplaced))
        if steady or not refillable:
            return True, fills[0] if refillable else None
        return False, None

    # -- what operators moved

    def copied(self, event: Copy, demand: Ids) -> None:
        """Demand of a source what a copy should have brought."""
        index = event.index
        inside = index >= 0
        padded = None
        amiss = (demand != NOTHING) & (inside == (demand == PADDING))
        if amiss.any():
            first = int(amiss.reshape(-1).argmax())
            row, column = divmod(first, demand.shape[1])
            padded = int(amiss.sum()), row, column, int(demand.reshape(-1)[first])
        use = inside & (demand != PADDING)
        held = event.held.reshape(-1)[np.maximum(index, 0)]
        reading = Reading([event], index, np.where(use, demand, NOTHING), held, demand, padded)
        if event.source.given:
            if reading.wrong.any() or padded:
                fault = Fault.SOURCE if reading.wrong.any() else Fault.PADDING
                self._blame_reader(event, reading, fault, event.source)
            return
        readings = self.readings.setdefault(event.source, [])
        first, last = int(index.reshape(-1)[0]), int(index.reshape(-1)[-1])
        key = event.call, first, last, hash(demand.tobytes())
        alike = self._alike.setdefault(event.source, {}).setdefault(key, reading)
        if alike is reading:
            readings.append(reading)
        elif np.array_equal(alike.index, index):
            alike.events.append(event)
        else:
            readings.append(reading)

    # -- where sums were stored

    def outputs(self, buffer: Buffer, held: Ids) -> None:
        """Blame the stores to a buffer whose sums are all made and belong elsewhere in it."""
        demand = self.demand[buffer]
        misplaced = self._misplaced(buffer, demand, held)
        calls = {store.call for store in misplaced}
        self.misplaced |= {event for event in self.writers.get(buffer, ()) if event.call in calls}
        for store, other in misplaced.items():
            row, column = divmod(int(other.reshape(-1).argmax()), other.shape[1])
            here = int(store.ids[row, column])
            belongs = divmod(int((demand.reshape(-1) == here).argmax()), buffer.shape[1])
            right = belongs[0] - row, belongs[1] - column
            self.suspect(
                Fault.PLACE,
                store,
                (store.at[0] + row, store.at[1] + column),
                here,
                int(demand[store.cells][row, column]),
                int(other.sum()),
                np.where(other, store.ids, NOTHING),
                self._windows(store, demand),
                right,
            )

    def _windows(self, store: Leave, demand: Ids) -> Event | None:
        """What made the left operands of a misplaced tile, if it could read those of the tile that belongs there."""
        there = demand[store.cells]
        block = self._block(there[there != NOTHING])
        windows = self.writers.get(store.products[0].a, [None])[0]
        if block is None or not isinstance(windows, Copy):
            return None
        rows, _ = self._rows_and_columns(block, there)
        elements = block.left(rows[rows >= 0], np.arange(block.depth))
        return windows if np.isin(elements[elements > PADDING], windows.held).all() else None

    def _misplaced(self, buffer: Buffer, demand: Ids, held: Ids) -> Mapping[Leave, Mask]:
        """The stores whose sums belong elsewhere in a buffer, and which of them do."""
        stores = [event for event in self.writers.get(buffer, ()) if isinstance(event, Leave)]
        wrong = (demand != NOTHING) & (held != demand)
        if not stores or not wrong.any():
            return {}
        needed = np.unique(demand[wrong])
        lost: dict[Leave, Mask] = {}
        for store in stores:
            there = demand[store.cells]
            other = (store.ids > PADDING) & (store.ids != there) & np.isin(store.ids, needed)
            known = store.ids > PADDING
            if other.any() and not (store.ids == there).any() and known.mean() >= _WHOLE:
                lost[store] = other
        return {store: lost[store] for store in self._only_misplaced(stores, lost, demand)}

    def _only_misplaced(
        self, stores: Sequence[Leave], lost: Mapping[Leave, Mask], demand: Ids
    ) -> list[Leave]:
        """Of stores with sums that belong elsewhere, those of calls that need nothing that is not made.

        A call that needs a sum which nobody makes reads wrong elements; what it makes does not count for others.
        """
        calls: dict[int, list[Leave]] = {}
        for store in lost:
            calls.setdefault(store.call, []).append(store)
        while True:
            sound = [store for store in stores if store not in lost or store.call in calls]
            made = np.unique(np.concatenate([store.ids.reshape(-1) for store in sound] or [np.zeros(0, int)]))
            bad = []
            for call, mine in calls.items():
                must = np.concatenate([demand[store.cells][lost[store]] for store in mine])
                if not np.isin(must[must != NOTHING], made).all():
                    bad.append(call)
            if not bad:
                return [store for mine in calls.values() for store in mine]
            for call in bad:
                del calls[call]

    # -- what sums hold

    def sums(self, event: Leave, demand: Ids) -> None:
        """Demand of the operands of sums what the sums that are demanded need."""
        wanted = demand != NOTHING
        good: Mask = event.good & np.equal(event.ids, demand)
        products = event.products
        if (good | ~wanted).all():
            self._as_held(event, wanted)
            return
        found = self._block(demand[wanted])
        if found is None:
            return
        block = found
        rows, columns = self._rows_and_columns(block, demand)
        if (event.entries is None) != (block.table is None):
            entry = NOTHING if block.table is None else int(block.table[max(int(columns.max()), 0)])
            self._whole(Fault.TABLE, event, demand, entry, NOTHING)
            return
        if event.scale is not None and block.table is not None:
            assert event.entries is not None
            self._row(
                event,
                event.scale,
                np.where(columns >= 0, block.table[np.maximum(columns, 0)], NOTHING),
                event.entries,
            )
        begin = products[0]
        if (event.bias is None) != (block.bias is None):
            starts = NOTHING if block.bias is None else int(block.bias[max(int(columns.max()), 0)])
            has = NOTHING if event.bias is None else int(event.bias[int(columns.argmax())])
            self._whole(Fault.BIAS, begin, demand, starts, has)
        elif begin.bias is not None and block.bias is not None:
            assert event.bias is not None
            must = np.where(columns >= 0, block.bias[np.maximum(columns, 0)], NOTHING)
            self._row(begin, begin.bias, must, event.bias)
        self._products(event, block, rows, columns, demand)

    def _as_held(self, event: Leave, wanted: Mask) -> None:
        """The sums are right: their operands are demanded as they are."""
        rows, columns = np.asarray(wanted.any(axis=1)), wanted.any(axis=0)
        for product in event.products:
            self._read(product, product.a, np.where(rows[:, None], product.left, NOTHING), product.left)
            self._read(product, product.b, np.where(columns, product.right, NOTHING), product.right)
        begin = event.products[0]
        if begin.bias is not None and event.bias is not None:
            self._row(begin, begin.bias, np.where(columns, event.bias, NOTHING), event.bias)
        if event.scale is not None and event.entries is not None:
            self._row(event, event.scale, np.where(columns, event.entries, NOTHING), event.entries)

    def _row(self, event: Event, buffer: Buffer, wanted: Ids, held: Ids) -> None:
        self._read(event, buffer, wanted[None], held[None])

    def _read(self, event: Event, buffer: Buffer, wanted: Ids, held: Ids) -> None:
        index = np.arange(buffer.size).reshape(buffer.shape)
        reading = Reading([event], index, wanted, held, wanted)
        self.readings.setdefault(buffer, []).append(reading)

    def _whole(self, fault: Fault, event: Event, demand: Ids, wanted: int, held: int) -> None:
        """Suspect an operator of all its sums."""
        first = int((demand != NOTHING).reshape(-1).argmax())
        row, column = divmod(first, demand.shape[1])
        count = int((demand != NOTHING).sum())
        terms = (0, int(demand[row, column]), PADDING)
        self.suspect(fault, event, (row, column), wanted, held, count, terms=terms)

    def _block(self, ids: Ids) -> Block | None:
        """The block whose sums most of some results are."""
        best, most = None, 0
        for block in self.numbering.blocks:
            count = int((self._found(block, ids) >= 0).sum())
            if count > most:
                best, most = block, count
        return best

    def _found(self, block: Block, ids: Ids) -> Index:
        """Which sum of a block, counted by position and column, becomes each id; -1 if none does."""
        number = self.numbering.blocks.index(block)
        if number not in self._results:
            all_ids = block.result(np.arange(block.positions), np.arange(block.columns)).reshape(-1)
            order = np.argsort(all_ids, kind="stable")
            self._results[number] = all_ids[order], order
        ordered, order = self._results[number]
        at = np.minimum(np.searchsorted(ordered, ids), ordered.size - 1)
        return np.where(ordered[at] == ids, order[at], -1)

    def _rows_and_columns(self, block: Block, demand: Ids) -> tuple[Index, Index]:
        """The position of each row and the column of each column of sums that are demanded; -1: of none."""
        number = self._found(block, demand)
        position, column = np.divmod(number, block.columns)
        own = (number >= 0) & (demand != NOTHING)
        return middle(position, own, 1), middle(column, own, 0)

    def _products(self, event: Leave, block: Block, rows: Index, columns: Index, demand: Ids) -> None:
        products = event.products
        left = np.concatenate([product.left for product in products], axis=1)
        right = np.concatenate([product.right for product in products])
        of = np.concatenate(
            [np.full(product.left.shape[1], number) for number, product in enumerate(products)]
        )
        depth, _, own = split(block, self.numbering.codes(right))
        by_right, by_left = middle(depth, own, 1), self._left_depths(block, rows, left)
        depths = _paired(by_left, by_right, block.depth)
        self._complete(event, block, rows, columns, depths, of, demand)
        known = depths >= 0
        asked = np.maximum(depths, 0)
        must_left = np.where((rows >= 0)[:, None] & known, block.left(np.maximum(rows, 0), asked), NOTHING)
        must_left = must_left.astype(left.dtype)
        must_right = np.where(
            (columns >= 0) & known[:, None], block.right(asked, np.maximum(columns, 0)), NOTHING
        ).astype(left.dtype)
        silent = (right == PADDING).all(axis=1)  # what is multiplied by 0 does not matter
        must_left[:, silent] = NOTHING
        for number, product in enumerate(products):
            mine = of == number
            self._read(product, product.a, must_left[:, mine], product.left)
            self._read(product, product.b, must_right[mine], product.right)

    def _left_depths(self, block: Block, rows: Index, left: Ids) -> Index:
        """The depth that most rows' elements in each column of left operands have; -1: none, -2: all padding."""
        some = np.flatnonzero((rows >= 0) & (left > PADDING).any(axis=1))
        some = some[np.unique(np.linspace(0, some.size - 1, _ROWS).astype(int))] if some.size else some
        if not some.size:
            return np.full(left.shape[1], -2)
        all_depths = np.arange(block.depth)
        votes = np.full((some.size, left.shape[1]), -1)
        for vote, row in zip(votes, some, strict=True):
            elements = block.left(rows[[row]], all_depths)[0]
            vote[:] = np.where(left[row] > PADDING, _positions(elements, left[row]), -2)
        result = middle(votes, votes >= 0, 0)
        agree = ((votes == result) & (votes >= 0)).sum(axis=0)
        data = (votes != -2).sum(axis=0)
        return np.where(data == 0, -2, np.where(agree * 2 >= data, result, -1))

    def _complete(
        self, event: Leave, block: Block, rows: Index, columns: Index, depths: Index, of: Index, demand: Ids
    ) -> None:
        """Blame products that add terms twice, and what leaves terms out."""
        products = event.products
        known = depths[depths >= 0]
        counts = np.bincount(known, minlength=block.depth)
        total = int((demand != NOTHING).sum())
        first = int((demand != NOTHING).reshape(-1).argmax())
        row, column = divmod(first, demand.shape[1])
        must = int(demand[row, column])
        if (counts > 1).any():
            seen: set[int] = set()
            for number, depth in zip(of.tolist(), depths.tolist(), strict=True):
                if depth in seen:
                    self.suspect(
                        Fault.TWICE,
                        products[number],
                        (row, column),
                        must,
                        NOTHING,
                        total,
                        terms=self._term(block, rows, columns, depth, 1),
                    )
                    break
                seen.add(depth) if depth >= 0 else None
        if (counts == 0).any() and (depths >= 0).all():
            missing = np.flatnonzero(counts == 0)
            needed = block.left(np.maximum(rows[rows >= 0], 0), missing)
            missing = missing[(needed != PADDING).any(axis=0)]
            if missing.size:
                also = self._discarded(event, block, rows, missing)
                fault = Fault.DISCARDED if also else Fault.MISSING_TERMS
                beside = [of[depths == depth] for depth in (missing[0] - 1, missing[-1] + 1)]
                near = [products[int(numbers[0])] for numbers in beside if numbers.size]
                blamed = products[0] if also else next(iter(near), products[-1])
                also = also or next(iter(near[1:]), None)
                terms = self._term(block, rows, columns, int(missing[0]), int(missing.size))
                self.suspect(
                    fault, blamed, (row, column), must, NOTHING, total, also=also, terms=terms, leave=event
                )

    def _term(
        self, block: Block, rows: Index, columns: Index, depth: int, count: int
    ) -> tuple[int, int, int]:
        """A number of terms, and the left and right element of one of them that is not padding."""
        left = block.left(rows[rows >= 0], np.array([depth]))[:, 0]
        right = block.right(np.array([depth]), columns[columns >= 0][:1])
        return count, int(left[(left != PADDING).argmax()]), int(right[0, 0])

    def _discarded(self, event: Leave, block: Block, rows: Index, missing: Index) -> Event | None:
        """A product, of sums that were given up before, that has the first missing term of a row."""
        row = int(np.flatnonzero(rows >= 0)[0])
        elements = block.left(rows[[row]], missing)[0]
        used = {product for leave in self.events if isinstance(leave, Leave) for product in leave.products}
        for product in reversed(self.events[: event.number]):
            if isinstance(product, Multiply) and product not in used and product.left.shape[0] > row:
                if np.isin(elements[elements > PADDING], product.left[row]).any():
                    return product
        return None

    # -- what nothing wrote

    def unwritten(self) -> None:
        """Blame what should have written the places that are demanded and have no writer."""
        for buffer in [*self.readings]:
            if not buffer.given:
                self.settle(buffer)
        for buffer, demand in self.demand.items():
            missing = demand != NOTHING
            if buffer.given or not missing.any():
                continue
            writers = self.writers.get(buffer, [])
            placed = {
                int(value)
                for store in writers
                if store in self.misplaced and isinstance(store, Leave)
                for value in np.unique(store.ids)
            }
            if placed:
                missing &= ~np.isin(demand, list(placed))
                if not missing.any():
                    continue
            row, column = divmod(int(missing.reshape(-1).argmax()), buffer.shape[1])
            beside = sorted(writers, key=lambda event: (event.at, event.number))
            before = [event for event in beside if event.at <= (row, column)]
            after = [event for event in beside if event.at > (row, column)]
            near = [*before[-1:], *after[:1]]
            if near:
                wanted, count = int(demand[row, column]), int(missing.sum())
                also = near[1] if len(near) > 1 else None
                place = row, column
                self.suspect(
                    Fault.UNWRITTEN, near[0], place, wanted, NEVER, count, also=also, writers=writers
                )

    def suspect(
        self,
        fault: Fault,
        event: Event,
        place: tuple[int, int],
        wanted: int,
        held: int,
        count: int,
        demand: Ids | None = None,
        also: Event | None = None,
        right: tuple[int, int] | None = None,
        terms: tuple[int, int, int] = (0, PADDING, PADDING),
        leave: Leave | None = None,
        writers: Sequence[Event] = (),
    ) -> None:
        """Note that an operator is at fault."""
        self.found.append(
            Suspicion(
                fault, event, place, int(wanted), int(held), count, demand, also, right, terms, leave, writers
            )
        )


def _positions(ids: Ids, wanted: Ids) -> Index:
    """Where each wanted id stands in some ids, counted row by row; -1 where it does not."""
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    at = np.minimum(np.searchsorted(flat, wanted, sorter=order), flat.size - 1)
    found = order[at]
    return np.where(flat[found] == wanted, found, -1)


def _distance(held: Ids, reading: Reading) -> tuple[int, int] | None:
    """How many rows and columns further all that a reading demands lies in its source; None if it does not."""
    use = reading.wanted != NOTHING
    at = _positions(held, reading.wanted[use])
    (row, column), columns = np.divmod(at, held.shape[1]), held.shape[1]
    rows, cols = np.divmod(reading.index[use], columns)
    if not at.size or (at < 0).any():
        return None
    return (
        (int(row[0] - rows[0]), int(column[0] - cols[0]))
        if _same(row - rows) and _same(column - cols)
        else _FAR
    )


_FAR = (NOTHING, NOTHING)
"""A distance that is not the same for all elements."""


def _same(values: Index) -> bool:
    return bool((values == values[0]).all())


def _steady(readings: Sequence[Reading], distances: Mapping[int, tuple[int, int] | None]) -> bool:
    """Whether one operand, as the loops that it depends on let it be, could bring all distances about."""
    operands = _MOVING.get(readings[0].event.step.call.operator, ())
    for operand in operands:
        seen: dict[tuple[int, ...], tuple[int, int] | None] = {}
        for reading, event in ((reading, event) for reading in readings for event in reading.events):
            names = variables(event.step.call.operands[operand])
            key = (event.call, *(event.step.rounds[name] for name in sorted(names)))
            distance = distances.get(id(reading), (0, 0))
            if distance == _FAR or seen.setdefault(key, distance) != distance:
                break
        else:
            return True
    return False


_MOVING = {"tile.img2col": ("pos_m", "pos_k"), "tile.extract": ("row", "col"), "load": ("offsets",)}
"""The operands that say where an operator reads."""


def _offset(event: Copy, demand: Ids) -> tuple[int, int] | None:
    """The offset in its source at which a copy would bring all that is demanded of it; None if none would."""
    if event.step.call.operator == "tile.img2col":
        return None
    use = np.argwhere((demand != NOTHING) & (demand != PADDING))
    if not use.size:
        from_row, from_column = event.numbers["from"]
        return from_row, from_column
    at = _positions(event.held, demand[use[:, 0], use[:, 1]])
    offsets = np.stack(np.divmod(at, event.source.shape[1]), axis=1) - use
    if (at < 0).any() or (offsets != offsets[0]).any():
        return None
    return int(offsets[0, 0]), int(offsets[0, 1])


def _paired(by_left: Index, by_right: Index, depth: int) -> Index:
    """The depth of each pair of operands, where left and right may say different ones.

    The side is right that has every depth exactly once; if both have, the one that has them in order.
    """
    if ((by_left == by_right) | (by_left == -2)).all() and (by_right >= 0).any():
        return by_right
    left, right = (_once(side, depth) for side in (by_left, by_right))
    if left and right:
        ordered = [bool((np.diff(side[side >= 0]) > 0).all()) for side in (by_left, by_right)]
        return by_left if ordered[0] and not ordered[1] else by_right
    if left:
        return by_left
    if right:
        return by_right
    if (by_right < 0).all() and by_right.size == depth:
        return np.arange(depth)
    known = np.where(by_right >= 0, by_right, by_left)
    if (known < 0).any() and known.size == depth:  # in the order in which they are defined
        return np.where(known >= 0, known, np.arange(depth))
    return known


def _once(depths: Index, depth: int) -> bool:
    """Whether no depth is twice and none is missing; columns of padding alone (-2) may be any."""
    known = depths[depths != -2]
    if (known < 0).any():
        return False
    return np.unique(known).size == known.size and depths.size == depth
