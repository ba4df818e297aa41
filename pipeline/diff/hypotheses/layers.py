"""A convolution as a tile program computes it: bands, the buffer each reads, tiles, weights, requantisation.

Written from the specification and `kernels.plan`, in index arithmetic, so that any few positions of an output
can be computed alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from golden import vreq8
from golden.geometry import C0, Conv
from golden.specs import Int8, Int32
from kernels.plan import Tile
from workloads.form import Part

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Side = Literal["top", "bottom", "left", "right"]

SIDES: tuple[Side, ...] = ("top", "bottom", "left", "right")
"""Edges of an image, in the order of a padding's numbers."""

OUTSIDE = -1
"""Index of a pixel outside the image: sources end with a row of zeros."""

_EXACT_IN_FP32 = 2**24

_EXACT_DEPTH = 512
"""Products that fp32 sums exactly with any weights, even doubled ones: 512 * 128 * 256 = 2**24."""

_CHUNK = 4096
"""Sites unfolded at a time: bounds the memory of a large geometry."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One convolution of a program.

    Its outputs are numbered by *site*: part by part, row by row. Where parts overlap (the halo of the fused
    kernel's mid) they have sites of their own; where they do not, a site is a row of the output tensor. Its
    inputs are numbered likewise: the pixels of each part's buffer, part by part.

    Attributes:
        number: its place in the workload's chain, from 1.
        conv: kernel and stride.
        parts: the bands, in the order of the image.
        order: places in `parts`, in the order in which the program computes them.
        width: output columns.
        image_width: input columns.
        tile: ACC tile and K loop.
        filter: integers [K, Cout], K in the order of img2col.
        bias: int32 [1, Cout].
        scales, offsets: fp32 and integers [Cout], not packed.
        variant: how it requantises.
    """

    number: int
    conv: Conv
    parts: tuple[Part, ...]
    order: tuple[int, ...]
    width: int
    image_width: int
    tile: Tile
    filter: npt.NDArray[np.integer]
    bias: Int32
    scales: Floats
    offsets: Ints
    variant: str

    @cached_property
    def start(self) -> Ints:
        """First site of each part, and one beyond the last."""
        return np.cumsum([0, *(part.rows * self.width for part in self.parts)], dtype=np.int64)

    @cached_property
    def base(self) -> Ints:
        """First pixel of each part's buffer, and one beyond the last."""
        return np.cumsum([0, *(part.window.rows * self.image_width for part in self.parts)], dtype=np.int64)

    @cached_property
    def scale(self) -> Floats:
        """The scales as the variant packs them, fp32 [Cout]."""
        return vreq8.unpack(vreq8.pack(self.scales, np.zeros_like(self.offsets), variant=self.variant)).scale

    def split(self, sites: Ints) -> tuple[Ints, Ints]:
        """Part of each site, and its position within the part."""
        part = np.searchsorted(self.start, sites, side="right") - 1
        return part, sites - self.start[part]

    def buffers(self) -> Ints:
        """Row of the whole input image (NHWC) of every pixel of the buffers."""
        windows = (part.window for part in self.parts)
        return np.concatenate([_rows(window.row, window.rows, self.image_width) for window in windows])

    def padding(self, side: Side) -> Ints:
        """Padding of every part at a side."""
        return np.array([part.window.padding[SIDES.index(side)] for part in self.parts])

    def taps(self, sites: Ints) -> tuple[Ints, Ints, Ints]:
        """Part [sites, 1], buffer row and buffer column [sites, taps] of each tap of each site's window."""
        part, position = self.split(sites)
        position = position + np.array([part.window.skip for part in self.parts])[part] * self.width
        return self.taps_at(part, position // self.width, position % self.width)

    def taps_at(self, part: Ints, row: Ints, column: Ints) -> tuple[Ints, Ints, Ints]:
        """As `taps`, of windows given by their row and column among the windows of their part."""
        kernel, stride = np.arange(self.conv.kernel), self.conv.stride
        top, left = self.padding("top")[part], self.padding("left")[part]
        return (
            part[:, None],
            (row * stride - top)[:, None] + np.repeat(kernel, kernel.size),
            (column * stride - left)[:, None] + np.tile(kernel, kernel.size),
        )

    def pixels(self, part: Ints, row: Ints, column: Ints) -> Ints:
        """Pixels by row and column of their part's buffer; `OUTSIDE` where there is none."""
        held = np.array([part.window.rows for part in self.parts])[part]
        inside = (row >= 0) & (row < held) & (column >= 0) & (column < self.image_width)
        return np.where(inside, self.base[part] + row * self.image_width + column, OUTSIDE)

    def windows(self, sites: Ints) -> Ints:
        """Pixel of each tap of each site's window, [sites, taps]."""
        return self.pixels(*self.taps(sites))

    def sums(self, source: Int8, windows: Ints) -> Int32:
        """Sums without bias, int32 [sites, Cout]: windows of `source` [pixels, C] x filter.

        Exact: summed in fp32 as far as it holds every partial sum, then in integers.
        """
        planes = source.reshape(len(source), -1, C0)
        weights = self.filter.astype(np.float32)
        largest = 128 * np.abs(weights).sum(axis=0).max()
        depth = len(weights) if largest <= _EXACT_IN_FP32 else _EXACT_DEPTH
        total = np.zeros((len(windows), weights.shape[1]), np.int64)
        for first in range(0, len(windows), _CHUNK):
            taken = planes[windows[first : first + _CHUNK]].transpose(0, 2, 1, 3)
            unfolded = taken.reshape(len(taken), -1).astype(np.float32)
            for k in range(0, len(weights), depth):
                part = unfolded[:, k : k + depth] @ weights[k : k + depth]
                total[first : first + _CHUNK] += part.astype(np.int64)
        return total.astype(np.int32)

    def rounded(self, sums: Int32) -> vreq8.Floats:
        """Bias and requantisation up to, but without, saturation."""
        return vreq8.unsaturated(sums + self.bias, self.scale, self.offsets, self.variant)

    def requantised(self, sums: Int32) -> Int8:
        """Bias and requantisation, int8 [sites, Cout]."""
        return saturated(self.rounded(sums))


def saturated(rounded: vreq8.Floats) -> Int8:
    """Rounded values to int8."""
    return np.clip(rounded, -128, 127).astype(np.int8)


def with_zeros(rows: Int8) -> Int8:
    """Rows with the zero row at the end that `OUTSIDE` reads."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def _rows(row: int, rows: int, width: int) -> Ints:
    return np.arange(row * width, (row + rows) * width)
