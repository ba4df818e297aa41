"""How a conv pair is tiled: bands of output rows, ACC tiles, K steps, blocks of output channels.

The pieces that the plans of all workloads share are here too, and how one is chosen among those that fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd

from golden.geometry import C0, FRACTAL_ROWS, Conv, Geometry
from kernels.choice import Account, Considered, Use, check_memories, search
from kernels.choice import PlanError as PlanError  # what a user's plan raises
from kernels.cost import Rates, Work

LONGEST_STEP = 64
"""K in one step of a convolution that reads x, if its whole K is a multiple of this."""

_IMAGE_LIMIT = 2**16
_PADDING_LIMIT = 2**8

_STORE_COLUMNS = 4095
"""Most columns that one store from L0C takes."""

MAX_PLANES = 4
"""The most C1 planes that pass1 keeps each as a tile; more are gathered into one."""


@dataclass(frozen=True)
class Limits:
    """Capacities in bytes of the memories a plan must respect, and the rates by which plans are compared."""

    l1: int
    l0a: int
    l0b: int
    l0c: int
    bias: int
    fixpipe: int
    rates: Rates = field(default_factory=Rates)


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
class Band:
    """One band: `rows` output rows from `row`, the mid rows that they read, the x rows that those read."""

    row: int
    rows: int
    mid: Window
    x: Window


@dataclass(frozen=True)
class Tile:
    """An ACC tile of `positions` output positions, with `steps` K steps of size `step`.

    It touches `rows` image rows, which are whole if the width allows it. It has `columns` output channels;
    0 stands for all of them. If there are several `slices`, it brings the filter in by as many slices of K.
    If there are `planes`, the feature map comes in too, one of so many C1 planes at a time, each with its
    equal share of the slices.
    """

    rows: int
    positions: int
    step: int
    steps: int
    columns: int = 0
    slices: int = 1
    planes: int = 0

    @property
    def slice(self) -> int:
        """K of a slice of the filter."""
        return self.step * self.steps // self.slices

    def count(self, positions: int) -> int:
        """Tiles that so many positions take."""
        return -(-positions // self.positions)

    def rest(self, positions: int) -> int:
        """Positions that the last of these tiles computes for them; the others of it are never stored."""
        return positions - (self.count(positions) - 1) * self.positions

    def ragged(self, positions: int) -> int:
        """The number of the last tile if it has positions that are not wanted; -1 if all are whole."""
        return -1 if positions % self.positions == 0 else self.count(positions) - 1


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


@dataclass(frozen=True)
class Plan:
    """A tiled geometry. `bands` cut y for fused and pass2; `pass1` cuts mid, each (row, rows, x window).

    If it is `streamed`, filters are not in L1 throughout: each band brings them in by blocks of columns.
    """

    geometry: Geometry
    band_rows: int
    bands: tuple[Band, ...]
    pass1: tuple[tuple[int, int, Window], ...]
    conv1: Tile
    conv2: Tile
    streamed: bool = False

    def __str__(self) -> str:
        return in_words(self.band_rows, streamed=self.streamed)

    @property
    def planes(self) -> int:
        """C1 planes of x."""
        return self.geometry.cin // C0

    @property
    def sliced(self) -> bool:
        """Whether a filter comes in by slices of K."""
        return max(self.conv1.slices, self.conv2.slices) > 1

    @property
    def plain(self) -> bool:
        """Whether pass1 keeps each C1 plane of x as a tile of its own."""
        return self.planes <= MAX_PLANES and not self.streamed and not any(x.spare for _, _, x in self.pass1)

    @property
    def shape1(self) -> ConvShape:
        """The first convolution."""
        return conv_shape(self.geometry.conv1, self.geometry.width, self.conv1.columns or self.geometry.cmid)

    @property
    def shape2(self) -> ConvShape:
        """The second convolution."""
        channels = self.conv2.columns or self.geometry.cout
        return conv_shape(self.geometry.conv2, self.geometry.mid_width, channels)

    @property
    def work(self) -> Work:
        """What the fused program moves and multiplies."""
        geometry, bands = self.geometry, len(self.bands)
        x, mid = self.bands[0].x, self.bands[0].mid
        positions = mid.rows * geometry.mid_width
        work = conv_work(self.conv1, positions, geometry.cmid, to_gm=False) * bands
        work += tables_work(geometry.cmid + geometry.cout) * bands
        loaded = x.rows * geometry.width * geometry.cin * bands
        loaded += filter_bytes(self.conv1, geometry.cmid, [positions] * bands, streamed=self.streamed)
        outs = [band.rows * geometry.out_width for band in self.bands]
        loaded += filter_bytes(self.conv2, geometry.cout, outs, streamed=self.streamed)
        for each in outs:
            work += conv_work(self.conv2, each, geometry.cout, to_gm=True)
        return work + Work(gm_l1=loaded)

    @property
    def two_pass_work(self) -> Work:
        """What pass1 and pass2 move and multiply."""
        geometry, bands, again = self.geometry, len(self.bands), len(self.pass1)
        whole = self.streamed or self.bands[0].mid.spare > 0
        tile1 = self.conv1
        if self.plain:
            tile1 = replace(tile1, step=C0, steps=geometry.depth1 // C0)
        mids = [rows * geometry.mid_width for _, rows, _ in self.pass1]
        outs = [band.rows * geometry.out_width for band in self.bands]
        work = tables_work(geometry.cmid) * (1 if self.plain else again)
        work += tables_work(geometry.cout) * (bands if whole else 1)
        loaded = filter_bytes(tile1, geometry.cmid, mids, streamed=not self.plain)
        loaded += filter_bytes(self.conv2, geometry.cout, outs, streamed=whole)
        for each, (_, _, x) in zip(mids, self.pass1, strict=True):
            work += conv_work(tile1, each, geometry.cmid, to_gm=True)
            loaded += x.rows * geometry.width * geometry.cin
        for each, band in zip(outs, self.bands, strict=True):
            work += conv_work(self.conv2, each, geometry.cout, to_gm=True)
            loaded += band.mid.rows * geometry.mid_width * geometry.cmid
        return work + Work(gm_l1=loaded)

    @property
    def first_tile(self) -> int:
        """Positions of mid that its first ACC tile computes."""
        return min(self.conv1.positions, self.bands[0].mid.rows * self.geometry.mid_width)


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
    top, bottom, left, right = window.padding
    skip = window.skip
    if window.row == 0:
        further = (conv.padding - top) // conv.stride
        top, skip = top + further * conv.stride, skip + further
    if window.row + window.rows == size:
        bottom = max(0, (conv.out_size(size) - 1) * conv.stride - conv.padding + conv.kernel - size)
    return replace(window, padding=(top, bottom, left, right), skip=skip)


def row_unit(width: int) -> int:
    """The fewest rows of an image of `width` columns whose pixels are whole fractals."""
    return FRACTAL_ROWS // gcd(FRACTAL_ROWS, width)


def whole(number: int, unit: int) -> int:
    """The smallest multiple of a unit that is not below a number."""
    return -(-number // unit) * unit


def rows_read(conv: Conv, rows: int) -> int:
    """Input rows that `rows` output rows read, padding included."""
    return (rows - 1) * conv.stride_rows + conv.kernel_rows


def held_rows(conv: Conv, rows: int, height: int, width: int) -> tuple[int, int]:
    """Rows of an image that a buffer holds for `rows` output rows, and rows of zeros that make it whole."""
    held = min(rows_read(conv, rows), height)
    return held, whole(held, row_unit(width)) - held


def acc_tile(
    width: int,
    positions: int,
    depth: int,
    columns: int,
    limits: Limits,
    longest: int,
    *,
    largest: bool = False,
) -> Tile:
    """The ACC tile for a band of `positions` positions, in images of `width` columns.

    There are as many tiles as of the fewest whole rows that are whole fractals, or more if such a tile is too
    large for L0; all are equal, so that the last one has the fewest positions that are not wanted. K steps
    are `longest` if possible, else C0.

    Args:
        width: columns of the output.
        positions: of the highest band.
        depth: K of the convolution.
        columns: output channels of a tile.
        limits: of the memories.
        longest: the longest step.
        largest: whether tiles are as large as L0 allows.
    """
    step = longest if depth % longest == 0 else C0
    most = min(limits.l0a // step, limits.l0c // (4 * columns)) // FRACTAL_ROWS * FRACTAL_ROWS
    size = max(most if largest else min(row_unit(width) * width, most), FRACTAL_ROWS)
    count = -(-positions // size)
    tile = whole(-(-positions // count), FRACTAL_ROWS)
    return Tile(-(-tile // width), tile, step, depth // step)


def map_part(what: str, rows: int, columns: int, channels: int) -> tuple[str, int]:
    """A feature map in L1, in words, and its bytes."""
    return f"{what} of {rows} x {columns} pixels x {channels} channels", rows * columns * channels


def staged_parts(depth: int, columns: int, suffix: str = "") -> list[tuple[str, int]]:
    """What L1 holds of a convolution: its filter, its rows of biases (int32) and table entries (uint64)."""
    name = f"filter{suffix} of {depth} x {columns}"
    return [(name, depth * columns), (f"bias and scale rows{suffix}", 12 * columns)]


def tile_uses(tiles: Sequence[Tile], limits: Limits) -> Iterator[Use]:
    """The memory uses of the ACC tiles of convolutions, each with its `columns`."""
    wider = max(tile.columns for tile in tiles)

    def of(memory: str, limit: int, sizes: Sequence[int]) -> Use:
        return Use(memory, (("an ACC tile", max(sizes)),), limit)

    yield of("L0A", limits.l0a, [tile.positions * tile.step for tile in tiles])
    yield of("L0B", limits.l0b, [tile.step * tile.columns for tile in tiles])
    yield of("L0C", limits.l0c, [4 * tile.positions * tile.columns for tile in tiles])
    yield Use("the bias table", ((f"biases of {wider} channels", 4 * wider),), limits.bias)
    yield Use("the fixpipe table", ((f"entries of {wider} channels", 8 * wider),), limits.fixpipe)


def check_image(what: str, rows: int, columns: int) -> None:
    """Refuse an image with more pixels than the 16-bit positions of img2col can address.

    Raises:
        PlanError: so it is.
    """
    if rows * columns >= _IMAGE_LIMIT:
        raise PlanError(f"{what}: {rows} x {columns} exceeds the 16-bit positions of img2col")


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
    if (last := tile.step * (tile.steps - 1)) >= _IMAGE_LIMIT:
        raise PlanError(f"{what}: the position {last} in K exceeds the 16 bits of img2col")


def check_uniform(band_rows: int, windows: Sequence[Window]) -> None:
    """Check that the bands between the first and the last can be one loop: equal padding, skip and step.

    Raises:
        PlanError: the windows of such bands differ in more than their row.
    """
    if len({(window.padding, window.skip) for window in windows[1:-1]}) > 1:
        raise PlanError(f"bands of {band_rows} rows: padding reaches past the first or last band")


def check_band_rows(band_rows: int, out_height: int) -> None:
    """Refuse bands that are higher than the output.

    Raises:
        PlanError: `band_rows` is more than the `out_height` rows of the output.
    """
    if band_rows > out_height:
        raise PlanError(f"band_rows is {band_rows}: the output has {out_height} rows")


def blocks_of(channels: int) -> list[int]:
    """Numbers of channels that cut an output into equal blocks of whole C0, the most first."""
    return [size for size in range(min(channels, _STORE_COLUMNS), 0, -1) if size % C0 == channels % size == 0]


def streamed_tile(
    room: int, limits: Limits, width: int, positions: int, depth: int, channels: int, longest: int
) -> Tile:
    """The ACC tile of a convolution whose filter is streamed.

    It has the widest block of output channels of which the filter fits. If none fits, the filter comes in by
    slices of K too, for each ACC tile anew; then tiles are as large as L0 allows, and the block is taken that
    is estimated to take the fewest cycles.

    Args:
        room: bytes of L1 beside the feature maps.
        limits: of the memories.
        width: columns of the output.
        positions: of the highest band.
        depth: K of the convolution.
        channels: of the output.
        longest: the longest K step.
    """

    def made(columns: int, *, largest: bool) -> Tile:
        tile = acc_tile(width, positions, depth, columns, limits, longest, largest=largest)
        return replace(tile, columns=columns)

    def fits(tile: Tile) -> bool:
        return all(use.needed <= use.limit for use in tile_uses([tile], limits))

    def cycles(tile: Tile) -> float:
        loaded = Work(gm_l1=tile.count(positions) * depth * channels)
        return (conv_work(tile, positions, channels, to_gm=True) + loaded).cycles(limits.rates)

    sliced = []
    for columns in blocks_of(channels):
        tile = made(columns, largest=False)
        if (depth + 12) * columns <= room and fits(tile):
            return tile
        tile = made(columns, largest=True)
        cuts = (number for number in range(2, tile.steps + 1) if tile.steps % number == 0)
        slices = next((each for each in cuts if (depth // each + 12) * columns <= room), 0)
        if slices and fits(tile):
            sliced.append(replace(tile, slices=slices))
    return min(sliced, key=cycles, default=replace(tile, slices=tile.steps))


def conv_work(tile: Tile, positions: int, channels: int, *, to_gm: bool) -> Work:
    """The work of a convolution of so many positions and output channels, what is loaded from GM apart."""
    columns = tile.columns or channels
    tiles = tile.count(positions) * (channels // columns)
    matmuls, stored = tiles * tile.steps, positions * channels
    return Work(
        l1_l0a=matmuls * tile.positions * tile.step,
        l1_l0b=matmuls * tile.step * columns,
        l0c_l1=0 if to_gm else stored,
        l0c_gm=stored if to_gm else 0,
        matmuls=matmuls,
        fractals=matmuls * (tile.positions // FRACTAL_ROWS) * (tile.step // C0) * (columns // FRACTAL_ROWS),
    )


def filter_bytes(tile: Tile, channels: int, bands: Sequence[int], *, streamed: bool) -> int:
    """Bytes that are loaded of a filter and its rows for bands of so many positions each."""
    depth = tile.step * tile.steps
    if not streamed:
        return (depth + 12) * channels
    times = sum(map(tile.count, bands)) if tile.slices > 1 else len(bands)
    return (times * depth + len(bands) * 12) * channels


def tables_work(channels: int) -> Work:
    """The work of bringing biases and table entries of so many channels into their tables."""
    return Work(l1_tables=12 * channels)


def make_plan(geometry: Geometry, limits: Limits, band_rows: int | None = None) -> Plan:
    """Tile a geometry by the cheapest plan that fits (see `cheapest`, and `acc_tile` for its tiles).

    Args:
        geometry: what to tile.
        limits: of the memories.
        band_rows: output rows of a band, if only such plans are wanted.

    Raises:
        PlanError: no plan fits; the message is about the one that is nearest to fitting.
    """
    return considered(geometry, limits, band_rows).best


@lru_cache(maxsize=32)
def considered(geometry: Geometry, limits: Limits, band_rows: int | None = None) -> Considered[Plan]:
    """All plans that fit; arguments and errors as of `make_plan`."""

    def tiled(shapes: Geometry, rows: int, streamed: bool) -> Plan:
        return tile_bands(shapes, limits, rows, streamed)

    return search(geometry, limits.rates, tiled, band_rows, ("width", "cin", "cmid", "cout"))


def account(geometry: Geometry, limits: Limits, band_rows: int | None = None) -> Account:
    """The plan of a geometry in words and numbers; arguments and errors as of `make_plan`."""
    found = considered(geometry, limits, band_rows)
    plan = found.best
    mid, x = plan.bands[0].mid, plan.bands[0].x
    facts = {
        "bands": f"{len(plan.bands)} of {plan.band_rows} output rows, with {mid.rows} rows of mid and "
        f"{x.rows} of x",
        "conv1": tile_in_words(plan.conv1, geometry.cmid),
        "conv2": tile_in_words(plan.conv2, geometry.cout),
        "filters": "streamed: each band brings them in" if plan.streamed else "in L1 throughout",
    }
    uses = tuple(_tiles(geometry, limits, plan.band_rows, plan.streamed)[2])
    works = {"fused": plan.work, "two-pass": plan.two_pass_work}
    return Account(facts, uses, works, found.others(limits.rates), str(found.refused or ""))


def in_words(band_rows: int, *, streamed: bool) -> str:
    """A plan in short."""
    return f"bands of {band_rows} rows{', filters streamed' if streamed else ''}"


def tile_in_words(tile: Tile, channels: int) -> str:
    """An ACC tile and its K loop."""
    return (
        f"ACC tiles of {tile.positions} positions x {tile.columns or channels} of {channels} channels, "
        f"{tile.steps} K steps of {tile.step}"
        + (f", the filter in {tile.slices} slices of K" if tile.slices > 1 else "")
    )


def tile_bands(geometry: Geometry, limits: Limits, band_rows: int, streamed: bool = False) -> Plan:
    """Tile a geometry in bands of a given height.

    Raises:
        PlanError: the height, or a size that follows from it, breaks a rule.
    """
    check_band_rows(band_rows, geometry.out_height)
    conv1, conv2, uses = _tiles(geometry, limits, band_rows, streamed)
    check_memories(in_words(band_rows, streamed=streamed), uses)
    plan = Plan(
        geometry,
        band_rows,
        tuple(_bands(geometry, band_rows)),
        tuple(_pass1_bands(geometry, band_rows)),
        conv1,
        conv2,
        streamed,
    )
    _check_rows(plan)
    _check_uniform(plan)
    return plan


def _tiles(
    geometry: Geometry, limits: Limits, band_rows: int, streamed: bool
) -> tuple[Tile, Tile, list[Use]]:
    """The ACC tiles of both convolutions for bands of a height, and what programs need of the memories."""
    mid_rows, mid_spare = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    pass1_rows = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)

    def map_of(rows: int) -> tuple[str, int]:
        held = sum(held_rows(geometry.conv1, rows, geometry.height, geometry.width))
        return map_part("x", held, geometry.width, geometry.cin)

    x, pass1_x = map_of(mid_rows), map_of(pass1_rows)
    mid = map_part("mid", mid_rows + mid_spare, geometry.mid_width, geometry.cmid)

    def first(columns: int) -> Tile:
        positions = mid_rows * geometry.mid_width
        return acc_tile(geometry.mid_width, positions, geometry.depth1, columns, limits, LONGEST_STEP)

    def second(columns: int) -> Tile:
        positions = band_rows * geometry.out_width
        return acc_tile(geometry.out_width, positions, geometry.depth2, columns, limits, C0)

    if streamed:
        beside = max(x[1] + mid[1], pass1_x[1])
        tile1 = streamed_tile(
            limits.l1 - beside,
            limits,
            geometry.mid_width,
            mid_rows * geometry.mid_width,
            geometry.depth1,
            geometry.cmid,
            LONGEST_STEP,
        )
        tile2 = streamed_tile(
            limits.l1 - mid[1],
            limits,
            geometry.out_width,
            band_rows * geometry.out_width,
            geometry.depth2,
            geometry.cout,
            C0,
        )
        block1, block2 = (
            staged_parts(tile.slice, tile.columns, number) for tile, number in ((tile1, "1"), (tile2, "2"))
        )
        uses = [
            Use("L1", (x, mid, *block1), limits.l1),
            Use("L1 in pass1", (pass1_x, *block1), limits.l1),
            Use("L1 in conv2", (mid, *block2), limits.l1),
            *tile_uses([tile1, tile2], limits),
        ]
        return tile1, tile2, uses
    tile1, tile2 = first(geometry.cmid), second(geometry.cout)
    staged1 = staged_parts(geometry.depth1, geometry.cmid, "1")
    staged2 = staged_parts(geometry.depth2, geometry.cout, "2")
    wide = [replace(tile1, columns=geometry.cmid), replace(tile2, columns=geometry.cout)]
    uses = [
        Use("L1", (x, mid, *staged1, *staged2), limits.l1),
        Use("L1 in pass1", (pass1_x, *staged1), limits.l1),
        *tile_uses(wide, limits),
    ]
    return tile1, tile2, uses


def _bands(geometry: Geometry, band_rows: int) -> Iterator[Band]:
    """Bands of y. All read windows of one size, even a shorter last band, so one buffer serves them all."""
    held, spare = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    for row in range(0, geometry.out_height, band_rows):
        rows = min(band_rows, geometry.out_height - row)
        mid = window(geometry.conv2, row, rows, geometry.mid_height, held, spare)
        yield Band(row, rows, mid, _x_window(geometry, mid.row, held, held))


def _x_window(geometry: Geometry, mid_row: int, mid_rows: int, longest: int) -> Window:
    """The x rows of some mid rows, in a buffer that holds those of `longest` mid rows."""
    held, spare = held_rows(geometry.conv1, longest, geometry.height, geometry.width)
    return window(geometry.conv1, mid_row, mid_rows, geometry.height, held, spare)


def _pass1_bands(geometry: Geometry, band_rows: int) -> Iterator[tuple[int, int, Window]]:
    """Bands of mid, each with the rows that a band of y spans, without halo."""
    height = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)
    for row in range(0, geometry.mid_height, height):
        rows = min(height, geometry.mid_height - row)
        yield row, rows, _x_window(geometry, row, rows, height)


def _check_rows(plan: Plan) -> None:
    for band in plan.bands:
        check_unfolded("mid", plan.shape2, band.mid, plan.conv2, band.rows)
        check_unfolded("x", plan.shape1, band.x, plan.conv1, band.mid.rows)
    for _, rows, x in plan.pass1:
        check_unfolded("x", plan.shape1, x, plan.conv1, rows)


def _check_uniform(plan: Plan) -> None:
    pass1 = [x for _, _, x in plan.pass1]
    for windows in ([band.mid for band in plan.bands], [band.x for band in plan.bands], pass1):
        check_uniform(plan.band_rows, windows)
