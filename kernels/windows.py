"""One convolution in bands of output rows, as img2col sees it: what each reads, and which differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import gcd

from golden.geometry import FRACTAL_ROWS, Conv
from kernels.choice import PlanError
from kernels.tiles import ADDRESSED, Tile, whole

_PADDING_LIMIT = 2**8

Below = tuple[tuple[int, int], ...]
"""Positions of bands, each with the output rows below it that img2col can be asked for."""


@dataclass(frozen=True)
class Window:
    """The input rows that some output rows of a convolution read, as img2col sees them.

    `rows` input rows from `row`, with `padding` (top, bottom, left, right) around them; the first of the
    wanted output rows is number `skip` of the padded image. In L1 `spare` rows of zeros lie under them, so
    that the buffer is made of whole fractals.
    """

    row: int
    rows: int
    padding: tuple[int, int, int, int]
    skip: int
    spare: int = 0

    @property
    def held(self) -> int:
        """Rows of the buffer."""
        return self.rows + self.spare


@dataclass(frozen=True)
class ConvShape:
    """One convolution of a plan as its tile programs see it.

    `width` and `out_width` are the columns of its images, `channels` are the output channels of a tile;
    `kernel` and `stride` are (rows, columns).
    """

    width: int
    out_width: int
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]


def conv_shape(conv: Conv, width: int, channels: int) -> ConvShape:
    """The shape of a convolution of an image of `width` columns to `channels` channels."""
    kernel, stride = (conv.kernel_rows, conv.kernel_columns), (conv.stride_rows, conv.stride_columns)
    return ConvShape(width, conv.out_width(width), channels, kernel, stride)


def unfolded_padding(
    shape: ConvShape, window: Window, tile: Tile, positions: int
) -> tuple[int, int, int, int]:
    """The padding that img2col is given, so that the tiles of so many positions stay in the unfolded image.

    Rows of zeros that lie in the buffer are no padding. Below there is more of it than the windows that are
    wanted read, if the last tile has positions that are not wanted.
    """
    top, bottom, left, right = window.padding
    asked = tile.count(positions) * tile.positions
    further = (asked - 1) // shape.out_width - (positions - 1) // shape.out_width
    return top, max(bottom + further * shape.stride[0] - window.spare, 0), left, right


def window(conv: Conv, row: int, rows: int, size: int, held: int, spare: int = 0) -> Window:
    """The window that output rows `row .. row + rows` read, from a buffer of `held` of the `size` input rows.

    At the image's edges the buffer is shifted so that it stays inside; `skip` is then the first wanted row.
    If the shift is not a multiple of the stride, padding above brings the windows back into step; no wanted
    window reads it.
    """
    above, _, left, right = conv.sides
    first = row * conv.stride_rows - above
    end = (row + rows - 1) * conv.stride_rows - above + conv.kernel_rows
    start = min(max(first, 0), size - held)
    shift = first - start
    top = -shift if shift < 0 else -shift % conv.stride_rows
    bottom = max(0, end - start - held)
    padding = (top, bottom, left, right)
    return Window(start, held, padding, (shift + top) // conv.stride_rows, spare)


def at_edges(conv: Conv, window: Window, size: int) -> Window:
    """The same window with all the padding of the image at the edges of the image that it reaches.

    So do bands that begin at one edge, or end at one, differ in nothing but their `skip`, and one loop can
    compute them all.
    """
    above = conv.sides[0]
    top, bottom, left, right = window.padding
    skip = window.skip
    if window.row == 0:
        further = (above - top) // conv.stride_rows
        top, skip = top + further * conv.stride_rows, skip + further
    if window.row + window.rows == size:
        bottom = max(0, rows_read(conv, conv.out_height(size)) - above - size)
    return replace(window, padding=(top, bottom, left, right), skip=skip)


def rows_read(conv: Conv, rows: int) -> int:
    """Input rows that `rows` output rows read, padding included."""
    return (rows - 1) * conv.stride_rows + conv.kernel_rows


def row_unit(width: int) -> int:
    """The fewest rows of an image of `width` columns whose pixels are whole fractals."""
    return FRACTAL_ROWS // gcd(FRACTAL_ROWS, width)


@lru_cache(maxsize=1024)
def held_rows(conv: Conv, rows: int, height: int, width: int) -> tuple[int, int]:
    """Rows of an image that a buffer holds for `rows` output rows, and rows of zeros under them.

    These make the buffer whole fractals. The last ACC tile also has up to 15 positions that are not wanted:
    where the rows that they read are too many for the padding of img2col, the buffer has them too.
    """
    held = min(rows_read(conv, rows), height)
    further = -(-(FRACTAL_ROWS - 1) // conv.out_width(width)) * conv.stride_rows
    beyond = max(conv.kernel_rows - 1 + further - (_PADDING_LIMIT - 1), 0)
    return held, whole(held + beyond, row_unit(width)) - held


def check_band_rows(band_rows: int, out_height: int) -> None:
    """Refuse bands that are higher than the output.

    Raises:
        PlanError: `band_rows` is more than the `out_height` rows of the output.
    """
    if band_rows > out_height:
        raise PlanError(f"band_rows is {band_rows}: the output has {out_height} rows", option="band_rows")


def counted_bands(height: int, width: int, band_rows: int) -> tuple[tuple[int, int], ...]:
    """Positions of the bands into which an output is cut, and how many have them; the highest first."""
    number, rest = divmod(height, band_rows)
    return ((band_rows * width, number), *(((rest * width, 1),) if rest else ()))


def kinds_of(conv: Conv, out_height: int, band_rows: int, inside: range) -> Iterator[int]:
    """First rows of the bands that differ. All are alike whose input would begin in the rows `inside`."""
    step, above = band_rows * conv.stride_rows, conv.sides[0]
    bands = -(-out_height // band_rows)
    first = max(-(-(above + inside.start) // step), 1)
    last = min((above + inside.stop - 1) // step, bands - 2)
    edges = chain(range(min(first + 1, bands)), range(max(first, last) + 1, bands))
    return (number * band_rows for number in edges)


def rows_below(conv: Conv, width: int, kinds: Iterable[tuple[int, Window]]) -> Below:
    """Positions of bands, each with the output rows below it that img2col can be asked for.

    `kinds` are the output rows of bands, of `width` columns, each with what it reads.
    """
    most = {
        (rows * width, (_PADDING_LIMIT - 1 - window.padding[1] + window.spare) // conv.stride_rows)
        for rows, window in kinds
    }
    return tuple(sorted(most))


def check_image(what: str, rows: int, columns: int) -> None:
    """Refuse an image with more pixels than the 16-bit positions of img2col can address.

    Raises:
        PlanError: so it is.
    """
    if (pixels := rows * columns) >= ADDRESSED:
        raise PlanError(
            f"{what}: {rows} x {columns} exceeds the 16-bit positions of img2col", pixels / (ADDRESSED - 1)
        )


def check_unfolded(what: str, shape: ConvShape, window: Window, tile: Tile, rows: int) -> None:
    """Refuse what img2col cannot be asked for.

    Args:
        what: names the image.
        shape: the convolution.
        window: what a band reads.
        tile: its ACC tile.
        rows: output rows of the band.

    Raises:
        PlanError: the image, its padding, or a position in K is too large.
    """
    check_image(f"{what} rows x columns of a band", window.held, shape.width)
    below = unfolded_padding(shape, window, tile, rows * shape.out_width)[1]
    if below >= _PADDING_LIMIT:
        raise PlanError(f"{what}: {below} rows of padding below a band exceed the 8 bits of img2col")
    planes = max(tile.planes, 1)
    if (last := tile.step * (tile.steps // planes - 1)) >= ADDRESSED:
        depth, (rows, columns) = tile.step * tile.steps // planes, shape.kernel
        raise PlanError(
            f"{what}: windows of {rows} x {columns} pixels have {depth} of K at a time, which exceeds "
            f"the {ADDRESSED} that img2col addresses; a smaller kernel or dilation helps",
            (last + 1) / ADDRESSED,
        )


def check_uniform(band_rows: int, windows: Sequence[Window]) -> None:
    """Check that the bands between the first and the last can be one loop: equal padding, skip and step.

    Raises:
        PlanError: the windows of such bands differ in more than their row.
    """
    if len({(window.padding, window.skip) for window in windows[1:-1]}) > 1:
        raise PlanError(f"bands of {band_rows} rows: padding reaches past the first or last band")
