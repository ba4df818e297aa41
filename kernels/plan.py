"""How a conv pair is tiled: bands of output rows, ACC tiles, K steps, blocks of output channels.

The pieces that the plans of all workloads share are here too, and how one is chosen among those that fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from golden.geometry import C0, Conv, Geometry
from kernels.choice import RESIDENT, Account, Considered, Streams, Use, check_memories, search
from kernels.choice import PlanError as PlanError  # what a user's plan raises
from kernels.cost import Work
from kernels.tiles import (
    FREE,
    LONGEST_STEP,
    Asked,
    Written,
    acc_tile,
    as_written,
    cheapest_tile,
    check_written,
    conv_work,
    filter_bytes,
    in_options,
    map_part,
    map_times,
    row_unit,
    staged_parts,
    streamed_tile,
    tables_work,
    tile_in_words,
    tile_uses,
    whole,
)
from kernels.tiles import Limits as Limits  # what a declaration names of a plan
from kernels.tiles import Tile as Tile

_IMAGE_LIMIT = 2**16
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
        geometry = self.geometry
        whole = Work()
        loaded = 0 if self.streamed else self._filters
        for rows, number in Counter(band.rows for band in self.bands).items():
            of_band, again = self._band_work(rows * geometry.out_width)
            whole += (of_band + again) * number
        return whole + Work(gm_l1=loaded)

    def _band_work(self, out: int) -> tuple[Work, Work]:
        """The work of conv2 and of conv1 in a band of so many positions of y."""
        geometry = self.geometry
        x, mid = self.bands[0].x, self.bands[0].mid
        mids, size = mid.rows * geometry.mid_width, x.rows * geometry.width * geometry.cin
        times = map_times(self.conv2, geometry.cout, out)
        second = conv_work(self.conv2, out, geometry.cout, to_gm=True) + tables_work(geometry.cout)
        first = conv_work(self.conv1, mids, geometry.cmid, to_gm=False) + tables_work(geometry.cmid)
        if self.streamed:
            second += Work(gm_l1=filter_bytes(self.conv2, geometry.cout, out))
            first += Work(gm_l1=filter_bytes(self.conv1, geometry.cmid, mids))
        maps = map_times(self.conv1, geometry.cmid, mids) * (times if self.conv1.planes else 1)
        return second, first * times + Work(gm_l1=size * maps)

    @property
    def _filters(self) -> int:
        """Bytes of both filters and their rows."""
        geometry = self.geometry
        return (geometry.depth1 + 12) * geometry.cmid + (geometry.depth2 + 12) * geometry.cout

    @property
    def two_pass_work(self) -> Work:
        """What pass1 and pass2 move and multiply."""
        geometry = self.geometry
        tile1, tile2 = self.conv1, self.conv2
        if self.plain:
            tile1 = replace(tile1, step=C0, steps=geometry.depth1 // C0)
        mids = [(rows * geometry.mid_width, x.rows * geometry.width) for _, rows, x in self.pass1]
        outs = [(band.rows * geometry.out_width, band.mid.rows * geometry.mid_width) for band in self.bands]
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


def pass_work(tile: Tile, channels: int, read: int, bands: Sequence[tuple[int, int]], *, once: bool) -> Work:
    """The work of a convolution from GM into GM.

    Args:
        tile: its ACC tile.
        channels: of the output.
        read: channels of the input.
        bands: of each, its positions and the pixels that it reads.
        once: whether the filter and its rows come in once, and not for each band.
    """
    depth = tile.step * tile.steps
    work = tables_work(channels) + Work(gm_l1=(depth + 12) * channels) if once else Work()
    for (positions, pixels), number in Counter(bands).items():
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


def held_rows(conv: Conv, rows: int, height: int, width: int) -> tuple[int, int]:
    """Rows of an image that a buffer holds for `rows` output rows, and rows of zeros that make it whole."""
    held = min(rows_read(conv, rows), height)
    return held, whole(held, row_unit(width)) - held


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
    if (last := tile.step * (tile.steps // max(tile.planes, 1) - 1)) >= _IMAGE_LIMIT:
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
    return considered(geometry, limits, band_rows, written).best


@lru_cache(maxsize=32)
def considered(
    geometry: Geometry,
    limits: Limits,
    band_rows: int | None = None,
    written: tuple[Written, Written] = (FREE, FREE),
) -> Considered[Plan]:
    """All plans that fit; arguments and errors as of `make_plan`."""
    check_written(written[0], "1", geometry.depth1, geometry.cmid)
    check_written(written[1], "2", geometry.depth2, geometry.cout)

    def tiled(shapes: Geometry, rows: int, streams: Streams) -> Plan:
        return tile_bands(shapes, limits, rows, streams, written)

    return search(geometry, limits.rates, tiled, band_rows, ("width", "cin", "cmid", "cout"), deeper)


def deeper(geometry: Geometry) -> Iterator[Streams]:
    """How maps may come in that L1 does not hold: one with a single C1 plane is no smaller by planes."""
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
    found = considered(geometry, limits, band_rows, written)
    plan = found.best
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
    if cheaper := _cheaper(plan, limits, written):
        facts["cheaper if written"] = cheaper
    uses = tuple(_tiles(geometry, limits, plan.band_rows, plan.streams, written)[2])
    works = {"fused": plan.work, "two-pass": plan.two_pass_work}
    return Account(facts, uses, works, found.others(limits.rates), str(found.refused or ""))


def _cheaper(plan: Plan, limits: Limits, written: tuple[Written, Written]) -> str:
    """Which ACC tiles a resident plan could have that are estimated to cost less, as a matrix writes them."""
    if plan.streamed:
        return ""
    asked = _asked(plan.geometry, limits, plan.band_rows, RESIDENT, written)
    tile1, tile2 = map(cheapest_tile, asked)
    try:
        other = tile_bands(
            plan.geometry, limits, plan.band_rows, RESIDENT, (as_written(tile1), as_written(tile2))
        )
    except PlanError:
        return ""
    cost = other.work.cycles(limits.rates) / plan.work.cycles(limits.rates) - 1
    return f"{in_options(tile1, '1')}, {in_options(tile2, '2')}: {cost:+.1%}" if cost < 0 else ""


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
    check_band_rows(band_rows, geometry.out_height)
    conv1, conv2, uses = _tiles(geometry, limits, band_rows, streams, written)
    check_memories(streams.in_words(band_rows), uses)
    plan = Plan(
        geometry,
        band_rows,
        tuple(_bands(geometry, band_rows, streams)),
        tuple(_pass1_bands(geometry, band_rows, streams)),
        conv1,
        conv2,
        streams.filters,
    )
    _check_rows(plan)
    if not streams.filters:
        _check_uniform(plan)
    return plan


def _tiles(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: tuple[Written, Written],
) -> tuple[Tile, Tile, list[Use]]:
    """The ACC tiles of both convolutions for bands of a height, and what programs need of the memories."""
    mid_rows, mid_spare = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    pass1_rows = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)

    def map_of(rows: int) -> tuple[str, int]:
        held = sum(held_rows(geometry.conv1, rows, geometry.height, geometry.width))
        return map_part("x", held, geometry.width, geometry.cin, by_planes=streams.x)

    x, pass1_x = map_of(mid_rows), map_of(pass1_rows)
    held = mid_rows + mid_spare
    mid = map_part("mid", held, geometry.mid_width, geometry.cmid, by_planes=streams.mid)
    asked1, asked2 = _asked(geometry, limits, band_rows, streams, written)
    if not streams.filters:
        tile1, tile2 = acc_tile(asked1), acc_tile(asked2)
        staged1 = staged_parts(geometry.depth1, geometry.cmid, "1")
        staged2 = staged_parts(geometry.depth2, geometry.cout, "2")
        wide = [replace(tile1, columns=geometry.cmid), replace(tile2, columns=geometry.cout)]
        uses = [
            Use("L1", (x, mid, *staged1, *staged2), limits.l1),
            Use("L1 in pass1", (pass1_x, *staged1), limits.l1),
            *tile_uses(wide, limits),
        ]
        return tile1, tile2, uses
    asked1 = replace(asked1, room=limits.l1 - max(x[1] + mid[1], pass1_x[1]))
    if streams.x:
        size = x[1] // C0 * geometry.cin
        asked1 = replace(asked1, planes=geometry.cin // C0, brought=size / limits.rates.gm_l1)
    beside2 = (x, mid) if streams.mid and not streams.x else (mid,)
    asked2 = replace(asked2, room=limits.l1 - sum(size for _, size in beside2))
    if streams.mid:
        tile1, tile2 = _computed_planes(asked1, asked2)
    else:
        (tile1, _), (tile2, _) = streamed_tile(asked1), streamed_tile(asked2)
    block1, block2 = (
        staged_parts(tile.slice, tile.columns, number) for tile, number in ((tile1, "1"), (tile2, "2"))
    )
    return (
        tile1,
        tile2,
        [
            Use("L1", (x, mid, *block1), limits.l1),
            Use("L1 in pass1", (pass1_x, *block1), limits.l1),
            Use("L1 in conv2", (*beside2, *block2), limits.l1),
            *tile_uses([tile1, tile2], limits, together=streams.mid),
        ],
    )


def _asked(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: tuple[Written, Written],
) -> tuple[Asked, Asked]:
    """What the ACC tiles of both convolutions are chosen for, but for what L1 leaves them."""
    mid_rows, _ = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    first = Asked(
        limits,
        geometry.mid_width,
        mid_rows * geometry.mid_width,
        geometry.depth1,
        geometry.cmid,
        LONGEST_STEP,
        written=written[0],
        whole=streams.whole,
    )
    second = Asked(
        limits,
        geometry.out_width,
        band_rows * geometry.out_width,
        geometry.depth2,
        geometry.cout,
        C0,
        written=written[1],
        whole=streams.whole,
    )
    return first, second


_SHARES = (8, 4, 2)
"""What part of L0C the ACC tile of conv1 may have while the one of conv2 is kept."""


def _computed_planes(asked1: Asked, asked2: Asked) -> tuple[Tile, Tile]:
    """The ACC tiles if conv1 computes mid by planes for each ACC tile of conv2, which is kept meanwhile."""
    limits, planes = asked1.limits, asked1.channels // C0
    best, least = None, inf
    for share in _SHARES:
        tile1, cycles = streamed_tile(replace(asked1, columns=C0, l0c=limits.l0c // share))
        stored = asked1.positions * asked1.channels / limits.rates.l0c_l1
        second = replace(
            asked2,
            planes=planes,
            brought=cycles + stored,
            l0c=limits.l0c - 4 * tile1.positions * C0,
            beside=C0,
        )
        tile2, cycles = streamed_tile(second)
        if best is None or cycles < least:
            best, least = (tile1, tile2), cycles
    assert best is not None
    return best


def _bands(geometry: Geometry, band_rows: int, streams: Streams) -> Iterator[Band]:
    """Bands of y. All read windows of one size, even a shorter last band, so one buffer serves them all."""
    held, spare = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    for row in range(0, geometry.out_height, band_rows):
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


def _pass1_bands(geometry: Geometry, band_rows: int, streams: Streams) -> Iterator[tuple[int, int, Window]]:
    """Bands of mid, each with the rows that a band of y spans, without halo."""
    height = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)
    for row in range(0, geometry.mid_height, height):
        rows = min(height, geometry.mid_height - row)
        yield row, rows, _x_window(geometry, row, rows, height, streams)


def _check_rows(plan: Plan) -> None:
    of_y = {(band.rows, band.mid.padding, band.x.padding): band for band in plan.bands}
    for band in of_y.values():
        check_unfolded("mid", plan.shape2, band.mid, plan.conv2, band.rows)
        check_unfolded("x", plan.shape1, band.x, plan.conv1, band.mid.rows)
    of_mid = {(rows, x.padding): (rows, x) for _, rows, x in plan.pass1}
    for rows, x in of_mid.values():
        check_unfolded("x", plan.shape1, x, plan.conv1, rows)


def _check_uniform(plan: Plan) -> None:
    pass1 = [x for _, _, x in plan.pass1]
    for windows in ([band.mid for band in plan.bands], [band.x for band in plan.bands], pass1):
        check_uniform(plan.band_rows, windows)
