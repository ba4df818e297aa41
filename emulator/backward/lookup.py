"""Finds ids: where they stand among others, and which sums become them."""

from __future__ import annotations

import numpy as np

from emulator.backward.suspicion import NOTHING
from emulator.sums import middle
from emulator.terms import Block, Ids, Index, Numbering

FAR = (NOTHING, NOTHING)
"""A displacement that is not the same for all elements."""


def positions(ids: Ids, wanted: Ids) -> Index:
    """Where each wanted id [n] stands in some ids, counted row by row; -1 where it does not."""
    return _found(_in_order(ids), wanted)


def displacement(held: Ids, places: Index, wanted: Ids) -> tuple[int, int] | None:
    """Rows and columns by which wanted ids lie further than the places where they are read.

    Args:
        held: what is read from, ids [rows, columns].
        places: the places in it [n], counted row by row.
        wanted: the ids [n], at least one.

    Returns:
        None if it does not hold them all, `FAR` if they are not all as far.
    """
    at, columns = positions(held, wanted), held.shape[1]
    if (at < 0).any():
        return None
    down, across = np.subtract(np.divmod(at, columns), np.divmod(places, columns))
    same = (down == down[0]).all() and (across == across[0]).all()
    return (int(down[0]), int(across[0])) if same else FAR


def _in_order(ids: Ids) -> tuple[Ids, Index]:
    """Ids as they are sorted, and where each of them stands, counted row by row."""
    order = np.argsort(ids, axis=None, kind="stable")
    return ids.reshape(-1)[order], order


def _found(ids: tuple[Ids, Index], wanted: Ids) -> Index:
    """Where wanted ids stand among those that were put in order; -1 where they do not."""
    ordered, order = ids
    at = np.minimum(np.searchsorted(ordered, wanted), ordered.size - 1)
    return np.where(ordered[at] == wanted, order[at], -1)


def first(mask: Ids) -> tuple[int, int]:
    """The row and column of the first element that a mask [m, n] marks."""
    row, column = divmod(int(mask.reshape(-1).argmax()), mask.shape[1])
    return row, column


class Results:
    """Which sums become which elements. What is looked up in a block is sorted once."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._sorted: dict[int, tuple[Ids, Index]] = {}

    def block(self, ids: Ids) -> Block | None:
        """The block whose sums most of some results are; None if none of them is any block's."""
        best, most = None, 0
        for block in self._numbering.blocks:
            count = int((self._found(block, ids) >= 0).sum())
            if count > most:
                best, most = block, count
        return best

    def rows_and_columns(self, block: Block, demand: Ids) -> tuple[Index, Index]:
        """The position [m] and the column [n] of sums [m, n] that are demanded; -1 where none is."""
        number = self._found(block, demand)
        position, column = np.divmod(number, block.columns)
        own = (number >= 0) & (demand != NOTHING)
        return middle(position, own, 1), middle(column, own, 0)

    def _found(self, block: Block, ids: Ids) -> Index:
        """Which sum of a block, counted by position and column, becomes each id; -1 if none does."""
        number = self._numbering.blocks.index(block)
        if number not in self._sorted:
            everything = block.result(np.arange(block.positions), np.arange(block.columns))
            self._sorted[number] = _in_order(everything)
        return _found(self._sorted[number], ids)
