"""A walk on coordinates: an element is the id of what stands there, and a product is checked, not computed.

An accumulator holds the operands of its products. When its sums are read they are compared, term by term,
with what the definition says of them. A sum that differs becomes a flawed value with an id of its own, which
matters only where it reaches an output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.elements import PADDING
from emulator.errors import callers
from emulator.memory import Resident
from emulator.program import Call, Spoil
from emulator.terms import FLAWED, NEVER, ZERO, Block, Ids, Index, Numbering
from emulator.tile import Array, Tensor, Tile, in_shape

Mask = npt.NDArray[np.bool_]

_VOTES = 16
"""Terms that are asked which sum a flawed one was meant to be."""


@dataclass(frozen=True)
class Step:
    """An operator as it ran: the call, and the rounds of the loops around it."""

    call: Call
    rounds: Mapping[str, int]

    def __str__(self) -> str:
        place = self.call.position
        lines = " < ".join(map(str, (place, *callers(place))))
        rounds = "".join(f", {name} {index}" for name, index in self.rounds.items())
        return f"pl.{self.call.operator} at {lines}{rounds}"


@dataclass(frozen=True)
class Product:
    """The operands of a product, ids [m, k] and [k, n], and where they were multiplied."""

    step: Step
    left: Ids
    right: Ids


@dataclass(frozen=True)
class Found:
    """Sums of one block in an accumulator: their columns `at` it, which sums of the block they are.

    `good` [m, n] says which of them have exactly the terms and the bias that are defined.
    """

    block: Block
    at: Index
    positions: Index
    columns: Index
    good: Mask


@dataclass
class Accumulator:
    """What was added up at one address of L0C. `found` and `ids` are set once the sums are read."""

    bias: Ids | None
    products: list[Product] = field(default_factory=list)
    found: Sequence[Found] = ()
    ids: Ids | None = None

    @property
    def left(self) -> Ids:
        """The left operands of all products, one after the other, ids [m, k]."""
        return np.concatenate([product.left for product in self.products], axis=1)

    @property
    def right(self) -> Ids:
        """The right operands, ids [k, n]."""
        return np.concatenate([product.right for product in self.products])


@dataclass(frozen=True)
class Flaw:
    """Why a value is wrong, in words; `source` is the id of the wrong value that was read, if that is why."""

    words: str
    source: int = PADDING


class Coordinates:
    """Elements are ids of `emulator.terms`.

    Args:
        numbering: the ids.
        watched: the id of a flawed value of an earlier walk of the same program; `flaw` then says why it is.
    """

    def __init__(self, numbering: Numbering, watched: int = PADDING) -> None:
        self._numbering = numbering
        self._watched = watched
        self._accumulators: dict[int, Accumulator] = {}
        self._flaws = FLAWED
        self._last = np.zeros((0, 0), numbering.dtype), np.zeros((0, 0), numbering.dtype)
        self._call: Call
        self._loops: Mapping[str, int]
        self.flaw: Flaw | None = None

    def memory(self, size: int) -> Array:
        """One id for each byte; that of an element is at its first byte."""
        return np.full(size, NEVER, self._numbering.dtype)

    def view(self, resident: Resident, memory: Array) -> Array:
        """The ids of a tile's elements."""
        size = resident.type.dtype.size
        return in_shape(resident, memory[resident.address : resident.end : size])

    def reach(self, call: Call, loops: Mapping[str, int]) -> None:
        """Keep it for what is found wrong in this step."""
        self._call, self._loops = call, loops

    def multiply(self, acc: Tile, a: Tile, b: Tile, bias: Tile | None) -> None:
        """Keep the operands and the bias row."""
        added = None if bias is None or bias.data is None else bias.data[0].copy()
        self._accumulators[acc.resident.address] = Accumulator(added)
        self.accumulate(acc, a, b)

    def accumulate(self, acc: Tile, a: Tile, b: Tile) -> None:
        """Keep the operands."""
        assert a.data is not None
        assert b.data is not None
        accumulator = self._accumulators[acc.resident.address]
        accumulator.products.append(Product(self._step, a.data.copy(), b.data.copy()))
        accumulator.ids = None

    def settle(self, acc: Tile) -> None:
        """Write which sums they are to the accumulator's data."""
        assert acc.data is not None
        acc.data[:] = self._settled(acc)[1]

    def requantise(self, acc: Tile, scale: Tile) -> Array:
        """The ids of the elements that the sums become with the entries of a table."""
        assert scale.data is not None
        entries = scale.data[0]
        accumulator, ids = self._settled(acc)
        result = np.minimum(ids, PADDING)  # what is flawed stays so
        for found in accumulator.found:
            if found.block.table is not None:
                right = found.block.table[found.columns] == entries[found.at]
                becomes = found.block.result(found.positions, found.columns)
                result[:, found.at] = np.where(found.good & right, becomes, result[:, found.at])
        if (watched := self._mark(result, result != PADDING)) is not None:
            self.flaw = self._table_flaw(ids[watched], entries[watched[1]], accumulator, watched[1])
        return result

    def spoil(self, spoil: Spoil, values: Mapping[str, Any], result: Tile | Tensor) -> None:
        """Refuse it: an injected fault changes numbers."""
        raise ValueError("a program with an injected fault cannot be walked on coordinates")

    @property
    def _step(self) -> Step:
        return Step(self._call, dict(self._loops))

    # -- sums

    def _settled(self, acc: Tile) -> tuple[Accumulator, Ids]:
        accumulator = self._accumulators[acc.resident.address]
        if accumulator.ids is None:
            left, right = accumulator.left, accumulator.right
            codes = self._codes_of(right)
            accumulator.found = _whole(self._numbering, left, codes, accumulator.bias) or [
                _by_terms(block, at, left, codes[:, at], accumulator.bias)
                for block, at in self._blocks_of(codes)
            ]
            ids = np.zeros((left.shape[0], right.shape[1]), self._numbering.dtype)
            for found in accumulator.found:
                ids[:, found.at] = found.good * found.block.sum_ids(found.positions, found.columns)
            accumulator.ids = ids
            if (watched := self._mark(ids, ids != PADDING)) is not None:
                self.flaw = self._sum_flaw(accumulator, left, right, codes, *watched)
        return accumulator, accumulator.ids

    def _codes_of(self, right: Ids) -> Ids:
        """The codes of right operands, which are often those of the accumulator before."""
        if not np.array_equal(right, self._last[0]):
            self._last = right, self._numbering.codes(right)
        return self._last[1]

    def _mark(self, ids: Ids, good: Mask) -> tuple[int, int] | None:
        """Give each value [m, n] that is not good an id of its own, the same in every walk of a program.

        Returns the place of the watched one, if it is among them.
        """
        first, self._flaws = self._flaws, self._flaws - ids.size
        if not good.all():
            lowest = -(2 ** (8 * self._numbering.dtype.itemsize - 1))
            places = np.flatnonzero(~good)
            ids.reshape(-1)[places] = np.maximum(first - places, lowest)
        place = divmod(first - self._watched, ids.shape[1])
        return place if self._flaws < self._watched <= first else None

    def _blocks_of(self, codes: Ids) -> list[tuple[Block, Index]]:
        """The blocks that the columns of right operands belong to, by the first element that is in one."""
        first = codes[(codes >= 0).argmax(axis=0), np.arange(codes.shape[1])]
        found = []
        for block in self._numbering.blocks:
            own = (first >= block.code) & (first < block.code + block.depth * block.columns)
            if own.any():
                found.append((block, np.flatnonzero(own)))
        return found

    # -- words

    def _table_flaw(self, value: int, entry: int, accumulator: Accumulator, at: int) -> Flaw:
        name = self._numbering.name
        for found in accumulator.found:
            if at in found.at and found.block.table is not None:
                column = found.columns[found.at == at][0]
                wanted = name(int(found.block.table[column]))
                return Flaw(f"{self._step}: {name(int(value))}: with {name(int(entry))}, must be {wanted}")
        return Flaw(f"{self._step}: {name(int(value))} is requantised, but is defined as it is")

    def _sum_flaw(
        self, accumulator: Accumulator, left: Ids, right: Ids, codes: Ids, row: int, column: int
    ) -> Flaw:
        """Why the sum at a place of an accumulator is none that is defined."""
        blocks = [block for block, at in self._blocks_of(codes) if column in at]
        steps = [product.step for product in accumulator.products for _ in range(product.left.shape[1])]
        name = self._numbering.name
        if not blocks:
            return Flaw(
                f"{steps[0]}: right operand {name(int(right[0, column]))} is in no sum that is defined",
                min(int(right[0, column]), PADDING),
            )
        (block,) = blocks
        depth, columns, own = _split(block, codes[:, column])
        meant = int(_middle(columns, own, 0)[0])
        position = _voted(block, left[row], depth, own)
        if position < 0:
            place = int((left[row] != PADDING).argmax())
            return Flaw(
                f"{steps[place]}: left operand {name(int(left[row, place]))} is in no sum of column {meant}",
                min(int(left[row, place]), PADDING),
            )
        at, of = np.array([position]), np.array([meant])
        words = f"the sum of {name(int(block.result(at, of)[0, 0]))}"
        wanted = block.left(at, np.arange(block.depth))[0]
        seen: Counter[int] = Counter()
        for place, step in enumerate(steps):
            has, taps = int(left[row, place]), int(right[place, column])
            if taps == PADDING or (has == PADDING and not (own[place] and wanted[depth[place]])):
                continue
            if not own[place] or columns[place] != meant:
                return Flaw(
                    f"{step}: {words}: right operand {name(taps)} is none of column {meant}",
                    min(taps, PADDING),
                )
            at_depth = int(depth[place])
            needs = int(wanted[at_depth])
            if has != needs:
                return Flaw(
                    f"{step}: {words}: left operand of {name(taps)} is {name(has)}, must be {name(needs)}",
                    min(has, PADDING),
                )
            seen[at_depth] += 1
            if seen[at_depth] > 1:
                return Flaw(f"{step}: {words}: {name(has)} x {name(taps)} is added a second time")
        missing = [depth for depth in np.flatnonzero(wanted) if not seen[int(depth)]]
        if missing:
            return Flaw(
                f"{steps[-1]}: {words}: {len(missing)} terms are missing, {name(int(wanted[missing[0]]))}"
            )
        bias = "no bias" if accumulator.bias is None else name(int(accumulator.bias[column]))
        must = "none" if block.bias is None else name(int(block.bias[meant]))
        return Flaw(f"{steps[0]}: {words}: begins with {bias}, must be {must}")


def _whole(numbering: Numbering, left: Ids, codes: Ids, bias: Ids | None) -> list[Found]:
    """The sums, if the right operands are all terms of some columns of one block, each depth once."""
    if codes[0, 0] < 0:
        return []
    block = numbering.block_of(int(codes[0, 0]))
    depths = (codes[:, 0] - block.code) // block.columns
    columns = (codes[0] - block.code) % block.columns
    if not np.array_equal(np.sort(depths), np.arange(block.depth)):
        return []
    if not np.array_equal(codes, depths[:, None] * block.columns + (columns + block.code)):
        return []
    positions, same = _matched(block, left, depths)
    known = (positions >= 0) & same.all(axis=1)
    good = known[:, None] & _biased(block, bias, columns)
    return [Found(block, np.arange(columns.size), positions, columns, good)]


def _by_terms(block: Block, at: Index, left: Ids, codes: Ids, bias: Ids | None) -> Found:
    """The sums, whatever the operands are: terms may be double, missing, or 0 by padding.

    Args:
        block: the block that the columns `at` of the accumulator belong to.
        at: these columns.
        left: the left operands.
        codes: of the right operands of these columns.
        bias: the bias row of the accumulator.
    """
    depth, column, own = _split(block, codes)
    depths, columns = _middle(depth, own, 1), _middle(column, own, 0)
    known = depths >= 0
    positions, same = _matched(block, left[:, known], depths[known])
    left_any, right_any = left != PADDING, codes != ZERO
    left_good = np.zeros(left.shape, bool)
    left_good[:, known] = same & left_any[:, known] & (positions >= 0)[:, None]
    right_good = own & (depth == depths[:, None]) & (column == columns)
    terms = _terms(left_good, right_good)
    wrong = _terms(left_any, right_any) != terms
    for double in _doubled(depths):
        wrong |= _terms(left_good[:, double], right_good[double]) > 1
    needed = block.left(np.maximum(positions, 0), np.arange(block.depth)) != PADDING
    good = ~wrong & (terms == needed.sum(axis=1)[:, None]) & (positions >= 0)[:, None]
    good &= _biased(block, None if bias is None else bias[at], columns)
    return Found(block, at, positions, columns, good)


def _split(block: Block, codes: Ids) -> tuple[Ids, Ids, Mask]:
    """Depths and columns that codes stand for in a block, and which of them are its own."""
    depths, columns = np.divmod(codes - block.code, block.columns)
    own: Mask = (codes >= 0) & (depths >= 0) & (depths < block.depth)
    return depths, columns, own


def _middle(values: Ids, valid: Mask, axis: int) -> Index:
    """The median of the valid values along an axis, which most of them have if most agree; -1 if none is."""
    count = valid.sum(axis=axis, keepdims=True)
    ordered = np.sort(np.where(valid, values, np.iinfo(values.dtype).max), axis=axis)
    middle = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=axis)
    return np.where(count > 0, middle, -1).reshape(-1)


def _terms(left: Mask, right: Mask) -> npt.NDArray[np.float32]:
    """How many terms [m, n] have a left and a right operand that are marked [m, k] and [k, n]; exact."""
    return left.astype(np.float32) @ right.astype(np.float32)


def _doubled(depths: Index) -> list[Index]:
    """The places of each depth that occurs more than once."""
    return [
        np.flatnonzero(depths == depth)
        for depth, count in Counter(depths.tolist()).items()
        if depth >= 0 and count > 1
    ]


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


def _voted(block: Block, left: Ids, depths: Index, own: Mask) -> int:
    """The position that most of some left operands [k] belong to, -1 if none belongs to any."""
    places = np.flatnonzero(own & (left > PADDING))
    some = places[np.unique(np.linspace(0, places.size - 1, _VOTES).astype(int))] if places.size else places
    votes = Counter(int(block.with_element(int(depths[place]), left[[place]])[0]) for place in some)
    votes.pop(-1, None)
    return votes.most_common(1)[0][0] if votes else -1
