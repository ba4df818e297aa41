"""What operators do with elements, apart from what the walk checks and counts.

Each action is a fact: the tiles, tensors and numbers that the walk found. To do it needs elements only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from emulator import vreq8
from emulator.elements import PADDING, Elements
from emulator.errors import AccessError
from emulator.image import Table, Window, unfolded
from emulator.program import Call, Spoil
from emulator.soc import FRACTAL_DEPTH, Space
from emulator.tile import Array, Tensor, Tile


class Action(Protocol):
    """What one operator does."""

    @property
    def result(self) -> Tile | Tensor:
        """What it writes."""
        ...

    def do(self, elements: Elements) -> None:
        """Do it."""
        ...


class Fill(NamedTuple):
    """Bring a rectangle of a tensor, of a shape at an offset, into a tile at another one."""

    result: Tile
    target: tuple[int, int]
    tensor: Tensor
    source: tuple[int, int]
    shape: tuple[int, int]

    def do(self, elements: Elements) -> None:
        """Copy it."""
        self.result.put(*self.target, self.tensor.get(*self.source, self.shape))


class Pad(NamedTuple):
    """Write zeros into `rows` rows of a tile from `row` on."""

    result: Tile
    row: int
    rows: int

    def do(self, elements: Elements) -> None:
        """Write them."""
        shape = (self.rows, self.result.resident.type.shape[1])
        self.result.put(self.row, 0, np.full(shape, PADDING, self.result.data.dtype))


class Cut(NamedTuple):
    """Copy a rectangle of an L1 tile into a tile of another memory."""

    result: Tile
    source: Tile
    row: int
    column: int
    rows: int
    columns: int

    @property
    def read(self) -> tuple[object, ...]:
        """What is read: all but where it is copied to."""
        return self.source, self.row, self.column, self.rows, self.columns

    def block(self) -> Array:
        """The rectangle [rows, columns]."""
        return self.source.get(self.row, self.column, (self.rows, self.columns))

    def do(self, elements: Elements) -> None:
        """Copy it."""
        self.result.data[:] = self.block()


class Unfold(NamedTuple):
    """Copy `rows` positions of the unfolded image in an L1 tile, `columns` of its K from `column` on."""

    result: Tile
    source: Tile
    window: Window
    row: int
    column: int
    rows: int
    columns: int

    @property
    def positions(self) -> tuple[object, ...]:
        """What is read of an image: the window, and a rectangle of what it unfolds to."""
        return self.window, self.row, self.column, self.rows, self.columns

    @property
    def read(self) -> tuple[object, ...]:
        """What is read: all but where it is copied to."""
        return self.source, *self.positions

    def table(self) -> Table:
        """The index by which they are read."""
        pixels = self.source.resident.type.shape[0]
        return unfolded(self.window, self.row, self.rows, self.column, self.columns, pixels)

    def block(self, table: Table) -> Array:
        """The positions [rows, columns], by their index."""
        index, outside = table
        groups = self.source.data.reshape(-1, FRACTAL_DEPTH).take(index.reshape(-1), axis=0)
        if outside is not None:
            groups[outside] = PADDING
        return groups.reshape(self.rows, self.columns)

    def do(self, elements: Elements) -> None:
        """Copy them."""
        self.result.data[:] = self.block(self.table())


class Multiply(NamedTuple):
    """Begin sums with a product, and with a bias row if there is one."""

    result: Tile
    a: Tile
    b: Tile
    bias: Tile | None

    def do(self, elements: Elements) -> None:
        """As elements do."""
        elements.multiply(self.result, self.a, self.b, self.bias)


class Accumulate(NamedTuple):
    """Add a product to sums."""

    result: Tile
    a: Tile
    b: Tile

    def do(self, elements: Elements) -> None:
        """As elements do."""
        elements.accumulate(self.result, self.a, self.b)


class Requantise(NamedTuple):
    """Write the requantised sums of the first `rows` rows into a tile or tensor at an offset."""

    call: Call
    acc: Tile
    rows: int
    scale: Tile
    result: Tile | Tensor
    offset: tuple[int, int]

    def do(self, elements: Elements) -> None:
        """As elements do. Raises `AccessError` for a scale that is not finite."""
        try:
            block = elements.requantise(self.acc, self.rows, self.scale)
        except vreq8.ScaleError as error:
            raise AccessError(self.call.position, f"pl.{self.call.operator}", str(error)) from error
        self.result.put(*self.offset, block)


class Store(NamedTuple):
    """Write the first `rows` rows of a tile to a tensor at an offset."""

    tile: Tile
    rows: int
    result: Tensor
    offset: tuple[int, int]

    def do(self, elements: Elements) -> None:
        """Copy them; sums must be settled first."""
        typed = self.tile.resident.type
        if typed.space is Space.Acc:
            elements.settle(self.tile, self.rows)
        self.result.put(*self.offset, self.tile.get(0, 0, (self.rows, typed.shape[1])))


class Spoiled(NamedTuple):
    """Let an injected fault change what an operator gave."""

    spoil: Spoil
    values: Mapping[str, Any]
    result: Tile | Tensor

    def do(self, elements: Elements) -> None:
        """As elements do."""
        elements.spoil(self.spoil, self.values, self.result)
