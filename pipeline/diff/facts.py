"""What a reader would see at once in a wrong output; each fact is told only where it is surprising."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.geometry import C0
from pipeline.ground.words import listed

_CHANCE = 1e-3
"""A place is surprising if mismatches that are spread evenly would all lie in it with this chance at most."""

OF_HOST = (
    "it is the golden: ",
    "it is the golden in the order ",
    "it is the golden, transposed",
    "unwritten: ",
)
"""How facts begin that speak for what the host or the engine does with outputs, if the program is right."""

_PROBES = 64
"""Wrong elements at which a shift is tried before it is compared as a whole."""

_ORDERS = {
    "channel, row, column": (2, 3, 0, 1),
    "channel, column, row": (2, 3, 1, 0),
    "column, row, channel": (1, 0, 2, 3),
    "row, channel, column": (0, 2, 3, 1),
    "C1 plane, row, column, C0": (2, 0, 1, 3),
}
"""Orders in which the bytes of an image (row, column, C1 plane, C0) may lie instead."""

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Output:
    """A wrong output and what it must be, both [positions, channels], equal in shape and dtype.

    Attributes:
        actual, expected: the two.
        width: pixels in an image row: a position is row * width + column; 1 where the output is a matrix.
        unwritten: the elements that the program never wrote.
        tiles: the ACC tile of each position, counted from 0 through the image; None if not known.
        ties: where the golden is halfway before it is rounded; None if not known.
        profile: which golden the output is, if it is that of another profile; else empty.
    """

    actual: Array
    expected: Array
    width: int
    unwritten: Mask
    tiles: Ints | None = None
    ties: Mask | None = None
    profile: str = ""

    @cached_property
    def wrong(self) -> Mask:
        """The elements that differ."""
        differs: Mask = np.not_equal(self.actual, self.expected)
        return differs

    @property
    def matrix(self) -> bool:
        """Whether it is a matrix, not an image."""
        return self.width == 1


def single_value(actual: Array, expected: Array) -> int | None:
    """The one value that all wrong elements have, where the golden has several; None where there is none."""
    wrong = actual != expected
    values, right = np.unique(actual[wrong]), np.unique(expected[wrong])
    return int(values[0]) if len(values) == 1 and len(right) > 1 else None


def facts_of(output: Output) -> tuple[str, ...]:
    """The facts, each in a few words, to stand behind the count of mismatches."""
    if output.profile:
        return (f"it is the golden: {output.profile}",)
    if np.unique(output.actual[output.wrong]).size > 1 and (other := _reordered(output) or _moved(output)):
        return (other,)
    return tuple(_places(output))


def _places(output: Output) -> Iterator[str]:
    wrong, value = output.wrong, single_value(output.actual, output.expected)
    if output.unwritten.any():
        yield f"unwritten: {_extent(output)}"
    if output.unwritten[wrong].all():
        return
    if value is not None:
        yield f"every wrong element is {value}"
    # What should be this value cannot be wrong, so that it lies elsewhere says nothing.
    could_be = np.ones_like(wrong) if value is None else output.expected != value
    small = np.abs(output.actual.astype(np.int64) - output.expected).max() == 1
    if output.ties is not None and small and _gathers(wrong, output.ties, could_be):
        yield f"only ties are wrong: {np.count_nonzero(wrong)} of {np.count_nonzero(output.ties)}"
    positions = np.asarray(wrong.any(axis=1))
    could_be = np.asarray(could_be.any(axis=1))
    if not output.matrix and _gathers(positions, _border(output), could_be):
        yield "only the image's border is wrong"
    if output.tiles is not None:
        tiles = np.unique(output.tiles[positions])
        if _gathers(positions, np.isin(output.tiles, tiles), could_be):
            yield f"only in {_tiles(output.tiles, tiles)}"


def _tiles(all_of_them: Ints, some: Ints) -> str:
    return f"ACC tile{'' if len(some) == 1 else 's'} {listed(some.tolist())} of {all_of_them.max() + 1}"


def _gathers(wrong: Mask, place: Mask, could_be: Mask) -> bool:
    """Whether all that is wrong lies in a place, and surprisingly so, given what could be wrong."""
    share = np.count_nonzero(place & could_be) / np.count_nonzero(could_be)
    return not (wrong & ~place).any() and bool(share ** np.count_nonzero(wrong) <= _CHANCE)


def _border(output: Output) -> Mask:
    row, column = np.divmod(np.arange(len(output.actual)), output.width)
    border: Mask = (row == 0) | (row == row[-1]) | (column == 0) | (column == output.width - 1)
    return border


def _extent(output: Output) -> str:
    """Which part was never written, by channel and by tile (of a matrix by row and column)."""
    channels, positions = (np.asarray(output.unwritten.any(axis=axis)) for axis in (0, 1))
    places = output.tiles if output.tiles is not None else np.arange(len(positions)) // output.width
    some = np.unique(places[positions])
    parts = []
    if not channels.all():
        parts.append(
            f"{'columns' if output.matrix else 'channels'} {listed(np.flatnonzero(channels).tolist())}"
        )
    if not positions.all():
        parts.append(_tiles(places, some) if output.tiles is not None else f"rows {listed(some.tolist())}")
    whole = np.isin(places, some)[:, None] & channels
    return ("" if np.array_equal(output.unwritten, whole) else "some of ") + (
        " of ".join(parts) or "all of it"
    )


def _reordered(output: Output) -> str:
    """That the output is the golden in another order of its bytes; empty if it is not."""
    actual, expected = output.actual, output.expected
    if output.matrix:
        return "it is the golden, transposed" if _same(actual, expected.T) else ""
    positions, channels = expected.shape
    if positions % output.width or channels % C0:
        return ""
    image = expected.reshape(-1, output.width, channels // C0, C0)
    orders = (name for name, axes in _ORDERS.items() if _same(actual, image.transpose(axes)))
    return next((f"it is the golden in the order {name}" for name in orders), "")


def _same(actual: Array, expected: Array) -> bool:
    return np.array_equal(actual.reshape(-1), expected.reshape(-1))


def _moved(output: Output) -> str:
    """That the output is the golden moved along an axis, apart from what that brings in; empty if not."""
    positions, channels = output.actual.shape
    if positions % output.width:
        return ""
    shape = (positions, channels) if output.matrix else (positions // output.width, output.width, channels)
    actual, expected, wrong = (
        array.reshape(shape) for array in (output.actual, output.expected, output.wrong)
    )
    places = np.argwhere(wrong)
    probes = places[np.linspace(0, len(places) - 1, min(_PROBES, len(places))).astype(np.int64)]
    for axis, name in enumerate(("row", "column", "channel")[: len(shape)]):
        length = actual.shape[axis]
        for distance in (sign * size for size in range(1, length // 2 + 1) for sign in (1, -1)):
            source = probes.copy()
            source[:, axis] -= distance
            inside = (source[:, axis] >= 0) & (source[:, axis] < length)
            if not np.array_equal(actual[tuple(probes[inside].T)], expected[tuple(source[inside].T)]):
                continue
            to, of = _overlap(axis, distance)
            explained = actual[to][wrong[to]]
            if 4 * explained.size < len(places) or np.unique(explained).size < 2:
                continue
            if np.array_equal(actual[to], expected[of]):
                plural = "" if abs(distance) == 1 else "s"
                return f"it is the golden moved by {distance:+d} {name}{plural}"
    return ""


def _overlap(axis: int, distance: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """What is moved by a distance along an axis: where it is then, and where it was."""
    start, stop = slice(abs(distance), None), slice(None, -abs(distance))
    to, of = (start, stop) if distance > 0 else (stop, start)
    before = (slice(None),) * axis
    return (*before, to), (*before, of)
