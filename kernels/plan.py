"""How a conv pair is tiled: bands of output rows, ACC tiles of whole rows, K steps.

The pieces that the plans of all workloads share are here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Protocol, TypeVar

from golden.errors import UserError
from golden.geometry import C0, FRACTAL_ROWS, Conv, Geometry

LONGEST_STEP = 64
"""K in one step of a convolution that reads x, if its whole K is a multiple of this."""

_IMAGE_LIMIT = 2**16

MAX_PLANES = 4
"""The most C1 planes that pass1 can keep, each as a tile."""


class PlanError(UserError):
    """A geometry cannot be tiled; the message names the rule and the numbers."""


@dataclass(frozen=True)
class Limits:
    """Capacities in bytes of the memories a plan must respect."""

    l1: int
    l0a: int
    l0b: int
    l0c: int
    bias: int
    fixpipe: int


@dataclass(frozen=True)
class Window:
    """The input rows that some output rows of a convolution read, as img2col sees them.

    `rows` input rows from `row`, with `padding` (top, bottom, left, right) around them; the first of the
    wanted output rows is number `skip` of the padded image.
    """

    row: int
    rows: int
    padding: tuple[int, int, int, int]
    skip: int


@dataclass(frozen=True)
class Band:
    """One band: `rows` output rows from `row`, the mid rows that they read, the x rows that those read."""

    row: int
    rows: int
    mid: Window
    x: Window


@dataclass(frozen=True)
class Tile:
    """An ACC tile of `rows` image rows (`positions` = rows * width), with `steps` K steps of size `step`."""

    rows: int
    positions: int
    step: int
    steps: int


@dataclass(frozen=True)
class ConvShape:
    """One convolution of a plan as its tile programs see it.

    `width` is the image's columns, `channels` the output's; `kernel` and `stride` are (rows, columns).
    """

    width: int
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]


def conv_shape(conv: Conv, width: int, channels: int) -> ConvShape:
    """The shape of a square convolution of an image of `width` columns to `channels` channels."""
    return ConvShape(width, channels, (conv.kernel, conv.kernel), (conv.stride, conv.stride))


@dataclass(frozen=True)
class Plan:
    """A tiled geometry. `bands` cut y for fused and pass2; `pass1` cuts mid, each (row, rows, x window)."""

    geometry: Geometry
    band_rows: int
    bands: tuple[Band, ...]
    pass1: tuple[tuple[int, int, Window], ...]
    conv1: Tile
    conv2: Tile

    @property
    def planes(self) -> int:
        """C1 planes of x."""
        return self.geometry.cin // C0

    @property
    def shape1(self) -> ConvShape:
        """The first convolution."""
        return conv_shape(self.geometry.conv1, self.geometry.width, self.geometry.cmid)

    @property
    def shape2(self) -> ConvShape:
        """The second convolution."""
        return conv_shape(self.geometry.conv2, self.geometry.mid_width, self.geometry.cout)


def window(conv: Conv, row: int, rows: int, size: int, held: int) -> Window:
    """The window that output rows `row .. row + rows` read, from a buffer of `held` of the `size` input rows.

    At the image's edges the buffer is shifted so that it stays inside; `skip` is then the first wanted row.
    If the shift is not a multiple of the stride, padding above brings the windows back into step; no wanted
    window reads it.
    """
    first = row * conv.stride - conv.padding
    end = (row + rows - 1) * conv.stride - conv.padding + conv.kernel
    start = min(max(first, 0), size - held)
    shift = first - start
    top = -shift if shift < 0 else -shift % conv.stride
    bottom = max(0, end - start - held)
    return Window(start, held, (top, bottom, conv.padding, conv.padding), (shift + top) // conv.stride)


def make_plan(geometry: Geometry, limits: Limits) -> Plan:
    """Tile a geometry.

    A tile has the fewest whole rows whose positions are a multiple of 16. Bands are as high as the memories
    allow; a height that divides the image evenly is preferred if it is at least half of that.

    Raises:
        PlanError: no band height fits; the message gives the rule that the smallest one breaks.
    """
    return highest_bands(
        geometry.out_height, geometry.out_width, lambda band_rows: tile_bands(geometry, limits, band_rows)
    )


class Banded(Protocol):
    """A plan in bands of `band_rows` output rows."""

    @property
    def band_rows(self) -> int:
        """Output rows of every band but a shorter last one."""


BandedPlan = TypeVar("BandedPlan", bound=Banded)


def highest_bands(out_height: int, out_width: int, tiled: Callable[[int], BandedPlan]) -> BandedPlan:
    """The plan with the highest bands that `tiled` accepts, or with at least half as high ones, all equal.

    Args:
        out_height: rows of the output image.
        out_width: its columns.
        tiled: makes the plan for bands of a number of rows; raises PlanError if they break a rule.

    Raises:
        PlanError: `tiled` accepts no height; the message is the one about the smallest height.
    """
    unit = row_unit(out_width)
    fitting: list[BandedPlan] = []
    refused = ""
    for band_rows in range(unit, out_height + 1, unit):
        try:
            fitting.append(tiled(band_rows))
        except PlanError as error:
            refused = refused or str(error)
    if not fitting:
        raise PlanError(refused or f"{out_height} output rows are fewer than the {unit} of a tile")
    highest = fitting[-1].band_rows
    even = [plan for plan in fitting if out_height % plan.band_rows == 0]
    return even[-1] if even and even[-1].band_rows * 2 >= highest else fitting[-1]


def tile_bands(geometry: Geometry, limits: Limits, band_rows: int) -> Plan:
    """Tile a geometry in bands of a given height.

    Raises:
        PlanError: the height, or a size that follows from it, breaks a rule.
    """
    check_band_rows(band_rows, geometry.out_height)
    plan = Plan(
        geometry,
        band_rows,
        tuple(_bands(geometry, band_rows)),
        tuple(_pass1_bands(geometry, band_rows)),
        acc_tile(geometry.mid_width, geometry.depth1, LONGEST_STEP),
        acc_tile(geometry.out_width, geometry.depth2, C0),
    )
    _check_rows(plan)
    _check_uniform(plan)
    _check_memories(plan, limits)
    return plan


def check_band_rows(band_rows: int, out_height: int) -> None:
    """Refuse bands that are higher than the output.

    Raises:
        PlanError: `band_rows` is more than the `out_height` rows of the output.
    """
    if band_rows > out_height:
        raise PlanError(f"band_rows is {band_rows}: the output has {out_height} rows")


def row_unit(width: int) -> int:
    """The fewest rows of an image of `width` columns whose positions are whole fractals.

    Positions (M) must be whole fractals; so must the rows of an L1 tile and the pixels of an img2col image.
    """
    return FRACTAL_ROWS // gcd(FRACTAL_ROWS, width)


def acc_tile(width: int, depth: int, longest: int) -> Tile:
    """The smallest ACC tile of whole rows of `width` columns; K steps are `longest` if possible, else C0."""
    rows = row_unit(width)
    step = longest if depth % longest == 0 else C0
    return Tile(rows, rows * width, step, depth // step)


def _bands(geometry: Geometry, band_rows: int) -> Iterator[Band]:
    """Bands of y. All read windows of one size, even a shorter last band, so one buffer serves them all."""
    mid_rows = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    for row in range(0, geometry.out_height, band_rows):
        rows = min(band_rows, geometry.out_height - row)
        mid = window(geometry.conv2, row, rows, geometry.mid_height, mid_rows)
        yield Band(row, rows, mid, _x_window(geometry, mid.row, mid_rows, mid_rows))


def rows_read(conv: Conv, rows: int) -> int:
    """Input rows that `rows` output rows read, padding included."""
    return (rows - 1) * conv.stride + conv.kernel


def held_rows(conv: Conv, rows: int, height: int, width: int) -> int:
    """Input rows of a buffer for `rows` output rows: those they read, in whole fractals, or the image."""
    unit = row_unit(width)
    return min(-(-rows_read(conv, rows) // unit) * unit, height)


def _x_window(geometry: Geometry, mid_row: int, mid_rows: int, longest: int) -> Window:
    """The x rows of some mid rows, in a buffer that holds those of `longest` mid rows."""
    held = min(rows_read(geometry.conv1, longest), geometry.height)
    return window(geometry.conv1, mid_row, mid_rows, geometry.height, held)


def _pass1_bands(geometry: Geometry, band_rows: int) -> Iterator[tuple[int, int, Window]]:
    """Bands of mid, each with the rows that a band of y spans, without halo."""
    height = min(band_rows * geometry.conv2.stride, geometry.mid_height)
    for row in range(0, geometry.mid_height, height):
        rows = min(height, geometry.mid_height - row)
        yield row, rows, _x_window(geometry, row, rows, height)


def _check_rows(plan: Plan) -> None:
    geometry = plan.geometry
    for band in plan.bands:
        check_whole("output rows of a band", band.rows, plan.conv2.rows)
        check_whole("mid rows of a band", band.mid.rows, plan.conv1.rows)
        check_image("mid rows x columns of a band", band.mid.rows, geometry.mid_width)
        check_image("x rows x columns of a band", band.x.rows, geometry.width)
    for _, rows, x in plan.pass1:
        check_whole("mid rows of a pass1 band", rows, plan.conv1.rows)
        check_image("x rows x columns of a pass1 band", x.rows, geometry.width)


def check_whole(what: str, rows: int, unit: int) -> None:
    """Refuse rows that are not whole tiles.

    Raises:
        PlanError: they are not a multiple of the `unit` rows of a tile.
    """
    if rows % unit:
        raise PlanError(f"{what}: {rows} is no multiple of the {unit} rows of a tile")


def check_image(what: str, rows: int, columns: int) -> None:
    """Refuse an image that img2col cannot read.

    Raises:
        PlanError: its pixels are not whole fractals, or are more than 16-bit positions can address.
    """
    if rows * columns % FRACTAL_ROWS:
        raise PlanError(f"{what}: {rows} x {columns} is no multiple of {FRACTAL_ROWS}")
    if rows * columns >= _IMAGE_LIMIT:
        raise PlanError(f"{what}: {rows} x {columns} exceeds the 16-bit positions of img2col")


def _check_uniform(plan: Plan) -> None:
    pass1 = [x for _, _, x in plan.pass1]
    for windows in ([band.mid for band in plan.bands], [band.x for band in plan.bands], pass1):
        check_uniform(plan.band_rows, windows)


def check_uniform(band_rows: int, windows: Sequence[Window]) -> None:
    """Check that the bands between the first and the last can be one loop: equal padding, skip and step.

    Raises:
        PlanError: the windows of such bands differ in more than their row.
    """
    if len({(window.padding, window.skip) for window in windows[1:-1]}) > 1:
        raise PlanError(f"bands of {band_rows} rows: padding reaches past the first or last band")


Use = tuple[str, int, int]
"""A memory's name, the bytes of it that a plan needs, and the bytes that it has."""


def staged_bytes(depth: int, channels: int) -> int:
    """L1 bytes that a convolution occupies throughout: filter, bias row (int32) and scale row (uint64)."""
    return (depth + 4 + 8) * channels


def tile_uses(tiles: Sequence[tuple[Tile, int]], limits: Limits) -> Iterator[Use]:
    """The memory uses of the ACC tiles of convolutions; each tile is given with its output channels."""
    wider = max(channels for _, channels in tiles)
    yield "L0A", max(tile.positions * tile.step for tile, _ in tiles), limits.l0a
    yield "L0B", max(tile.step * channels for tile, channels in tiles), limits.l0b
    yield "L0C", 4 * max(tile.positions * channels for tile, channels in tiles), limits.l0c
    yield "the bias table", 4 * wider, limits.bias
    yield "the fixpipe table", 8 * wider, limits.fixpipe


def check_memories(what: str, uses: Sequence[Use]) -> None:
    """Refuse a plan that needs more of a memory than there is.

    Raises:
        PlanError: the message names `what`, the memory, the bytes needed and the bytes that there are.
    """
    for memory, used, limit in uses:
        if used > limit:
            raise PlanError(f"{what} need {used} B of {memory}, which has {limit}")


def _check_memories(plan: Plan, limits: Limits) -> None:
    geometry = plan.geometry
    staged1 = staged_bytes(geometry.depth1, geometry.cmid)
    staged2 = staged_bytes(geometry.depth2, geometry.cout)
    fused = max(
        band.x.rows * geometry.width * geometry.cin + band.mid.rows * geometry.mid_width * geometry.cmid
        for band in plan.bands
    )
    pass1 = max(x.rows * geometry.width * geometry.cin for _, _, x in plan.pass1)
    uses: list[Use] = [
        ("L1", fused + staged1 + staged2, limits.l1),
        ("L1 in pass1", pass1 + staged1, limits.l1),
        *tile_uses([(plan.conv1, geometry.cmid), (plan.conv2, geometry.cout)], limits),
    ]
    check_memories(f"bands of {plan.band_rows} rows", uses)
