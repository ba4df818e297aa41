"""The canvas: mid with its padding, as the flat rows from which conv2's windows are cut by shifting.

With stride 1 the padded image, row after row, is one plane: output row r of a flat output of the same width
needs the rows r + kh*width + kw. With strides, the pixels whose row and column have the same remainders
modulo the strides form a plane of their own, and the same holds within each plane. Each row of the flat
output has a few columns more than the image ("garbage"), which the host drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from golden.geometry import Geometry

if TYPE_CHECKING:
    import numpy.typing as npt

Indices: TypeAlias = "npt.NDArray[np.intp]"


@dataclass(frozen=True)
class Cut:
    """One kernel position of conv2: in `plane`, `shift` rows below the output's own row."""

    plane: int
    shift: int


@dataclass(frozen=True)
class Canvas:
    """The canvas of a geometry.

    Attributes:
        width: flat columns of a plane, in pixels.
        plane_rows: rows of one plane as stored.
        cuts: the kernel positions (kh, kw), kw fastest.
        out_rows: flat output rows, garbage included.
        pixels: canvas row of every mid pixel that a window reads, -1 for the others, in NHWC order.
        kept: flat output rows that are output pixels, in NHWC order.
    """

    width: int
    plane_rows: int
    planes: int
    cuts: tuple[Cut, ...]
    out_rows: int
    pixels: Indices
    kept: Indices

    @property
    def rows(self) -> int:
        """Rows of all planes together."""
        return self.planes * self.plane_rows

    @property
    def reach(self) -> int:
        """Largest shift: rows by which a window's last cut lies below its first."""
        return max(cut.shift for cut in self.cuts)


def canvas_of(geometry: Geometry, step: int = 1, out_step: int = 1) -> Canvas:
    """Lay out the canvas of a geometry's conv2 for equal tiles, none of which straddles two planes.

    Args:
        geometry: the shapes of the pair.
        step: the rows of a plane are a multiple of this.
        out_step: the rows of the flat output are a multiple of this.
    """
    conv = geometry.conv2
    (top, bottom, left, right), down, across = conv.sides, conv.stride_rows, conv.stride_columns
    height = -(-(geometry.mid_height + top + bottom) // down)
    width = -(-(geometry.mid_width + left + right) // across)
    row_phases, phases = min(down, conv.kernel_rows), min(across, conv.kernel_columns)
    cuts = tuple(
        Cut(kh % down * phases + kw % across, kh // down * width + kw // across)
        for kh in range(conv.kernel_rows)
        for kw in range(conv.kernel_columns)
    )
    out_rows = _round_up(geometry.out_height * width, out_step)
    needed = max(height * width, out_rows + max(cut.shift for cut in cuts))

    row, column = np.divmod(np.arange(geometry.mid_height * geometry.mid_width), geometry.mid_width)
    row, column = row + top, column + left
    plane_rows = _round_up(needed, step)
    plane = row % down * phases + column % across
    pixels = plane * plane_rows + row // down * width + column // across
    read = (row % down < row_phases) & (column % across < phases)
    row, column = np.divmod(np.arange(geometry.out_height * geometry.out_width), geometry.out_width)
    return Canvas(
        width=width,
        plane_rows=plane_rows,
        planes=row_phases * phases,
        cuts=cuts,
        out_rows=out_rows,
        pixels=np.where(read, pixels, -1),
        kept=row * width + column,
    )


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
