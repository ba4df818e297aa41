"""Which sums flawed ones are meant to be: those whose left elements they have, in any order of C0 groups."""

from __future__ import annotations

import numpy as np

from emulator.elements import PADDING
from emulator.soc import FRACTAL_DEPTH
from emulator.sums import Accumulator, middle, split
from emulator.terms import Block, Ids, Index, Numbering

_MOST = 0.75
"""Least share of a row's elements that the sum it is meant to be must have."""


def meant(numbering: Numbering, accumulator: Accumulator) -> tuple[Block, Index, Index] | None:
    """The block, the positions [m] and the columns [n] of all sums of an accumulator; None if that is open.

    Rows are taken to follow each other as positions do.
    """
    left = accumulator.left
    data = left > PADDING
    row = int(data.sum(axis=1).argmax())
    if not data[row].any():
        return None
    codes = numbering.codes(accumulator.right)
    for block in numbering.blocks:
        if block.sums.left[0] != numbering.tensor(int(left[row, data[row].argmax()])):
            continue
        depth, column, own = split(block, codes)
        depths, columns = middle(depth, own, 1), middle(column, own, 0)
        position = _position(block, left[row], data[row], depths)
        if (columns < 0).all():  # foreign right elements do not say which depths the left ones should have
            columns = np.arange(columns.size)
            if position < 0 or not _in_order(block, left[row], position):
                continue
        positions = position + np.arange(left.shape[0]) - row
        ends = [int(each) for each in np.flatnonzero(data.any(axis=1))[[0, -1]]]
        inside = positions[0] >= 0 and positions[-1] < block.positions and columns.max() < block.columns
        if (
            position >= 0
            and inside
            and all(_share(block, left[end], positions[end]) >= _MOST for end in ends)
        ):
            return block, positions, columns
    return None


def _position(block: Block, row: Ids, data: Ids, depths: Index) -> int:
    """The position that has most of the elements of a row; -1 if none has enough."""
    at = int(data.argmax())
    first = depths[at] if depths[at] >= 0 else at
    alike = np.arange(
        first % FRACTAL_DEPTH, block.depth, FRACTAL_DEPTH
    )  # other taps and planes, same channel
    found = [int(block.with_element(int(depth), row[[at]])[0]) for depth in alike]
    shares = {position: _share(block, row, position) for position in found if position >= 0}
    best = max(shares, key=lambda position: shares[position], default=-1)
    return best if best >= 0 and shares[best] >= _MOST else -1


def _share(block: Block, row: Ids, position: int) -> float:
    """The share of a row's elements that a sum has at any depth."""
    elements = block.left(np.array([position]), np.arange(block.depth))[0]
    return float(np.isin(row[row > PADDING], elements).mean())


def _in_order(block: Block, row: Ids, position: int) -> bool:
    """Whether the elements of a row are those of a sum in the order of its depths."""
    if row.size != block.depth:
        return False
    elements = block.left(np.array([position]), np.arange(block.depth))[0]
    return float((row == elements).mean()) >= _MOST
