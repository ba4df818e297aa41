"""What a plan of a conv pair is: its bands and ACC tiles, what they move and multiply, what they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from golden.geometry import C0, Geometry
from kernels.choice import PlanError as PlanError  # what a user's plan raises
from kernels.choice import Streams, Use
from kernels.cost import Work
from kernels.tiles import Limits as Limits  # what a declaration names of a plan
from kernels.tiles import Tile as Tile
from kernels.tiles import (
    conv_work,
    filter_bytes,
    filter_size,
    map_part,
    map_times,
    pass_work,
    staged_parts,
    tables_work,
    tile_uses,
)
from kernels.windows import (
    ConvShape,
    Window,
    at_edges,
    conv_shape,
    counted_bands,
    held_rows,
    kinds_of,
    window,
)

MAX_PLANES = 4
"""The most C1 planes that pass1 keeps each as a tile; more are gathered into one."""


@dataclass(frozen=True)
class Band:
    """One band: `rows` output rows from `row`, the mid rows that they read, the x rows that those read."""

    row: int
    rows: int
    mid: Window
    x: Window


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
        work = Work(gm_l1=0 if self.streamed else filters_size(self.geometry))
        for positions, number in positions_of_y(self.geometry, self.band_rows):
            of_band, again = self._band_work(positions)
            work += (of_band + again) * number
        return work

    def _band_work(self, out: int) -> tuple[Work, Work]:
        """The work of conv2 and of conv1 in a band of so many positions of y."""
        geometry, held = self.geometry, held_by_bands(self.geometry, self.band_rows)
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
        geometry, held, streams = self.geometry, held_by_bands(self.geometry, self.band_rows), self.streams
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


def with_bands(tiling: Tiling) -> Plan:
    """A tiling with all its bands."""
    geometry, rows, streams = tiling.geometry, tiling.band_rows, tiling.streams
    return Plan(
        geometry,
        rows,
        tiling.conv1,
        tiling.conv2,
        tiling.streamed,
        tuple(bands_of_y(geometry, rows, streams)),
        tuple(bands_of_mid(geometry, rows, streams)),
    )


@dataclass(frozen=True)
class Held:
    """Rows of the maps that a band holds, and rows of zeros under each; `pass1_x` is x in pass1."""

    mid: int
    mid_spare: int
    x: int
    x_spare: int
    pass1_x: int
    pass1_spare: int


@lru_cache(maxsize=256)
def held_by_bands(geometry: Geometry, band_rows: int) -> Held:
    """What bands of so many rows of y hold."""
    mid = held_rows(geometry.conv2, band_rows, geometry.mid_height, geometry.mid_width)
    pass1_rows = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)
    x = (held_rows(geometry.conv1, rows, geometry.height, geometry.width) for rows in (mid[0], pass1_rows))
    return Held(*mid, *next(x), *next(x))


def filters_size(geometry: Geometry) -> int:
    """Bytes of both filters and their rows."""
    return filter_size(geometry.depth1, geometry.cmid) + filter_size(geometry.depth2, geometry.cout)


def positions_of_y(geometry: Geometry, band_rows: int) -> tuple[tuple[int, int], ...]:
    """Positions of a band of y, and how many bands have them; the highest first."""
    return counted_bands(geometry.out_height, geometry.out_width, band_rows)


def bands_of_y(
    geometry: Geometry, band_rows: int, streams: Streams, *, kinds: bool = False
) -> Iterator[Band]:
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
    conv1, conv2, held = geometry.conv1, geometry.conv2, held_by_bands(geometry, band_rows)
    above = conv1.sides[0]
    start = above // conv1.stride_rows + 1
    of_x = (geometry.height - held.x + above - 1) // conv1.stride_rows + 1
    inside = range(start, min(geometry.mid_height - held.mid, of_x))
    return kinds_of(conv2, geometry.out_height, band_rows, inside)


def bands_of_mid(
    geometry: Geometry, band_rows: int, streams: Streams, *, kinds: bool = False
) -> Iterator[tuple[int, int, Window]]:
    """Bands of mid, each with the rows that a band of y spans, without halo; `kinds` as of `bands_of_y`."""
    height = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)
    inside = range(1, geometry.height - held_by_bands(geometry, band_rows).pass1_x)
    starts = kinds_of(geometry.conv1, geometry.mid_height, height, inside)
    for row in starts if kinds else range(0, geometry.mid_height, height):
        rows = min(height, geometry.mid_height - row)
        yield row, rows, _x_window(geometry, row, rows, height, streams)
