"""Which sums an accumulator holds: its operands, ids, are compared with the terms that a definition says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from emulator.elements import PADDING
from emulator.terms import ZERO, Block, Ids, Index, Numbering

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Found:
    """Sums of one block in an accumulator, and which of the block's they are.

    `at` are their columns in the accumulator; `good` [m, n] says which of them have exactly the terms and the
    bias that are defined.
    """

    block: Block
    at: Index
    positions: Index
    columns: Index
    good: Mask


@dataclass(frozen=True)
class Product:
    """The operands of a product, ids [m, k] and [k, n]."""

    left: Ids
    right: Ids


@dataclass
class Accumulator:
    """What was added up at one address of L0C. `valid`, `found` and `ids` are set once the sums are read.

    `valid` is how many rows of the sums are read; None stands for all.
    """

    bias: Ids | None
    products: list[Product] = field(default_factory=list)
    valid: int | None = None
    found: Sequence[Found] = ()
    ids: Ids | None = None

    @property
    def left(self) -> Ids:
        """The left operands of all products for the sums that are read, one after the other, ids [m, k]."""
        return np.concatenate([product.left[: self.valid] for product in self.products], axis=1)

    @property
    def right(self) -> Ids:
        """The right operands, ids [k, n]."""
        return np.concatenate([product.right for product in self.products])


@dataclass(frozen=True)
class Right:
    """The right operands of products, ids [k, n], and their codes.

    If they are terms of one block, each depth once, `block` is this one, with its depths [k] and columns [n].
    """

    ids: Ids
    codes: Ids
    block: Block | None
    depths: Index
    columns: Index


def right_of(numbering: Numbering, ids: Ids) -> Right:
    """Look right operands up."""
    codes = numbering.codes(ids)
    if (first := int(codes[0, 0])) >= 0:
        block = numbering.block_of(first)
        depths, columns = (codes[:, 0] - block.code) // block.columns, (codes[0] - block.code) % block.columns
        once = np.array_equal(np.sort(depths), np.arange(block.depth))
        if once and np.array_equal(codes, depths[:, None] * block.columns + (columns + block.code)):
            return Right(ids, codes, block, depths, columns)
    return Right(ids, codes, None, codes[:, 0], codes[0])


def sums_of(numbering: Numbering, left: Ids, right: Right, bias: Ids | None) -> list[Found]:
    """The sums of products.

    Args:
        numbering: the ids.
        left: the left operands of all products, one after the other, ids [m, k].
        right: their right operands.
        bias: the bias row that they began with, ids [n], if any.
    """
    if right.block is not None:
        return [_whole(right.block, left, right, bias)]
    found = blocks_of(numbering, right.codes)
    return [_by_terms(block, at, left, right.codes[:, at], bias) for block, at in found]


def blocks_of(numbering: Numbering, codes: Ids) -> list[tuple[Block, Index]]:
    """The blocks that columns of right operands belong to, by the first element that is in one."""
    first = codes[(codes >= 0).argmax(axis=0), np.arange(codes.shape[1])]
    found = []
    for block in numbering.blocks:
        own = (first >= block.code) & (first < block.code + block.depth * block.columns)
        if own.any():
            found.append((block, np.flatnonzero(own)))
    return found


def _whole(block: Block, left: Ids, right: Right, bias: Ids | None) -> Found:
    """The sums, if the right operands are each depth once: left operands must be all those of a position."""
    positions, same = _matched(block, left, right.depths)
    known = (positions >= 0) & same.all(axis=1)
    good = known[:, None] & _biased(block, bias, right.columns)
    return Found(block, np.arange(right.columns.size), positions, right.columns, good)


def _by_terms(block: Block, at: Index, left: Ids, codes: Ids, bias: Ids | None) -> Found:
    """The sums, whatever the operands are: terms may be double, missing, or 0 by padding.

    Args:
        block: the block that the columns `at` of the accumulator belong to.
        at: these columns.
        left: the left operands.
        codes: of the right operands of these columns.
        bias: the bias row of the accumulator.
    """
    met = (codes != ZERO).any(axis=1)  # what is multiplied by 0 is no term
    left, codes = left[:, met], codes[met]
    depth, column, own = split(block, codes)
    depths, columns = middle(depth, own, 1), middle(column, own, 0)
    known = depths >= 0
    positions, same = _matched(block, left[:, known], depths[known])
    left_any, right_any = left != PADDING, codes != ZERO
    left_good = np.zeros(left.shape, bool)
    left_good[:, known] = same & left_any[:, known] & (positions >= 0)[:, None]
    right_good = own & (depth == depths[:, None]) & (column == columns)
    terms = _terms(left_good, right_good)
    wrong = _terms(left_any, right_any) != terms
    wrong |= _doubled(depths, left_good, right_good)
    needed = np.count_nonzero(block.left(np.maximum(positions, 0), np.arange(block.depth)), axis=1)
    good = ~wrong & (terms == needed[:, None]) & (positions >= 0)[:, None]
    good &= _biased(block, None if bias is None else bias[at], columns)
    return Found(block, at, positions, columns, good)


def split(block: Block, codes: Ids) -> tuple[Ids, Ids, Mask]:
    """Depths and columns that codes stand for in a block, and which of them are its own."""
    depths, columns = np.divmod(codes - block.code, block.columns)
    own: Mask = (codes >= 0) & (depths >= 0) & (depths < block.depth)
    return depths, columns, own


def middle(values: Ids, valid: Mask, axis: int) -> Index:
    """The median of the valid values along an axis, which most of them have if most agree; -1 if none is."""
    count = valid.sum(axis=axis, keepdims=True)
    ordered = np.sort(np.where(valid, values, np.iinfo(values.dtype).max), axis=axis)
    middle = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=axis)
    return np.where(count > 0, middle, -1).reshape(-1)


def _terms(left: Mask, right: Mask) -> npt.NDArray[np.float32]:
    """How many terms [m, n] have a left and a right operand that are marked [m, k] and [k, n]; exact."""
    return left.astype(np.float32) @ right.astype(np.float32)


def _doubled(depths: Index, left: Mask, right: Mask) -> Mask:
    """Which sums [m, n] have the term of some depth twice, if its operands are marked [m, k] and [k, n]."""
    order = np.argsort(depths, kind="stable")
    starts = np.flatnonzero(np.diff(depths[order], prepend=-2))
    double = np.zeros((left.shape[0], right.shape[1]), bool)
    if starts.size < depths.size:
        patterns, number = np.unique(right, axis=1, return_inverse=True)
        for which, pattern in enumerate(patterns.T):
            counts = np.add.reduceat((left & pattern)[:, order], starts, axis=1, dtype=np.intp)
            twice: Mask = np.any(counts > 1, axis=1, keepdims=True)
            double[:, number.reshape(-1) == which] = twice
    return double


def _biased(block: Block, bias: Ids | None, columns: Index) -> Mask:
    """Whether sums of these columns [n] begin with the bias row [n] that is defined for them."""
    if block.bias is None or bias is None:
        return np.full(columns.size, block.bias is None and bias is None)
    same: Mask = block.bias[columns] == bias
    return same


def _matched(block: Block, left: Ids, depths: Index) -> tuple[Index, Mask]:
    """The position of each row of left operands [m, k] at these depths [k]: -1 where no position begins so.

    Also which operands [m, k] are those of the position.
    """
    some = left > PADDING
    first = some.argmax(axis=1)
    positions, same = _attempt(block, left, depths, first, 0)
    number = 1
    while (again := np.flatnonzero((positions >= 0) & ~same.all(axis=1))).size:
        others, also = _attempt(block, left[again], depths, first[again], number)
        better = (others >= 0) & (also.sum(axis=1) > same[again].sum(axis=1))
        positions[again[better]], same[again[better]] = others[better], also[better]
        if (others < 0).all():
            break
        number += 1
    return positions, same


def _attempt(block: Block, left: Ids, depths: Index, first: Index, number: int) -> tuple[Index, Mask]:
    """Positions whose element at the depth of the `first` operand [m] of each row is that operand."""
    positions = np.full(left.shape[0], -1)
    for place in np.unique(first):
        rows = np.flatnonzero(first == place)
        positions[rows] = block.with_element(int(depths[place]), left[rows, place], number)
    positions[left[np.arange(first.size), first] <= PADDING] = -1
    return positions, left == block.left(np.maximum(positions, 0), depths)
