"""Finds ids: where they stand among others, and which sums become them."""

from __future__ import annotations

import numpy as np

from emulator.backward.suspicion import NOTHING
from emulator.sums import middle
from emulator.terms import Block, Ids, Index, Numbering


def positions(ids: Ids, wanted: Ids) -> Index:
    """Where each wanted id [n] stands in some ids, counted row by row; -1 where it does not."""
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    at = np.minimum(np.searchsorted(flat, wanted, sorter=order), flat.size - 1)
    found = order[at]
    return np.where(flat[found] == wanted, found, -1)


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
            everything = block.result(np.arange(block.positions), np.arange(block.columns)).reshape(-1)
            order = np.argsort(everything, kind="stable")
            self._sorted[number] = everything[order], order
        ordered, order = self._sorted[number]
        at = np.minimum(np.searchsorted(ordered, ids), ordered.size - 1)
        return np.where(ordered[at] == ids, order[at], -1)
