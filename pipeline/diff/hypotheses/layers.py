"""A convolution as a tile program computes it: bands, the buffer each reads, tiles, weights, requantisation.

Written from the specification and `kernels.windows`, in index arithmetic, so that any few positions of an
output can be computed alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from golden import chain, vreq8
from golden.geometry import C0
from golden.specs import Int8, Int32
from kernels.windows import Window
from workloads.form import Convolution, Loading

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

OUTSIDE = -1
"""Index of a pixel outside the image: buffers end with a row of zeros."""

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
        form: its bands, ACC tile and K loop.
        image: what it must read, NHWC rows int8 [pixels, Cin].
        filter: integers [K, Cout], K in the order of img2col.
        bias: int32 [1, Cout].
        scales, offsets: fp32 and integers [Cout], not packed.
        variant: how it requantises.
    """

    form: Convolution
    image: Int8
    filter: npt.NDArray[np.integer]
    bias: Int32
    scales: Floats
    offsets: Ints
    variant: str

    @property
    def number(self) -> int:
        """Its place in the workload's chain, from 1."""
        return self.form.number

    @property
    def shapes(self) -> chain.Layer:
        """Its kernel, and the sizes of its images."""
        return self.form.layer

    @property
    def loads(self) -> list[Window]:
        """What each part loads of the image."""
        return [part.window for part in self.form.parts]

    @cached_property
    def start(self) -> Ints:
        """First site of each part, and one beyond the last."""
        return np.cumsum([0, *self.form.sizes], dtype=np.int64)

    @cached_property
    def base(self) -> Ints:
        """First pixel of each part's buffer, and one beyond the last."""
        return np.cumsum([0, *(load.held for load in self.loads)], dtype=np.int64) * self.shapes.width

    @cached_property
    def scale(self) -> Floats:
        """The scales as the variant packs them, fp32 [Cout]."""
        return vreq8.unpack(vreq8.pack(self.scales, np.zeros_like(self.offsets), variant=self.variant)).scale

    def buffers(self, loads: Sequence[Window]) -> Ints:
        """Row of the whole image of every pixel of the buffers, where the parts load this.

        It is `OUTSIDE` for the rows of zeros under what is loaded.
        """
        width = self.shapes.width
        return np.concatenate(
            [
                each
                for load in loads
                for each in (
                    np.arange(load.row * width, (load.row + load.rows) * width),
                    np.full(load.spare * width, OUTSIDE),
                )
            ]
        )

    def filled(self, image: Int8, loads: Sequence[Window]) -> Int8:
        """What the buffers hold, int8 [pixels + 1, Cin], if parts load this of an image."""
        return with_zeros(with_zeros(image)[self.buffers(loads)])

    @cached_property
    def held(self) -> Int8:
        """What the buffers must hold, int8 [pixels + 1, Cin]."""
        return self.filled(self.image, self.loads)

    @cached_property
    def handed_over(self) -> Ints:
        """For every pixel of the buffers, the site of the layer before that gives it; in L1 one for one.

        It is `OUTSIDE` for the rows of zeros under them, which no window that is wanted reads.
        """
        if self.form.loading is not Loading.IN_L1:
            return self.buffers(self.loads)
        sites = self.buffers(self.loads)
        real = sites != OUTSIDE
        sites[real] = np.arange(real.sum())
        return sites

    def split(self, sites: Ints) -> tuple[Ints, Ints]:
        """Part of each site, and its position within the part."""
        part = np.searchsorted(self.start, sites, side="right") - 1
        return part, sites - self.start[part]

    def tiles(self, sites: Ints) -> Ints:
        """The ACC tile of each site, counted from 0 through all parts."""
        part, position = self.split(sites)
        tiles = -(-np.diff(self.start) // self.form.tile.positions)
        first: Ints = np.cumsum([0, *tiles])[part]
        return first + position // self.form.tile.positions

    def taps(self, sites: Ints, stride: tuple[int, int] | None = None) -> tuple[Ints, Ints, Ints]:
        """Part [sites, 1], buffer row and buffer column [sites, taps] of each tap of each site's window.

        The window is that of the site's position among those of its part; with another stride (rows, columns)
        than the right one, these wrap at another width.
        """
        part, position = self.split(sites)
        conv = self.shapes.conv
        stride_rows, stride_columns = stride or (conv.stride_rows, conv.stride_columns)
        top, _, left, right = np.array([load.padding for load in self.loads])[part].T
        width = (self.shapes.width + left + right - conv.kernel_columns) // stride_columns + 1
        position = position + np.array([load.skip for load in self.loads])[part] * self.shapes.out_width
        down, across = np.divmod(np.arange(conv.taps), conv.kernel_columns)
        return (
            part[:, None],
            (position // width * stride_rows - top)[:, None] + down,
            (position % width * stride_columns - left)[:, None] + across,
        )

    def held_rows(self, part: Ints) -> Ints:
        """How many image rows the buffers of parts hold."""
        return np.array([load.rows for load in self.loads])[part]

    def pixels(self, part: Ints, row: Ints, column: Ints) -> Ints:
        """Pixels by row and column of their part's buffer; `OUTSIDE` where there is none."""
        width = self.shapes.width
        inside = (row >= 0) & (row < self.held_rows(part)) & (column >= 0) & (column < width)
        return np.where(inside, self.base[part] + row * width + column, OUTSIDE)

    def windows(self, sites: Ints, stride: tuple[int, int] | None = None) -> Ints:
        """Pixel of each tap of each site's window, [sites, taps]; by default with the right stride."""
        return self.pixels(*self.taps(sites, stride))

    def sums(self, held: Int8, windows: Ints) -> Int32:
        """Sums without bias, int32 [sites, Cout]: windows of what buffers hold, [pixels, C], x filter.

        Exact: summed in fp32 as far as it holds every partial sum, then in integers.
        """
        planes = held.reshape(len(held), -1, C0)
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


def saturated(rounded: vreq8.Floats) -> Int8:
    """Rounded values to int8."""
    return np.clip(rounded, -128, 127).astype(np.int8)


def with_zeros(rows: Int8) -> Int8:
    """Rows with the zero row at the end that `OUTSIDE` reads."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def reordered(matrix: Int8, rows: int, *, nz_as_nd: bool) -> Int8:
    """A matrix [R, C], every `rows` rows of which lie in NZ order and are read as ND, or the reverse.

    In NZ order the blocks of C0 elements of a matrix lie as [C/C0][rows], in ND as [rows][C/C0].
    """
    across = matrix.shape[1] // C0
    shape = (-1, rows, across, C0) if nz_as_nd else (-1, across, rows, C0)
    return np.ascontiguousarray(matrix.reshape(shape).swapaxes(1, 2)).reshape(matrix.shape)
