"""How one convolution is tiled: bands of output rows, made of the same pieces as the pair's plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from golden.geometry import C0, ConvGeometry
from kernels.choice import RESIDENT, Account, Considered, PlanError, Streams, Use, check_memories, search
from kernels.cost import Work
from kernels.plan import (
    ConvShape,
    Window,
    at_edges,
    check_band_rows,
    check_unfolded,
    check_uniform,
    conv_shape,
    held_rows,
    pass_work,
    window,
)
from kernels.tiles import (
    FREE,
    LONGEST_STEP,
    Asked,
    Limits,
    Tile,
    Written,
    acc_tile,
    as_written,
    cheapest_tile,
    check_written,
    in_options,
    map_part,
    staged_parts,
    streamed_tile,
    tables_work,
    tile_in_words,
    tile_uses,
)


@dataclass(frozen=True)
class ConvBand:
    """One band: `rows` output rows from `row`, and the x rows they read."""

    row: int
    rows: int
    x: Window


@dataclass(frozen=True)
class ConvPlan:
    """A tiled convolution: its bands, and the ACC tile they are computed in.

    If it is `streamed`, each band brings the filter in by blocks of columns.
    """

    geometry: ConvGeometry
    band_rows: int
    bands: tuple[ConvBand, ...]
    tile: Tile
    streamed: bool = False

    def __str__(self) -> str:
        return self.streams.in_words(self.band_rows)

    @property
    def streams(self) -> Streams:
        """What L1 does not hold throughout a band."""
        return Streams(self.streamed, self.tile.planes > 0)

    @property
    def planes(self) -> int:
        """C1 planes of x."""
        return self.geometry.cin // C0

    @property
    def shape(self) -> ConvShape:
        """The convolution."""
        geometry = self.geometry
        return conv_shape(geometry.conv, geometry.width, self.tile.columns or geometry.cout)

    @property
    def work(self) -> Work:
        """What the program moves and multiplies."""
        geometry = self.geometry
        bands = [(band.rows * geometry.out_width, band.x.rows * geometry.width) for band in self.bands]
        work = pass_work(self.tile, geometry.cout, geometry.cin, bands, once=not self.streamed)
        # The rows of a resident filter are in L1 throughout, and each band moves them to the tables.
        return work if self.streamed else work + tables_work(geometry.cout) * (len(bands) - 1)


def make_conv_plan(
    geometry: ConvGeometry, limits: Limits, band_rows: int | None = None, written: Written = FREE
) -> ConvPlan:
    """Tile a convolution by the cheapest plan that fits; everything is as of `kernels.plan.make_plan`."""
    return considered(geometry, limits, band_rows, written).best


@lru_cache(maxsize=32)
def considered(
    geometry: ConvGeometry, limits: Limits, band_rows: int | None = None, written: Written = FREE
) -> Considered[ConvPlan]:
    """All plans that fit; arguments and errors as of `make_conv_plan`."""
    check_written(written, "", geometry.depth, geometry.cout)

    def tiled(shapes: ConvGeometry, rows: int, streams: Streams) -> ConvPlan:
        return tile_conv_bands(shapes, limits, rows, streams, written)

    return search(geometry, limits.rates, tiled, band_rows, ("width", "cin", "cout"), deeper)


def deeper(geometry: ConvGeometry) -> list[Streams]:
    """How x may come in that L1 does not hold: with a single C1 plane it is no smaller by planes."""
    return [Streams(True, True)] if geometry.cin > C0 else []


def account(
    geometry: ConvGeometry, limits: Limits, band_rows: int | None = None, written: Written = FREE
) -> Account:
    """The plan of a geometry in words and numbers; arguments and errors as of `make_conv_plan`."""
    found = considered(geometry, limits, band_rows, written)
    plan = found.best
    facts = {
        "bands": f"{len(plan.bands)} of {plan.band_rows} output rows, with {plan.bands[0].x.rows} rows of x",
        "conv": tile_in_words(plan.tile, geometry.cout),
        "filter": "streamed: each band brings it in" if plan.streamed else "in L1 throughout",
    }
    if plan.tile.planes:
        facts["x"] = "by C1 planes: each ACC tile brings them in, one at a time"
    if cheaper := _cheaper(plan, limits, written):
        facts["cheaper if written"] = cheaper
    _, uses = _tile(geometry, limits, plan.band_rows, plan.streams, written)
    return Account(
        facts, tuple(uses), {"conv": plan.work}, found.others(limits.rates), str(found.refused or "")
    )


def tile_conv_bands(
    geometry: ConvGeometry,
    limits: Limits,
    band_rows: int,
    streams: Streams = RESIDENT,
    written: Written = FREE,
) -> ConvPlan:
    """Tile a convolution in bands of a given height.

    Raises:
        PlanError: the height, or a size that follows from it, breaks a rule.
    """
    check_band_rows(band_rows, geometry.out_height)
    tile, uses = _tile(geometry, limits, band_rows, streams, written)
    check_memories(streams.in_words(band_rows), uses)
    kept = tile if streams.filters else replace(tile, columns=0)
    bands = tuple(_bands(geometry, band_rows, streams))
    plan = ConvPlan(geometry, band_rows, bands, kept, streams.filters)
    for band in plan.bands:
        check_unfolded("x", plan.shape, band.x, tile, band.rows)
    if not streams.filters:
        check_uniform(band_rows, [band.x for band in plan.bands])
    return plan


def _tile(
    geometry: ConvGeometry, limits: Limits, band_rows: int, streams: Streams, written: Written
) -> tuple[Tile, list[Use]]:
    """The ACC tile for bands of a height, and what the program needs of the memories."""
    held = sum(held_rows(geometry.conv, band_rows, geometry.height, geometry.width))
    x = map_part("x", held, geometry.width, geometry.cin, by_planes=streams.x)
    asked = replace(_asked(geometry, limits, band_rows, streams, written), room=limits.l1 - x[1])
    if streams.x:
        size = held * geometry.width * geometry.cin
        asked = replace(asked, planes=geometry.cin // C0, brought=size / limits.rates.gm_l1)
    if streams.filters:
        tile, _ = streamed_tile(asked)
    else:
        tile = replace(acc_tile(asked), columns=geometry.cout)
    staged = staged_parts(tile.slice, tile.columns)
    return tile, [Use("L1", (x, *staged), limits.l1), *tile_uses([tile], limits)]


def _asked(
    geometry: ConvGeometry, limits: Limits, band_rows: int, streams: Streams, written: Written
) -> Asked:
    """What the ACC tile is chosen for, but for what L1 leaves it."""
    return Asked(
        limits,
        geometry.out_width,
        band_rows * geometry.out_width,
        geometry.depth,
        geometry.cout,
        LONGEST_STEP,
        written=written,
        whole=streams.whole,
    )


def _cheaper(plan: ConvPlan, limits: Limits, written: Written) -> str:
    """Which ACC tile a resident plan could have that is estimated to cost less, as a matrix writes it."""
    if plan.streamed:
        return ""
    tile = cheapest_tile(_asked(plan.geometry, limits, plan.band_rows, RESIDENT, written))
    try:
        other = tile_conv_bands(plan.geometry, limits, plan.band_rows, RESIDENT, as_written(tile))
    except PlanError:
        return ""
    cost = other.work.cycles(limits.rates) / plan.work.cycles(limits.rates) - 1
    return f"{in_options(tile, '')}: {cost:+.1%}" if cost < 0 else ""


def _bands(geometry: ConvGeometry, band_rows: int, streams: Streams) -> Iterator[ConvBand]:
    """Bands of y. All read windows of one size, even a shorter last band, so one buffer serves them all."""
    held, spare = held_rows(geometry.conv, band_rows, geometry.height, geometry.width)
    for row in range(0, geometry.out_height, band_rows):
        rows = min(band_rows, geometry.out_height - row)
        x = window(geometry.conv, row, rows, geometry.height, held, spare)
        yield ConvBand(row, rows, at_edges(geometry.conv, x, geometry.height) if streams.filters else x)
