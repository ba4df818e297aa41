"""How a conv pair is tiled: bands of output rows, ACC tiles, K steps, blocks of output channels.

The pieces that the plans of all workloads share are here too, and how one is chosen among those that fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import inf

from golden.geometry import C0, FRACTAL_ROWS, Conv, Geometry
from kernels.choice import (
    ENDLESS,
    RESIDENT,
    STREAMED,
    TOLD,
    Account,
    Considered,
    Family,
    Streams,
    Use,
    check_memories,
    search,
)
from kernels.choice import PlanError as PlanError  # what a user's plan raises
from kernels.cost import Work
from kernels.tiles import (
    ADDRESSED,
    CHANNEL_BYTES,
    FREE,
    Asked,
    Written,
    cheapest_tile,
    check_step,
    check_written,
    conv_work,
    filter_bytes,
    filter_size,
    least_work,
    map_part,
    map_times,
    resident_tile,
    row_unit,
    staged_parts,
    tables_work,
    tile_in_words,
    tile_uses,
    whole,
)
from kernels.tiles import Limits as Limits  # what a declaration names of a plan
from kernels.tiles import Tile as Tile

_PADDING_LIMIT = 2**8

MAX_PLANES = 4
"""The most C1 planes that pass1 keeps each as a tile; more are gathered into one."""


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
class Tiling:
    """How a geometry is tiled. If it is `streamed`, each band brings the filters in by blocks of columns."""

    geometry: Geometry
    band_rows: int
    conv1: Tile
    conv2: Tile
    streamed: bool

    def __str__(self) -> str:
        return self.streams.in_words(self.band_rows)

    @property
    def streams(self) -> Streams:
        """What L1 does not hold throughout a band."""
        return Streams(self.streamed, self.conv1.planes > 0, self.conv2.planes > 0)

    @property
    def planes(self) -> int:
        """C1 planes of x."""
        return self.geometry.cin // C0

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
        work = Work(gm_l1=0 if self.streamed else _filters(self.geometry))
        for positions, number in _bands_of_y(self.geometry, self.band_rows):
            of_band, again = self._band_work(positions)
            work += (of_band + again) * number
        return work

    def _band_work(self, out: int) -> tuple[Work, Work]:
        """The work of conv2 and of conv1 in a band of so many positions of y."""
        geometry, held = self.geometry, _held(self.geometry, self.band_rows)
        mids, size = held.mid * geometry.mid_width, held.x * geometry.width * geometry.cin
        times = map_times(self.conv2, geometry.cout, out)
        second = conv_work(self.conv2, out, geometry.cout, to_gm=True) + tables_work(geometry.cout)
        first = conv_work(self.conv1, mids, geometry.cmid, to_gm=False) + tables_work(geometry.cmid)
        if self.streamed:
            second += Work(gm_l1=filter_bytes(self.conv2, geometry.cout, out))
            first += Work(gm_l1=filter_bytes(self.conv1, geometry.cmid, mids))
        maps = map_times(self.conv1, geometry.cmid, mids) * (times if self.conv1.planes else 1)
        return second, first * times + Work(gm_l1=size * maps)

    def uses(self, limits: Limits) -> tuple[Use, ...]:
        """What the programs need of the memories."""
        geometry, held, streams = self.geometry, _held(self.geometry, self.band_rows), self.streams
        x, pass1_x = (
            map_part("x", rows + spare, geometry.width, geometry.cin, by_planes=streams.x)
            for rows, spare in ((held.x, held.x_spare), (held.pass1_x, held.pass1_spare))
        )
        mid_rows = held.mid + held.mid_spare
        mid = map_part("mid", mid_rows, geometry.mid_width, geometry.cmid, by_planes=streams.mid)
        tile1 = replace(self.conv1, columns=self.conv1.columns or geometry.cmid)
        tile2 = replace(self.conv2, columns=self.conv2.columns or geometry.cout)
        staged1 = staged_parts(tile1.slice, tile1.columns, "1")
        staged2 = staged_parts(tile2.slice, tile2.columns, "2")
        beside2 = (x, mid) if streams.mid and not streams.x else (mid,)
        of_l1 = {"L1": (x, mid, *staged1), "L1 in pass1": (pass1_x, *staged1)}
        if streams.filters:
            of_l1["L1 in conv2"] = (*beside2, *staged2)
        else:
            of_l1["L1"] = (*of_l1["L1"], *staged2)
        return (
            *(Use(memory, parts, limits.l1) for memory, parts in of_l1.items()),
            *tile_uses([tile1, tile2], limits, together=streams.mid),
        )


@dataclass(frozen=True)
class Plan(Tiling):
    """A tiling with its bands: `bands` cut y for fused and pass2; `pass1` cuts mid: row, rows, x window."""

    bands: tuple[Band, ...]
    pass1: tuple[tuple[int, int, Window], ...]

    @property
    def plain(self) -> bool:
        """Whether pass1 keeps each C1 plane of x as a tile of its own."""
        return self.planes <= MAX_PLANES and not self.streamed and not any(x.spare for _, _, x in self.pass1)

    @property
    def two_pass_work(self) -> Work:
        """What pass1 and pass2 move and multiply."""
        geometry = self.geometry
        tile1, tile2 = self.conv1, self.conv2
        if self.plain:
            tile1 = replace(tile1, step=C0, steps=geometry.depth1 // C0)
        mids = Counter((rows * geometry.mid_width, x.rows * geometry.width) for _, rows, x in self.pass1)
        outs = Counter(
            (band.rows * geometry.out_width, band.mid.rows * geometry.mid_width) for band in self.bands
        )
        first = pass_work(tile1, geometry.cmid, geometry.cin, mids, once=self.plain)
        once = not self.streamed and not self.bands[0].mid.spare
        return first + pass_work(tile2, geometry.cout, geometry.cmid, outs, once=once)

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


def pass_work(
    tile: Tile, channels: int, read: int, bands: Mapping[tuple[int, int], int], *, once: bool
) -> Work:
    """The work of a convolution from GM into GM.

    Args:
        tile: its ACC tile.
        channels: of the output.
        read: channels of the input.
        bands: positions of a band and the pixels that it reads, and how many bands have them.
        once: whether the filter and its rows come in once, and not for each band.
    """
    depth = tile.step * tile.steps
    work = tables_work(channels) + Work(gm_l1=filter_size(depth, channels)) if once else Work()
    for (positions, pixels), number in bands.items():
        band = conv_work(tile, positions, channels, to_gm=True)
        band += Work(gm_l1=map_times(tile, channels, positions) * pixels * read)
        if not once:
            band += tables_work(channels) + Work(gm_l1=filter_bytes(tile, channels, positions))
        work += band * number
    return work


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


def check_band_rows(band_rows: int, out_height: int) -> None:
    """Refuse bands that are higher than the output.

    Raises:
        PlanError: `band_rows` is more than the `out_height` rows of the output.
    """
    if band_rows > out_height:
        raise PlanError(f"band_rows is {band_rows}: the output has {out_height} rows", option="band_rows")


def make_plan(
    geometry: Geometry,
    limits: Limits,
    band_rows: int | None = None,
    written: tuple[Written, Written] = (FREE, FREE),
) -> Plan:
    """Tile a geometry by the cheapest plan that fits (see `cheapest`, and `kernels.tiles` for its tiles).

    Args:
        geometry: what to tile.
        limits: of the memories.
        band_rows: output rows of a band, if only such plans are wanted.
        written: what else is wanted, of the ACC tiles of conv1 and of conv2.

    Raises:
        PlanError: no plan fits; the message is about the one that is nearest to fitting.
    """
    return _with_bands(considered(geometry, limits, band_rows, written).best)


@lru_cache(maxsize=32)
def considered(
    geometry: Geometry,
    limits: Limits,
    band_rows: int | None = None,
    written: tuple[Written, Written] = (FREE, FREE),
    told: int = 0,
) -> Considered[Tiling]:
    """The cheapest plan, and the `told` next ones; other arguments and errors as of `make_plan`."""
    _check_written(geometry, written)

    def family(within: Limits) -> Family[Geometry, Tiling]:
        return Family(
            lambda shapes, rows, streams: _tiling(shapes, within, rows, streams, written),
            ways,
            lambda shapes, rows, streams: _least(shapes, within, rows, streams, written),
            ("width", "cin", "cmid", "cout"),
        )

    roomy = family(replace(limits, l1=ENDLESS))
    return search(geometry, limits.rates, family(limits), roomy, band_rows, told)


def _check_written(geometry: Geometry, written: tuple[Written, Written]) -> None:
    check_written(written[0], "1", geometry.depth1, geometry.cmid)
    check_written(written[1], "2", geometry.depth2, geometry.cout)


def _least(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: tuple[Written, Written],
) -> float:
    """Cycles that no plan with bands of a height undercuts: the cheapest tiles everywhere, one load."""
    held, rates = _held(geometry, band_rows), limits.rates
    bands = -(-geometry.out_height // band_rows)
    first = least_work(limits, geometry.depth1, geometry.cmid, written[0])
    second = least_work(limits, geometry.depth2, geometry.cout, written[1])
    filters = _filters(geometry)
    mids, outs = bands * held.mid * geometry.mid_width, geometry.out_height * geometry.out_width
    loaded = bands * held.x * geometry.width * geometry.cin + filters * (bands if streams.filters else 1)
    tables = bands * CHANNEL_BYTES * (geometry.cmid + geometry.cout)
    stored = mids * geometry.cmid / rates.l0c_l1 + outs * geometry.cout / rates.l0c_gm
    return mids * first + outs * second + loaded / rates.gm_l1 + tables / rates.l1_tables + stored


def ways(geometry: Geometry) -> Iterator[Streams]:
    """What L1 may not hold throughout a band: a map with a single C1 plane is no smaller by planes."""
    yield RESIDENT
    yield STREAMED
    for x, mid in ((True, False), (False, True), (True, True)):
        if x <= (geometry.cin > C0) and mid <= (geometry.cmid > C0):
            yield Streams(True, x, mid)


def account(
    geometry: Geometry,
    limits: Limits,
    band_rows: int | None = None,
    written: tuple[Written, Written] = (FREE, FREE),
) -> Account:
    """The plan of a geometry in words and numbers; arguments and errors as of `make_plan`."""
    found = considered(geometry, limits, band_rows, written, TOLD)
    plan = _with_bands(found.best)
    mid, x = plan.bands[0].mid, plan.bands[0].x
    facts = {
        "bands": f"{len(plan.bands)} of {plan.band_rows} output rows, with {mid.rows} rows of mid and "
        f"{x.rows} of x",
        "conv1": tile_in_words(plan.conv1, geometry.cmid),
        "conv2": tile_in_words(plan.conv2, geometry.cout),
        "filters": "streamed: each band brings them in" if plan.streamed else "in L1 throughout",
    }
    if plan.conv1.planes:
        facts["x"] = "by C1 planes: each ACC tile of conv1 brings them in, one at a time"
    if plan.conv2.planes:
        facts["mid"] = "by C1 planes: each ACC tile of conv2 has conv1 compute them anew, one at a time"
    works = {"fused": plan.work, "two-pass": plan.two_pass_work}
    return Account(facts, plan.uses(limits), works, found.others(limits.rates), str(found.refused or ""))


def tile_bands(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams = RESIDENT,
    written: tuple[Written, Written] = (FREE, FREE),
) -> Plan:
    """Tile a geometry in bands of a given height.

    Raises:
        PlanError: the height, or a size that follows from it, breaks a rule.
    """
    return _with_bands(_tiling(geometry, limits, band_rows, streams, written))


def _tiling(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: tuple[Written, Written],
) -> Tiling:
    """A tiling in bands of a given height; its errors are those of `tile_bands`."""
    check_band_rows(band_rows, geometry.out_height)
    # A smaller geometry, of which it is asked whether it fits, may break what is true of this one.
    _check_written(geometry, written)
    bands = tuple(_bands(geometry, band_rows, streams, kinds=True))
    pass1 = tuple(_pass1_bands(geometry, band_rows, streams, kinds=True))
    conv1, conv2 = _tiles(geometry, limits, band_rows, streams, written, _below(geometry, bands, pass1))
    tiling = Tiling(geometry, band_rows, conv1, conv2, streams.filters)
    check_memories(str(tiling), tiling.uses(limits))
    _check_rows(tiling, bands, pass1)
    if not streams.filters:
        of_mid = [x for _, _, x in pass1]
        for windows in ([band.mid for band in bands], [band.x for band in bands], of_mid):
            check_uniform(band_rows, windows)
    return tiling


def _with_bands(tiling: Tiling) -> Plan:
    geometry, rows, streams = tiling.geometry, tiling.band_rows, tiling.streams
    return Plan(
        geometry,
        rows,
        tiling.conv1,
        tiling.conv2,
        tiling.streamed,
        tuple(_bands(geometry, rows, streams)),
        tuple(_pass1_bands(geometry, rows, streams)),
    )


@dataclass(frozen=True)
class _Held:
    """Rows of the maps that a band holds, and rows of zeros under each; `pass1_x` is x in pass1."""

    mid: int
    mid_spare: int
    x: int
    x_spare: int
    pass1_x: int
    pass1_spare: int


@lru_cache(maxsize=256)
def _held(geometry: Geometry, band_rows: int) -> _Held:
    mid = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    pass1_rows = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)
    x = (held_rows(geometry.conv1, rows, geometry.height, geometry.width) for rows in (mid[0], pass1_rows))
    return _Held(*mid, *next(x), *next(x))


def _filters(geometry: Geometry) -> int:
    """Bytes of both filters and their rows."""
    return filter_size(geometry.depth1, geometry.cmid) + filter_size(geometry.depth2, geometry.cout)


def _bands_of_y(geometry: Geometry, band_rows: int) -> tuple[tuple[int, int], ...]:
    """Positions of a band of y, and how many bands have them; the highest first."""
    return counted_bands(geometry.out_height, geometry.out_width, band_rows)


def counted_bands(height: int, width: int, band_rows: int) -> tuple[tuple[int, int], ...]:
    """Positions of the bands into which an output is cut, and how many have them; the highest first."""
    number, rest = divmod(height, band_rows)
    return ((band_rows * width, number), *(((rest * width, 1),) if rest else ()))


_Below = tuple[tuple[int, int], ...]


def rows_below(conv: Conv, width: int, kinds: Iterable[tuple[int, Window]]) -> _Below:
    """Positions of bands, each with the output rows below it that img2col can be asked for.

    `kinds` are the output rows of bands, of `width` columns, each with what it reads.
    """
    most = {
        (rows * width, (_PADDING_LIMIT - 1 - window.padding[1] + window.spare) // conv.stride_rows)
        for rows, window in kinds
    }
    return tuple(sorted(most))


def _below(
    geometry: Geometry, bands: Iterable[Band], pass1: Iterable[tuple[int, int, Window]]
) -> tuple[_Below, _Below]:
    """The same for conv1 and for conv2."""
    of_mid = [(band.mid.rows, band.x) for band in bands] + [(rows, x) for _, rows, x in pass1]
    of_y = [(band.rows, band.mid) for band in bands]
    return (
        rows_below(geometry.conv1, geometry.mid_width, of_mid),
        rows_below(geometry.conv2, geometry.out_width, of_y),
    )


def _tiles(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: tuple[Written, Written],
    below: tuple[_Below, _Below],
) -> tuple[Tile, Tile]:
    """The cheapest ACC tiles of both convolutions for bands of a height."""
    held, bands = _held(geometry, band_rows), _bands_of_y(geometry, band_rows)
    of_mid = ((held.mid * geometry.mid_width, sum(number for _, number in bands)),)
    asked1 = Asked(
        limits,
        geometry.mid_width,
        of_mid,
        below[0],
        geometry.depth1,
        geometry.cmid,
        written=written[0],
    )
    asked2 = Asked(
        limits,
        geometry.out_width,
        bands,
        below[1],
        geometry.depth2,
        geometry.cout,
        written=written[1],
    )
    if not streams.filters:
        return resident_tile(asked1, "1"), resident_tile(asked2, "2")
    planes_of_x, planes_of_mid = geometry.cin // C0, geometry.cmid // C0
    x, pass1_x = (
        rows * geometry.width * C0 * (1 if streams.x else planes_of_x)
        for rows in (held.x + held.x_spare, held.pass1_x + held.pass1_spare)
    )
    mid = (held.mid + held.mid_spare) * geometry.mid_width * C0 * (1 if streams.mid else planes_of_mid)
    asked1 = replace(asked1, room=limits.l1 - max(x + mid, pass1_x))
    if streams.x:
        asked1 = replace(asked1, planes=planes_of_x, brought=x * planes_of_x / limits.rates.gm_l1)
    asked2 = replace(asked2, room=limits.l1 - mid - (x if streams.mid and not streams.x else 0))
    check_step(asked1, "x", "1")
    if streams.mid:
        return _computed_planes(asked1, replace(asked2, planes=planes_of_mid))
    return cheapest_tile(asked1)[0], cheapest_tile(asked2)[0]


_SHARES = (8, 4, 2)
"""What part of L0C the ACC tile of conv1 may have while the one of conv2 is kept."""


def _computed_planes(asked1: Asked, asked2: Asked) -> tuple[Tile, Tile]:
    """The ACC tiles if conv1 computes mid by planes for each ACC tile of conv2, which is kept meanwhile.

    Raises:
        PlanError: blocks of conv1's output channels are written that are no C1 plane, or a K step of conv2
            that does not divide K of one.
    """
    if (columns := asked1.written.columns) not in (0, C0):
        raise PlanError(
            f"block_columns1 is {columns}: where mid comes by planes it must be {C0}", option="block_columns1"
        )
    check_step(asked2, "mid", "2")
    limits = asked1.limits
    mids = asked1.bands[0][0]
    asked1 = replace(asked1, bands=((mids, 1),), columns=C0)
    best, least = None, inf
    for share in _SHARES:
        tile1, cycles = cheapest_tile(replace(asked1, l0c=limits.l0c // share))
        second = replace(
            asked2,
            brought=cycles + mids * asked1.channels / limits.rates.l0c_l1,
            l0c=limits.l0c - 4 * tile1.positions * C0,
            beside=C0,
        )
        tile2, cycles = cheapest_tile(second)
        if best is None or cycles < least:
            best, least = (tile1, tile2), cycles
    assert best is not None
    return best


def _bands(geometry: Geometry, band_rows: int, streams: Streams, *, kinds: bool = False) -> Iterator[Band]:
    """Bands of y. All read windows of one size, even a shorter last band, so one buffer serves them all.

    If only their `kinds` are wanted, those between the edges, which are all alike, are given once.
    """
    held, spare = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    for row in _starts(geometry, band_rows) if kinds else range(0, geometry.out_height, band_rows):
        rows = min(band_rows, geometry.out_height - row)
        mid = window(geometry.conv2, row, rows, geometry.mid_height, held, spare)
        if streams.filters:
            mid = at_edges(geometry.conv2, mid, geometry.mid_height)
        yield Band(row, rows, mid, _x_window(geometry, mid.row, held, held, streams))


def _x_window(geometry: Geometry, mid_row: int, mid_rows: int, longest: int, streams: Streams) -> Window:
    """The x rows of some mid rows, in a buffer that holds those of `longest` mid rows."""
    held, spare = held_rows(geometry.conv1, longest, geometry.height, geometry.width)
    x = window(geometry.conv1, mid_row, mid_rows, geometry.height, held, spare)
    return at_edges(geometry.conv1, x, geometry.height) if streams.filters else x


def _starts(geometry: Geometry, band_rows: int) -> Iterator[int]:
    """First rows of the bands of y that differ: their buffers of x or mid reach an edge, or none."""
    conv1, conv2, held = geometry.conv1, geometry.conv2, _held(geometry, band_rows)
    above = conv1.sides[0]
    start = above // conv1.stride_rows + 1
    of_x = (geometry.height - held.x + above - 1) // conv1.stride_rows + 1
    inside = range(start, min(geometry.mid_height - held.mid, of_x))
    return kinds_of(conv2, geometry.out_height, band_rows, inside)


def kinds_of(conv: Conv, out_height: int, band_rows: int, inside: range) -> Iterator[int]:
    """First rows of the bands that differ. All are alike whose input would begin in the rows `inside`."""
    step, above = band_rows * conv.stride_rows, conv.sides[0]
    bands = -(-out_height // band_rows)
    first = max(-(-(above + inside.start) // step), 1)
    last = min((above + inside.stop - 1) // step, bands - 2)
    edges = chain(range(min(first + 1, bands)), range(max(first, last) + 1, bands))
    return (number * band_rows for number in edges)


def _pass1_bands(
    geometry: Geometry, band_rows: int, streams: Streams, *, kinds: bool = False
) -> Iterator[tuple[int, int, Window]]:
    """Bands of mid, each with the rows that a band of y spans, without halo; `kinds` as of `_bands`."""
    height = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)
    inside = range(1, geometry.height - _held(geometry, band_rows).pass1_x)
    starts = kinds_of(geometry.conv1, geometry.mid_height, height, inside)
    for row in starts if kinds else range(0, geometry.mid_height, height):
        rows = min(height, geometry.mid_height - row)
        yield row, rows, _x_window(geometry, row, rows, height, streams)


def _check_rows(tiling: Tiling, bands: Iterable[Band], pass1: Iterable[tuple[int, int, Window]]) -> None:
    of_y = {(band.rows, band.mid.padding, band.x.padding): band for band in bands}
    for band in of_y.values():
        check_unfolded("mid", tiling.shape2, band.mid, tiling.conv2, band.rows)
        check_unfolded("x", tiling.shape1, band.x, tiling.conv1, band.mid.rows)
    of_mid = {(rows, x.padding): (rows, x) for _, rows, x in pass1}
    for rows, x in of_mid.values():
        check_unfolded("x", tiling.shape1, x, tiling.conv1, rows)
