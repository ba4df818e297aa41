"""How a geometry is tiled: bands of output rows, ACC tiles of whole rows, K steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from golden.errors import UserError
from golden.geometry import C0, Conv, Geometry

_POSITIONS = 16
"""Positions (M) come in fractals of 16 rows; so do the rows of an L1 tile and an img2col image."""

_LONGEST_STEP = 64
_IMAGE_LIMIT = 2**16

MAX_PLANES = 4
"""C1 planes that pass1 keeps as tiles of their own."""


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
    """One band: `rows` output rows from `row`, the mid rows they read, the x rows those read."""

    row: int
    rows: int
    mid: Window
    x: Window


@dataclass(frozen=True)
class Tile:
    """An ACC tile of `rows` image rows (`positions` = rows * width), its K loop `steps` times `step`."""

    rows: int
    positions: int
    step: int
    steps: int


@dataclass(frozen=True)
class Plan:
    """A tiled geometry. `bands` cut y for fused and pass2; `pass1` cuts mid: (row, rows, x window) a band."""

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


def window(conv: Conv, row: int, rows: int, size: int, held: int) -> Window:
    """The window that output rows `row .. row + rows` read, from a buffer of `held` of the `size` input rows.

    At the image's edges the buffer is shifted so that it stays inside; `skip` finds the first wanted row.
    Where the shift is no multiple of the stride, padding above brings the windows back into step; no wanted
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

    Tiles are the fewest whole rows whose positions are a multiple of 16. Bands are as high as the memories
    allow; a height that divides the image evenly is preferred down to half of that.

    Raises:
        PlanError: no band height fits; the message gives the rule that the smallest one breaks.
    """
    unit = _row_unit(geometry.out_width)
    fitting: list[Plan] = []
    refused = ""
    for band_rows in range(unit, geometry.out_height + 1, unit):
        try:
            fitting.append(tile_bands(geometry, limits, band_rows))
        except PlanError as error:
            refused = refused or str(error)
    if not fitting:
        fewer = f"{geometry.out_height} output rows are fewer than the {unit} of a tile"
        raise PlanError(refused or fewer)
    highest = fitting[-1].band_rows
    even = [plan for plan in fitting if geometry.out_height % plan.band_rows == 0]
    return even[-1] if even and even[-1].band_rows * 2 >= highest else fitting[-1]


def tile_bands(geometry: Geometry, limits: Limits, band_rows: int) -> Plan:
    """Tile a geometry in bands of a given height.

    Raises:
        PlanError: the height, or what it implies, breaks a rule.
    """
    plan = Plan(
        geometry,
        band_rows,
        tuple(_bands(geometry, band_rows)),
        tuple(_pass1_bands(geometry, band_rows)),
        _tile(geometry.mid_width, geometry.depth1, _LONGEST_STEP),
        _tile(geometry.out_width, geometry.depth2, C0),
    )
    _check_rows(plan)
    _check_uniform(plan)
    _check_memories(plan, limits)
    return plan


def _row_unit(width: int) -> int:
    return _POSITIONS // gcd(_POSITIONS, width)


def _tile(width: int, depth: int, longest: int) -> Tile:
    rows = _row_unit(width)
    step = longest if depth % longest == 0 else C0
    return Tile(rows, rows * width, step, depth // step)


def _bands(geometry: Geometry, band_rows: int) -> Iterator[Band]:
    """Bands of y. All read windows of one size, also a shorter last band: one buffer serves them all."""
    unit = _row_unit(geometry.mid_width)
    halo = (band_rows - 1) * geometry.conv2.stride + geometry.conv2.kernel
    mid_rows = min(-(-halo // unit) * unit, geometry.mid_height)
    for row in range(0, geometry.out_height, band_rows):
        rows = min(band_rows, geometry.out_height - row)
        mid = window(geometry.conv2, row, rows, geometry.mid_height, mid_rows)
        yield Band(row, rows, mid, _x_window(geometry, mid.row, mid_rows, mid_rows))


def _x_window(geometry: Geometry, mid_row: int, mid_rows: int, longest: int) -> Window:
    """The x rows of some mid rows, in a buffer that holds those of `longest` mid rows."""
    held = min((longest - 1) * geometry.conv1.stride + geometry.conv1.kernel, geometry.height)
    return window(geometry.conv1, mid_row, mid_rows, geometry.height, held)


def _pass1_bands(geometry: Geometry, band_rows: int) -> Iterator[tuple[int, int, Window]]:
    """Bands of mid that hold what a band of y spans, without halo."""
    height = min(band_rows * geometry.conv2.stride, geometry.mid_height)
    for row in range(0, geometry.mid_height, height):
        rows = min(height, geometry.mid_height - row)
        yield row, rows, _x_window(geometry, row, rows, height)


def _check_rows(plan: Plan) -> None:
    geometry = plan.geometry
    for band in plan.bands:
        _whole("output rows of a band", band.rows, plan.conv2.rows)
        _whole("mid rows of a band", band.mid.rows, plan.conv1.rows)
        _image("mid rows x columns of a band", band.mid.rows, geometry.mid_width)
        _image("x rows x columns of a band", band.x.rows, geometry.width)
    for _, rows, x in plan.pass1:
        _whole("mid rows of a pass1 band", rows, plan.conv1.rows)
        _image("x rows x columns of a pass1 band", x.rows, geometry.width)


def _whole(what: str, rows: int, unit: int) -> None:
    if rows % unit:
        raise PlanError(f"{what}: {rows} is no multiple of the {unit} rows of a tile")


def _image(what: str, rows: int, columns: int) -> None:
    if rows * columns % _POSITIONS:
        raise PlanError(f"{what}: {rows} x {columns} is no multiple of {_POSITIONS}")
    if rows * columns >= _IMAGE_LIMIT:
        raise PlanError(f"{what}: {rows} x {columns} passes the 16-bit positions of img2col")


def _check_uniform(plan: Plan) -> None:
    """Bands between the first and the last are one loop: same padding and skip, so a fixed step apart."""
    inner = plan.bands[1:-1]
    pass1 = [x for _, _, x in plan.pass1[1:-1]]
    for windows in ([band.mid for band in inner], [band.x for band in inner], pass1):
        if len({(window.padding, window.skip) for window in windows}) > 1:
            raise PlanError(f"bands of {plan.band_rows} rows: padding reaches past the first or last band")


def _check_memories(plan: Plan, limits: Limits) -> None:
    geometry = plan.geometry
    # Filters, bias rows (int32) and scale rows (uint64) stay all along, beside the widest band's images.
    staged1 = (geometry.depth1 + 4 + 8) * geometry.cmid
    staged2 = (geometry.depth2 + 4 + 8) * geometry.cout
    fused = max(
        band.x.rows * geometry.width * geometry.cin + band.mid.rows * geometry.mid_width * geometry.cmid
        for band in plan.bands
    )
    pass1 = max(x.rows * geometry.width * geometry.cin for _, _, x in plan.pass1)
    wider = max(geometry.cmid, geometry.cout)
    uses = (
        ("L1", fused + staged1 + staged2, limits.l1),
        ("L1 in pass1", pass1 + staged1, limits.l1),
        ("L0A", max(tile.positions * tile.step for tile in (plan.conv1, plan.conv2)), limits.l0a),
        ("L0B", max(plan.conv1.step * geometry.cmid, plan.conv2.step * geometry.cout), limits.l0b),
        (
            "L0C",
            4 * max(plan.conv1.positions * geometry.cmid, plan.conv2.positions * geometry.cout),
            limits.l0c,
        ),
        ("the bias table", 4 * wider, limits.bias),
        ("the fixpipe table", 8 * wider, limits.fixpipe),
    )
    for memory, used, limit in uses:
        if used > limit:
            raise PlanError(f"bands of {plan.band_rows} rows need {used} B of {memory}, which has {limit}")
