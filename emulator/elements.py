"""What the elements of tiles and tensors are in a walk: numbers, or coordinates (`emulator.coordinates`).

The walk itself is the same for both: what is loaded, cut, unfolded and stored, and where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from emulator import vreq8
from emulator.memory import Resident
from emulator.program import Call, Spoil
from emulator.soc import Space
from emulator.tile import Array, Place, Tensor, Tile, in_shape

PADDING = 0
"""The element that img2col gives outside the image, whatever elements are."""

_EXACT_DEPTH = 2**24 // 2**14
"""Largest K whose int8 products sum exactly in fp32: K * 128 * 128 <= 2**24."""


class Elements(Protocol):
    """A kind of element. Only the operators that compute with elements ask it; all others move them."""

    def memory(self, size: int) -> Array:
        """A memory of a size in bytes, which holds nothing yet."""
        ...

    def view(self, resident: Resident, memory: Array) -> Array:
        """The elements of a tile in its memory, as `Place.data` has them; writing to them writes there."""
        ...

    strict: bool
    """Whether the walk refuses to read what was never written, and outputs that are left partly unwritten."""

    by_steps: bool
    """Whether each operator must be done when the walk comes to it."""

    dtype: npt.DTypeLike
    """Of operands whose products are added up at once."""

    def reach(self, call: Call, loops: Mapping[str, int], held: Mapping[str, Tile | Tensor]) -> None:
        """Going by steps, it comes to an operator; `loops` and what names have `held` are its own state."""
        ...

    def multiply(self, acc: Tile, a: Tile, b: Tile, bias: Tile | None) -> None:
        """Begin sums with a product, and with a bias row if there is one."""
        ...

    def accumulate(self, acc: Tile, a: Tile, b: Tile) -> None:
        """Add a product to sums."""
        ...

    def add_up(self, acc: Tile, left: Array, right: Array, bias: Tile | None, *, begins: bool) -> None:
        """Begin sums with the product of two operands, with a bias row if there is one, or go on with it.

        What `left` holds is valid for this call only.
        """
        ...

    def settle(self, acc: Tile, rows: int) -> None:
        """Sums of the first rows leave their accumulator as they are: its data must now hold them."""
        ...

    def requantise(self, acc: Tile, rows: int, scale: Tile) -> Array:
        """Sums of the first rows, requantised [m, n]. Raises `vreq8.ScaleError` if a scale is not finite."""
        ...

    def spoil(self, spoil: Spoil, values: Mapping[str, Any], result: Tile | Tensor) -> None:
        """Let an injected fault change what an operator gave."""
        ...


class Memories:
    """The memories of a core, with the places of tiles in them.

    They hold elements while something is computed.
    """

    def __init__(self, capacity: Mapping[Space, int]) -> None:
        self._capacity = capacity
        self._places: list[Place] = []
        self._elements: Elements | None = None
        self._cells: Mapping[Space, Array] = {}

    def hold(self, elements: Elements | None) -> None:
        """Begin to hold elements, with nothing in them; with None, hold none."""
        self._elements = elements
        self._cells = {}
        if elements is not None:
            self._cells = {space: elements.memory(size) for space, size in self._capacity.items()}
        for place in self._places:
            self._fill(place)

    def place(self, resident: Resident) -> Place:
        """The place of a tile."""
        place = Place(resident)
        self._places.append(place)
        self._fill(place)
        return place

    def _fill(self, place: Place) -> None:
        place.data = None
        if self._elements is not None:
            place.data = self._elements.view(place.resident, self._cells[place.resident.type.space])


class Numbers:
    """Elements are the numbers that a device computes with."""

    strict = True
    dtype: npt.DTypeLike = np.float32

    def __init__(self, reading: vreq8.Reading, *, by_steps: bool = False) -> None:
        self._reading = reading
        self.by_steps = by_steps

    def memory(self, size: int) -> Array:
        """Bytes."""
        return np.zeros(size, np.uint8)

    def view(self, resident: Resident, memory: Array) -> Array:
        """The bytes of a tile, as numbers of its dtype."""
        return in_shape(resident, memory[resident.address : resident.end].view(resident.type.dtype.numpy))

    def reach(self, call: Call, loops: Mapping[str, int], held: Mapping[str, Tile | Tensor]) -> None:
        """Nothing depends on it."""

    def multiply(self, acc: Tile, a: Tile, b: Tile, bias: Tile | None) -> None:
        """Write the product."""
        self.add_up(acc, a.data, b.data, bias, begins=True)

    def accumulate(self, acc: Tile, a: Tile, b: Tile) -> None:
        """Add the product."""
        self.add_up(acc, a.data, b.data, None, begins=False)

    def add_up(self, acc: Tile, left: Array, right: Array, bias: Tile | None, *, begins: bool) -> None:
        """Write or add the exact int32 product, and the bias."""
        sums = acc.data
        if begins:
            sums[:] = _product(left, right)
        else:
            sums += _product(left, right)
        if bias is not None:
            sums += bias.data

    def settle(self, acc: Tile, rows: int) -> None:
        """The sums are there already."""

    def requantise(self, acc: Tile, rows: int, scale: Tile) -> Array:
        """The int8 of VREQ8."""
        return vreq8.requantise(acc.data[:rows], scale.data, self._reading)

    def spoil(self, spoil: Spoil, values: Mapping[str, Any], result: Tile | Tensor) -> None:
        """Call it."""
        spoil(values, result)


def _product(a: Array, b: Array) -> npt.NDArray[np.int32]:
    """The int32 product of int8 matrices, which may be given as float32; exact."""
    left, right = a.astype(np.float32, copy=False), b.astype(np.float32, copy=False)
    total = (left[:, :_EXACT_DEPTH] @ right[:_EXACT_DEPTH]).astype(np.int32)
    for start in range(_EXACT_DEPTH, left.shape[1], _EXACT_DEPTH):
        part = slice(start, start + _EXACT_DEPTH)
        total += (left[:, part] @ right[part]).astype(np.int32)
    return total
