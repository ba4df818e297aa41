"""A walk on coordinates: an element is the id of what stands there, and a product is checked, not computed.

An accumulator holds the operands of its products. When its sums are read they are compared, term by term,
with what the definition says of them. A sum that differs becomes a flawed value, which matters only where it
reaches an output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.memory import Resident
from emulator.program import Call, Spoil
from emulator.sums import Accumulator, Found, Mask, Product, Right, right_of, sums_of
from emulator.terms import FLAWED, NEVER, Ids, Numbering
from emulator.tile import Array, Tensor, Tile, in_shape


class Coordinates:
    """Elements are ids of `emulator.terms`, numbered by `numbering`."""

    strict = True
    by_steps = False

    def __init__(self, numbering: Numbering) -> None:
        self.dtype: npt.DTypeLike = numbering.dtype
        self._numbering = numbering
        self._accumulators: dict[int, Accumulator] = {}
        self._right: Right | None = None

    def memory(self, size: int) -> Array:
        """One id for each byte; that of an element is at its first byte."""
        return np.full(size, NEVER, self._numbering.dtype)

    def view(self, resident: Resident, memory: Array) -> Array:
        """The ids of a tile's elements."""
        size = resident.type.dtype.size
        return in_shape(resident, memory[resident.address : resident.end : size])

    def reach(self, call: Call, loops: Mapping[str, int], held: Mapping[str, Tile | Tensor]) -> None:
        """Nothing depends on it."""

    def multiply(self, acc: Tile, a: Tile, b: Tile, bias: Tile | None) -> None:
        """Keep the operands and the bias row."""
        self.add_up(acc, a.data, b.data.copy(), bias, begins=True)

    def accumulate(self, acc: Tile, a: Tile, b: Tile) -> None:
        """Keep the operands."""
        self.add_up(acc, a.data, b.data.copy(), None, begins=False)

    def add_up(self, acc: Tile, left: Array, right: Array, bias: Tile | None, *, begins: bool) -> None:
        """Keep the operands and the bias row."""
        if begins:
            added = None if bias is None else bias.data[0].copy()
            self._accumulators[acc.resident.address] = Accumulator(added)
        accumulator = self._accumulators[acc.resident.address]
        accumulator.products.append(Product(left.copy(), right))
        accumulator.ids = None

    def settle(self, acc: Tile, rows: int) -> None:
        """Write which sums they are to the accumulator's data."""
        acc.data[:rows] = self._settled(acc, rows)[1]

    def requantise(self, acc: Tile, rows: int, scale: Tile) -> Array:
        """The ids of the elements that the sums become with the entries of a table."""
        entries = scale.data[0]
        accumulator, ids = self._settled(acc, rows)
        result = np.full_like(ids, FLAWED)
        for found in accumulator.found:
            if found.block.table is not None:
                right = found.block.table[found.columns] == entries[found.at]
                becomes = found.block.result(found.positions, found.columns)
                result[:, found.at] = np.where(found.good & right, becomes, FLAWED)
        return result

    def spoil(self, spoil: Spoil, values: Mapping[str, Any], result: Tile | Tensor) -> None:
        """Refuse it: an injected fault changes numbers."""
        raise ValueError("a program with an injected fault cannot be walked on coordinates")

    def _which(self, found: Found, accumulator: Accumulator) -> Mask:
        """Which sums [m, n] are taken for those that they are meant to be."""
        return found.good

    # -- sums

    def _settled(self, acc: Tile, rows: int) -> tuple[Accumulator, Ids]:
        accumulator = self._accumulators[acc.resident.address]
        if accumulator.ids is None or accumulator.valid != rows:
            accumulator.valid = rows
            left, right = accumulator.left, accumulator.right
            if self._right is None or not np.array_equal(right, self._right.ids):
                self._right = right_of(self._numbering, right)  # often those of the sums before
            accumulator.found = sums_of(self._numbering, left, self._right, accumulator.bias)
            ids = np.full((left.shape[0], right.shape[1]), FLAWED, self._numbering.dtype)
            for found in accumulator.found:
                sums = found.block.sum_ids(found.positions, found.columns)
                ids[:, found.at] = np.where(self._which(found, accumulator), sums, FLAWED)
            accumulator.ids = ids
        return accumulator, accumulator.ids
