"""Which depth of a sum each pair of operands, a column of left ones and a row of right ones, must be."""

from __future__ import annotations

import numpy as np

from emulator.backward.lookup import positions
from emulator.elements import PADDING
from emulator.sums import Mask, middle, split
from emulator.terms import Block, Ids, Index, Numbering

_ROWS = 12
"""Rows of an accumulator that are asked which depths their left elements have."""

_PADDED = -2
"""What stands for a depth where all left elements are padding, which any depth may have."""


def depths_of(numbering: Numbering, block: Block, rows: Index, left: Ids, right: Ids) -> Index:
    """The depth [k] of each pair of operands, where left and right may say different ones; -1 if it is open.

    Args:
        numbering: the ids.
        block: the block of the sums.
        rows: the position of each row [m]; -1 where none is demanded.
        left: the left operands of all products, ids [m, k].
        right: the right operands, ids [k, n]. Where all are 0 there need not be a depth.
    """
    depth, _, own = split(block, numbering.codes(right))
    zeros: Mask = (right == PADDING).all(axis=1)
    return _paired(_by_left(block, rows, left), middle(depth, own, 1), zeros, block.depth)


def _by_left(block: Block, rows: Index, left: Ids) -> Index:
    """The depth that most rows' elements in each column of left operands have; -1 if it is open."""
    some = np.flatnonzero((rows >= 0) & (left > PADDING).any(axis=1))
    if not some.size:
        return np.full(left.shape[1], _PADDED)
    some = some[np.unique(np.linspace(0, some.size - 1, _ROWS).astype(int))]
    every = np.arange(block.depth)
    votes = np.full((some.size, left.shape[1]), -1)
    for vote, row in zip(votes, some, strict=True):
        elements = block.left(rows[[row]], every)[0]
        vote[:] = np.where(left[row] > PADDING, positions(elements, left[row]), _PADDED)
    result = middle(votes, votes >= 0, 0)
    agree = ((votes == result) & (votes >= 0)).sum(axis=0)
    data = (votes != _PADDED).sum(axis=0)
    return np.where(data == 0, _PADDED, np.where(agree * 2 >= data, result, -1))


def _paired(by_left: Index, by_right: Index, zeros: Mask, depth: int) -> Index:
    """The side is right that has every depth exactly once; if both have, the one that has them in order."""
    alike = (by_left == by_right) | (by_left == _PADDED) | (zeros & (by_left < 0))
    if alike.all() and (by_right >= 0).any():
        return by_right
    left, right = (_once(side[~zeros | (side >= 0)], depth) for side in (by_left, by_right))
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
    known[zeros & np.isin(by_left, by_right)] = -1
    if (known < 0).any() and known.size == depth:  # in the order in which they are defined
        return np.where(known >= 0, known, np.arange(depth))
    return known


def _once(depths: Index, depth: int) -> bool:
    """Whether no depth is twice and none is missing; columns of padding alone may be any."""
    known = depths[depths != _PADDED]
    if (known < 0).any():
        return False
    return np.unique(known).size == known.size and depths.size == depth
