"""img2col as index maps: which feature-map rows a window tap reads, and where it falls outside the image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.soc import FRACTAL_DEPTH


@dataclass(frozen=True, eq=False)  # compared by identity, which makes look-ups quick: see `window_of`
class Window:
    """Image (rows, columns), kernel, stride, padding (top, bottom, left, right), all in pixels."""

    image: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]

    @cached_property
    def out(self) -> tuple[int, int]:
        """Output rows and columns."""
        top, bottom, left, right = self.padding
        rows = (self.image[0] + top + bottom - self.kernel[0]) // self.stride[0] + 1
        columns = (self.image[1] + left + right - self.kernel[1]) // self.stride[1] + 1
        return rows, columns


window_of = lru_cache(maxsize=1024)(Window)
"""The window of these numbers: always the same object for the same numbers, while it is cached."""


@lru_cache(maxsize=65536)
def tap_rows(
    window: Window, pos_m: int, count: int, tap: tuple[int, int]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_] | None]:
    """Feature-map rows that output positions `pos_m .. pos_m + count` read at one tap (kh, kw).

    Returns the row indices [count] (0 where the tap is outside the image) and a mask [count] of those outside
    (None if there are none).
    """
    positions = np.arange(pos_m, pos_m + count)
    columns_out = window.out[1]
    rows = positions // columns_out * window.stride[0] + tap[0] - window.padding[0]
    columns = positions % columns_out * window.stride[1] + tap[1] - window.padding[2]
    inside = (rows >= 0) & (rows < window.image[0]) & (columns >= 0) & (columns < window.image[1])
    index = np.where(inside, rows * window.image[1] + columns, 0)
    return index, None if inside.all() else ~inside


def window_in(operands: Mapping[str, Any]) -> Window:
    """The window of an img2col with these operands."""
    return window_of(
        operands["image_shape"], operands["kernel_size"], operands["stride"], operands["padding"]
    )


class Group(NamedTuple):
    """Elements of one C1 plane at one tap (kh, kw): where they are read, as of `tap_rows`."""

    plane: int
    tap: tuple[int, int]
    rows: npt.NDArray[np.intp]
    outside: npt.NDArray[np.bool_] | None


def groups(window: Window, pos_m: int, count: int, pos_k: int, depth: int) -> Iterator[Group]:
    """The groups of C0 elements of `count` positions of an unfolded image, `depth` elements of K each.

    They begin at position `pos_m` and element `pos_k`, which is a multiple of C0, as `depth` is.
    """
    first, (height, width) = pos_k // FRACTAL_DEPTH, window.kernel
    for number in range(first, first + depth // FRACTAL_DEPTH):
        plane, at = divmod(number, height * width)
        tap = divmod(at, width)
        yield Group(plane, tap, *tap_rows(window, pos_m, count, tap))


Table = tuple[npt.NDArray[np.int32], npt.NDArray[np.intp] | None]
"""An index [m, groups] of a tile's groups of C0 elements, and the places in it that are outside the image."""


def unfolded(window: Window, pos_m: int, count: int, pos_k: int, depth: int, pixels: int) -> Table:
    """Where a part of an unfolded image, as of `groups`, lies in a tile [C1, pixels, C0].

    The places [n] are counted row by row, None if there are none; the index there is that of another group.
    """
    index = np.empty((count, depth // FRACTAL_DEPTH), np.int32)
    mask = np.zeros(index.shape, bool)
    for number, (plane, _, rows, outside) in enumerate(groups(window, pos_m, count, pos_k, depth)):
        index[:, number] = rows + plane * pixels
        if outside is not None:
            mask[:, number] = outside
    places = np.flatnonzero(mask)
    return index, places if places.size else None
