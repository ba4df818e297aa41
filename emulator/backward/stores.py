"""Finds stores whose sums are all made and belong elsewhere in the buffer that they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from emulator.backward.lookup import Results, first
from emulator.backward.suspicion import NOTHING, Fault, Suspicion
from emulator.elements import PADDING
from emulator.sums import Mask
from emulator.terms import NEVER, Ids
from emulator.trace import Buffer, Copy, Event, Leave

_WHOLE = 0.75
"""Least share of a tile's sums that must be known for it to be called misplaced: stores move whole tiles."""


def misplaced(writers: Sequence[Event], demand: Ids, held: Ids) -> Mapping[Leave, Mask]:
    """The stores whose sums belong elsewhere in a buffer, and which of them do.

    Args:
        writers: what writes to the buffer.
        demand: what it must hold, ids in its shape.
        held: what it holds.

    Returns:
        Masks in the shapes of the stores.
    """
    stores = [event for event in writers if isinstance(event, Leave)]
    wrong = (demand != NOTHING) & (held != demand)
    if not stores or not wrong.any():
        return {}
    needed = np.unique(demand[wrong])
    lost: dict[Leave, Mask] = {}
    for store in stores:
        there = demand[store.cells]
        known = store.ids > PADDING
        other = known & (store.ids != there) & np.isin(store.ids, needed)
        moved = other.any() and not (store.ids == there).any() and known.mean() >= _WHOLE
        if moved and _at_one_offset(store, other, demand):
            lost[store] = other
    return {store: lost[store] for store in _only_misplaced(stores, lost, demand)}


def _only_misplaced(stores: Sequence[Leave], lost: Mapping[Leave, Mask], demand: Ids) -> list[Leave]:
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


def _at_one_offset(store: Leave, other: Mask, demand: Ids) -> bool:
    """Whether the first and the last of sums that belong elsewhere are equally far from where they belong.

    Sums that changed places within their tile are none: no other place of the store would mend them.
    """
    ends = np.argwhere(other)[[0, -1]]
    belong = np.array([first(demand == store.ids[row, column]) for row, column in ends])
    return bool((belong[0] - ends[0] == belong[1] - ends[1]).all())


def wrong_place(store: Leave, other: Mask, demand: Ids, windows: Event | None) -> Suspicion:
    """Suspect a store of its place.

    Args:
        store: the store.
        other: which of its sums [m, n] belong elsewhere.
        demand: what the buffer must hold, ids in its shape.
        windows: what could be at fault in its stead.
    """
    row, column = first(other)
    here = int(store.ids[row, column])
    belongs = first(demand == here)
    return Suspicion(
        Fault.PLACE,
        store,
        (store.at[0] + row, store.at[1] + column),
        here,
        int(demand[store.cells][row, column]),
        int(other.sum()),
        np.where(other, store.ids, NOTHING),
        windows,
        (belongs[0] - row, belongs[1] - column),
    )


def left_out(writers: Sequence[Event], demand: Ids, place: tuple[int, int], count: int) -> Suspicion | None:
    """Suspect the operator that leaves rows of a tile out, if a place without a writer is among them.

    Args:
        writers: what writes to the buffer.
        demand: what is demanded of it and has no writer, ids in its shape.
        place: the first row and column of these.
        count: how many there are.
    """
    for store in writers:
        if not isinstance(store, Leave) or store.cut is None:
            continue
        (row, column), columns = store.at, store.shape[1]
        tile = slice(row, row + store.cut.target.shape[0])
        if tile.start <= place[0] < tile.stop and column <= place[1] < column + columns:
            needed = (demand[tile, column : column + columns] != NOTHING).any(axis=1)
            rows = int(np.flatnonzero(needed)[-1]) + 1
            wanted = int(demand[place])
            return Suspicion(
                Fault.CUT, store.cut, place, wanted, NEVER, count, right=(rows, columns), leave=store
            )
    return None


def windows_of(
    store: Leave, demand: Ids, results: Results, writers: Mapping[Buffer, Sequence[Event]]
) -> Copy | None:
    """What made the left operands of a misplaced tile, if it could read those that belong there."""
    there = demand[store.cells]
    block = results.block(there[there != NOTHING])
    made_by = writers.get(store.products[0].a, ())
    windows = made_by[0] if made_by else None
    if block is None or not isinstance(windows, Copy):
        return None
    rows, _ = results.rows_and_columns(block, there)
    elements = block.left(rows[rows >= 0], np.arange(block.depth))
    return windows if np.isin(elements[elements > PADDING], windows.held).all() else None
