"""The ids of all elements that a walk on coordinates moves, and what a definition says about them.

An id says which element it is: one of a tensor in GM, padding, bytes never written, a sum, or a flawed value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from emulator.elements import PADDING

Ids = npt.NDArray[Any]
"""Ids, of a signed integer dtype."""

Index = npt.NDArray[np.signedinteger]

NEVER = -1
"""The id of an element that was never written."""

FLAWED = -2
"""The id of a flawed value: a sum, or what became of one, that is none of those defined."""

ZERO, NONE = -2, -1
"""Codes of padding and of what is no right element of any sum."""

_CHUNK = 2**20
"""Right elements that are numbered at once."""


class Sums(Protocol):
    """A block of sums, as a workload's definition says them.

    `sum(position, column) = bias(column) + sum over depth of left(position, depth) * right(depth, column)`

    An operand is the name of a tensor and a function that gives elements, counted row by row and negative for
    padding: [m, k] from positions and depths, [k, n] from depths and columns, [m, n] from positions and
    columns, [n] from columns. The result of one block may be an operand of another.
    """

    @property
    def shape(self) -> tuple[int, int, int]:
        """Positions, depth, columns."""
        ...

    @property
    def left(self) -> tuple[str, Callable[[Index, Index], Index]]:
        """Left elements."""
        ...

    @property
    def right(self) -> tuple[str, Callable[[Index, Index], Index]]:
        """Right elements, none of them padding, or in two depths or columns."""
        ...

    @property
    def result(self) -> tuple[str, Callable[[Index, Index], Index]]:
        """Where the sums go."""
        ...

    @property
    def bias(self) -> tuple[str, Callable[[Index], Index]] | None:
        """What is added to the sums of a column, if anything."""
        ...

    @property
    def table(self) -> tuple[str, Callable[[Index], Index]] | None:
        """The entry that requantises the sums of a column, if they are requantised."""
        ...


class UndecidedError(Exception):
    """A program can be neither proved nor refuted; the message says why."""


class Block:
    """A block of sums: `first` is the id of its first sum, `code` the code of its first right element."""

    def __init__(self, sums: Sums, tensors: Mapping[str, range], first: int, code: int) -> None:
        self.sums, self.first, self.code = sums, first, code
        self.positions, self.depth, self.columns = sums.shape
        self._tensors = tensors
        columns = np.arange(self.columns)
        self.bias = None if sums.bias is None else self._ids(sums.bias[0], sums.bias[1](columns))
        self.table = None if sums.table is None else self._ids(sums.table[0], sums.table[1](columns))
        self._sorted: dict[int, tuple[Index, Ids]] = {}

    def left(self, positions: Index, depths: Index) -> Ids:
        """The ids [m, k] that a sum's left elements have."""
        name, elements = self.sums.left
        return self._ids(name, elements(positions, depths))

    def right(self, depths: Index, columns: Index) -> Ids:
        """The ids [k, n] that a sum's right elements have."""
        name, elements = self.sums.right
        return self._ids(name, elements(depths, columns))

    def result(self, positions: Index, columns: Index) -> Ids:
        """The ids [m, n] of the elements that sums, requantised if a table says so, become."""
        name, elements = self.sums.result
        return self._ids(name, elements(positions, columns))

    def _ids(self, tensor: str, elements: Index) -> Ids:
        """The ids of a tensor's elements, `PADDING` for those that are negative.

        Raises:
            ValueError: the tensor has no such element.
        """
        ids = self._tensors[tensor]
        if int(elements.max()) >= len(ids):
            raise ValueError(f"{tensor} has {len(ids)} elements: there is no element {elements.max()}")
        found = elements + ids.start
        np.copyto(found, PADDING, where=elements < 0)
        return found

    def sum_ids(self, positions: Index, columns: Index) -> Ids:
        """The ids [m, n] of sums as they are. Without a table they are the result."""
        if self.table is None:
            return self.result(positions, columns)
        return positions[:, None] * self.columns + columns + self.first

    def with_element(self, depth: int, ids: Ids, number: int = 0) -> Index:
        """The positions [m] whose left element at a depth has these ids [m], -1 where there is none.

        `number` counts, if several positions share an element there.
        """
        if depth not in self._sorted:
            column = self.left(np.arange(self.positions), np.array([depth]))[:, 0]
            order = np.argsort(column, kind="stable")
            self._sorted[depth] = order, column[order]
        order, column = self._sorted[depth]
        at = np.searchsorted(column, ids) + number
        inside = np.minimum(at, column.size - 1)
        return np.where((at == inside) & (column[inside] == ids), order[inside], -1)


class Numbering:
    """The ids of all elements of a workload.

    Right elements come first, so that a small table knows which terms they are in.

    Args:
        shapes: the shape of each tensor, inputs and results, by name.
        blocks: the sums of the workload.

    Raises:
        UndecidedError: a right element is padding, or in two depths or columns.
        ValueError: there is no such tensor, or a tensor has no such element.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], blocks: Sequence[Sums]) -> None:
        self._shapes = shapes
        self._tensors: dict[str, range] = {}
        total, codes = 1, 0
        for sums in blocks:
            for operand in (sums.left, sums.right, sums.result, sums.bias, sums.table):
                if operand is not None and operand[0] not in shapes:
                    raise ValueError(f"there is no tensor {operand[0]!r}: there are {', '.join(shapes)}")
        rights = dict.fromkeys(sums.right[0] for sums in blocks)
        for name in [*rights, *(name for name in shapes if name not in rights)]:
            self._tensors[name] = range(total, total + prod(shapes[name]))
            total = self._tensors[name].stop
        self.blocks: list[Block] = []
        for sums in blocks:
            self.blocks.append(Block(sums, self._tensors, total, codes))
            total += 0 if sums.table is None else sums.shape[0] * sums.shape[2]
            codes += sums.shape[1] * sums.shape[2]
        self.dtype = np.dtype(np.int32 if max(total, codes) < 2**30 else np.int64)
        self._codes = self._coded(1 + sum(prod(shapes[name]) for name in rights))

    def _coded(self, size: int) -> Ids:
        """The code of each id up to the last right element, with one before and one behind for all others."""
        table = np.full(size + 2, NONE, self.dtype)
        table[1 + PADDING] = ZERO
        for block in self.blocks:
            name, _ = block.sums.right
            columns, chunk = np.arange(block.columns), max(1, _CHUNK // block.columns)
            for start in range(0, block.depth, chunk):
                depths = np.arange(start, min(start + chunk, block.depth))
                ids = block.right(depths, columns)
                if (ids == PADDING).any():
                    raise UndecidedError(f"a right operand from {name} is padding")
                codes = block.code + depths[:, None] * block.columns + columns
                new = (table[1 + ids] == NONE).all()
                table[1 + ids] = codes
                if not new or (table[1 + ids] != codes).any():
                    raise UndecidedError(f"an element of {name} is in several depths or columns")
        return table

    def ids(self, tensor: str) -> Ids:
        """The ids of a tensor's elements, in its shape."""
        ids = self._tensors[tensor]
        return np.arange(ids.start, ids.stop, dtype=self.dtype).reshape(self._shapes[tensor])

    def codes(self, right: Ids) -> Ids:
        """The codes of right operands: which depth and column of which block they are."""
        return self._codes.take(right + 1, mode="clip")

    def block_of(self, code: int) -> Block:
        """The block of a code that is not negative."""
        return next(block for block in reversed(self.blocks) if block.code <= code)

    def tensor(self, element: int) -> str:
        """The tensor of an element; empty for what is in none."""
        return next((name for name, ids in self._tensors.items() if element in ids), "")

    def read_by(self, tensor: str) -> str:
        """The tensor whose sums read a tensor; empty if none does."""
        for block in self.blocks:
            sums = block.sums
            operands = (sums.left, sums.right, sums.bias, sums.table)
            if any(operand is not None and operand[0] == tensor for operand in operands):
                return sums.result[0]
        return ""

    def name(self, element: int) -> str:
        """An element in words."""
        if element == PADDING:
            return "padding"
        if element == NEVER:
            return "nothing, it was never written"
        if element <= FLAWED:
            return "a wrong value"
        for block in self.blocks:
            number = element - block.first
            if block.table is not None and 0 <= number < block.positions * block.columns:
                position, column = divmod(number, block.columns)
                result = block.result(np.array([position]), np.array([column]))
                return f"the sum of {self.name(int(result[0, 0]))} before requantisation"
        name, ids = next(item for item in self._tensors.items() if element in item[1])
        place = np.unravel_index(ids.index(element), self._shapes[name])
        return f"{name}[{', '.join(map(str, place))}]"
