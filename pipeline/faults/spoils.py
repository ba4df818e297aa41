"""Faults in the bytes that an operator gives: each a `Spoil`, run after the operator has computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from emulator.image import groups, window_in
from emulator.program import Spoil
from emulator.soc import FRACTAL_DEPTH
from emulator.tile import Array, Tensor, Tile
from emulator.vreq8 import Reading, requantise, rounded

Requantise = Callable[[Array, Array, Reading], Array]
"""Accumulators int32 [M, C] and a table uint64 [1, C] to int8 [M, C]."""

_LARGEST = 2.0**62


def requantised(how: Requantise, reading: Reading) -> Spoil:
    """Replaces what a fixpipe operator wrote by another requantisation of the same accumulators."""

    def spoil(values: Mapping[str, Any], result: Tile | Tensor) -> None:
        block = how(values["acc"].data[: values["acc"].valid], values["scale"].data, reading)
        row, column = values["offsets"]
        result.put(row, column, block)

    return spoil


def unsaturated(acc: Array, table: Array, reading: Reading) -> Array:
    """The low 8 bits of the rounded value, without saturation."""
    whole = np.clip(rounded(acc, table, reading), -_LARGEST, _LARGEST).astype(np.int64)
    return (whole & 0xFF).astype(np.uint8).view(np.int8)


def offset_subtracted(acc: Array, table: Array, reading: Reading) -> Array:
    """The offset is subtracted: minus what -acc gives, because rounding is symmetric about 0."""
    return np.clip(-rounded(-acc, table, reading), -128, 127).astype(np.int8)


def by_row(acc: Array, table: Array, reading: Reading) -> Array:
    """Table entry m % C for all channels of row m."""
    entries = table[:, np.arange(len(acc)) % table.shape[1]]
    return requantise(np.ascontiguousarray(acc.T), entries, reading).T


def past_edge(side: str, spare: int) -> Spoil:
    """Replaces img2col's zeros past one edge of the feature map by what its memory holds, read as a ring.

    The lowest `spare` rows of the image in L1 are zeros past its bottom edge.
    """

    def spoil(values: Mapping[str, Any], result: Tile) -> None:
        window = window_in(values)
        (rows, width), (top, _, left, _) = window.image, window.padding
        height = rows - spare
        (count, depth), first = values["shape"], values["pos_m"]
        position_row, position_column = np.divmod(np.arange(first, first + count), window.out[1])
        image, unfolded = values["tile"].data, result.data
        parts = groups(window, first, count, values["pos_k"], depth)
        for group, (plane, (down, across), _, _) in enumerate(parts):
            row = position_row * window.stride[0] - top + down
            column = position_column * window.stride[1] - left + across
            past = {"top": row < 0, "bottom": row >= height, "left": column < 0, "right": column >= width}
            read = past.pop(side) & ~np.logical_or.reduce(list(past.values()))
            pixels = (row * width + column)[read] % (height * width)
            unfolded[read, group * FRACTAL_DEPTH : (group + 1) * FRACTAL_DEPTH] = image[plane, pixels]

    return spoil


MapChange = Callable[[Array], None]
"""Changes a feature map [C1, rows, C0] in place."""


def whole_map(change: MapChange, pixels: int) -> Spoil:
    """Changes conv2's feature map in L1 once the operator that fills it has written all its `pixels`."""

    def spoil(values: Mapping[str, Any], result: Tile) -> None:
        written = None
        if "acc" in values:
            (row, column), (_, columns) = values["offsets"], values["acc"].data.shape
            written = row + values["acc"].valid, column + columns
        if written in (None, (pixels, result.resident.type.shape[1])):
            change(result.data)

    return spoil


def nz_as_nd(data: Array) -> None:
    """NZ bytes read as ND."""
    planes, rows, depth = data.shape
    data[:] = data.reshape(rows, planes, depth).transpose(1, 0, 2).copy()


def nd_as_nz(data: Array) -> None:
    """ND bytes read as NZ."""
    data[:] = data.transpose(1, 0, 2).copy().reshape(data.shape)


def rotate_planes(data: Array) -> None:
    """C1 plane p holds plane p + 1."""
    data[:] = np.roll(data, -1, axis=0)


def stale_rows(rows: int, width: int) -> MapChange:
    """The first rows of every map, of so many pixels each, are those of the first map."""
    pixels = rows * width
    first: list[Array] = []

    def change(data: Array) -> None:
        if first:
            data[:, :pixels] = first[0]
        else:
            first.append(data[:, :pixels].copy())

    return change
