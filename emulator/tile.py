"""Tiles and tensors during a walk: which elements were written and, if there are any, the elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.memory import Resident
from emulator.program import TensorType
from emulator.soc import FRACTAL_DEPTH

Array = npt.NDArray[Any]


def in_shape(resident: Resident, flat: Array) -> Array:
    """The elements of a tile, given in the order of their addresses, in the shape of `Place.data`."""
    rows, columns = resident.type.shape
    fractal = resident.type.fractal
    return flat.reshape((columns // FRACTAL_DEPTH, rows, FRACTAL_DEPTH) if fractal else (rows, columns))


@dataclass
class Place:
    """Where a resident tile lies in a core's memory. `data` are the elements there, while there are any.

    They are [rows, columns], or [C1, rows, C0] if the tile lies in NZ fractals (rows are a multiple of 16,
    and this is byte for byte `[C/32][R/16][16][32]`).
    """

    resident: Resident
    data: Array | None = None


class Tile:
    """One life of a resident tile. `written` is a mask of its elements, None once all of them are.

    `valid` says how many of its first rows hold what they should, all unless the program says otherwise.
    `ended` is true once its call has made a later tile at the same address.
    """

    __slots__ = ("ended", "place", "resident", "valid", "written")

    def __init__(self, place: Place, *, full: bool) -> None:
        self.place = place
        self.resident = place.resident
        self.ended = False
        self.valid = place.resident.type.shape[0]
        self.written: npt.NDArray[np.bool_] | None = (
            None if full else np.zeros(self.resident.type.shape, bool)
        )

    @property
    def data(self) -> Array:
        """The elements at its place; writing to them writes there."""
        assert self.place.data is not None
        return self.place.data

    def mark(self, row: int, column: int, shape: tuple[int, int]) -> None:
        """Note a rectangle as written."""
        if self.written is not None:
            self.written[row : row + shape[0], column : column + shape[1]] = True
            if self.written.all():
                self.written = None

    def holds(self, row: int, column: int, shape: tuple[int, int]) -> bool:
        """Whether every element of a rectangle was written."""
        if self.written is None:
            return True
        return bool(self.written[row : row + shape[0], column : column + shape[1]].all())

    def holds_at(self, rows: npt.NDArray[np.intp], column: int) -> bool:
        """Whether the elements of these rows in a column were written."""
        return self.written is None or bool(self.written[rows, column].all())

    def put(self, row: int, column: int, block: Array) -> None:
        """Write a block [m, n] at (row, column)."""
        rows, columns = block.shape
        if self.resident.type.fractal:
            planes = slice(column // FRACTAL_DEPTH, (column + columns) // FRACTAL_DEPTH)
            split = block.reshape(rows, columns // FRACTAL_DEPTH, FRACTAL_DEPTH)
            self.data[planes, row : row + rows] = split.transpose(1, 0, 2)
        else:
            self.data[row : row + rows, column : column + columns] = block

    def get(self, row: int, column: int, shape: tuple[int, int]) -> Array:
        """Read a block [m, n] from (row, column)."""
        rows, columns = shape
        if not self.resident.type.fractal:
            return self.data[row : row + rows, column : column + columns]
        first = column // FRACTAL_DEPTH
        last = -(-(column + columns) // FRACTAL_DEPTH)
        planes = self.data[first:last, row : row + rows].transpose(1, 0, 2).reshape(rows, -1)
        return planes[:, column - first * FRACTAL_DEPTH :][:, :columns]


@dataclass
class Tensor:
    """A GM tensor. `written` masks an output's elements (None: an input); `data` is the caller's array.

    `data` is None while nothing is computed.
    """

    name: str
    type: TensorType
    data: Array | None
    written: npt.NDArray[np.bool_] | None

    def put(self, row: int, column: int, block: Array) -> None:
        """Write a block [m, n] at (row, column)."""
        assert self.data is not None
        rows, columns = block.shape
        self.data[row : row + rows, column : column + columns] = block

    def get(self, row: int, column: int, shape: tuple[int, int]) -> Array:
        """Read a block [m, n] from (row, column)."""
        assert self.data is not None
        return self.data[row : row + shape[0], column : column + shape[1]]
