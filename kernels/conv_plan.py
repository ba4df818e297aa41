"""How one convolution is tiled: bands of output rows, made of the same pieces as the pair's plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from golden.geometry import C0, ConvGeometry
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
from kernels.cost import Work
from kernels.tiles import (
    FREE,
    Asked,
    Limits,
    Tile,
    Written,
    cheapest_tile,
    check_step,
    check_written,
    filter_size,
    least_work,
    map_part,
    pass_work,
    resident_tile,
    staged_parts,
    tables_work,
    tile_in_words,
    tile_uses,
)
from kernels.windows import (
    ConvShape,
    Window,
    at_edges,
    check_band_rows,
    check_unfolded,
    check_uniform,
    conv_shape,
    counted_bands,
    held_rows,
    kinds_of,
    rows_below,
    window,
)


@dataclass(frozen=True)
class ConvBand:
    """One band: `rows` output rows from `row`, and the x rows they read."""

    row: int
    rows: int
    x: Window


@dataclass(frozen=True)
class ConvTiling:
    """How a convolution is tiled. If it is `streamed`, each band brings the filter in by blocks."""

    geometry: ConvGeometry
    band_rows: int
    tile: Tile
    streamed: bool

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
        held, _ = held_rows(geometry.conv, self.band_rows, geometry.height, geometry.width)
        bands = {
            (positions, held * geometry.width): number
            for positions, number in counted_bands(geometry.out_height, geometry.out_width, self.band_rows)
        }
        work = pass_work(self.tile, geometry.cout, geometry.cin, bands, once=not self.streamed)
        # The rows of a resident filter are in L1 throughout, and each band moves them to the tables.
        more = 0 if self.streamed else sum(bands.values()) - 1
        return work + tables_work(geometry.cout) * more

    def uses(self, limits: Limits) -> tuple[Use, ...]:
        """What the program needs of the memories."""
        geometry = self.geometry
        held = sum(held_rows(geometry.conv, self.band_rows, geometry.height, geometry.width))
        x = map_part("x", held, geometry.width, geometry.cin, by_planes=self.streams.x)
        tile = replace(self.tile, columns=self.tile.columns or geometry.cout)
        staged = staged_parts(tile.slice, tile.columns)
        return Use("L1", (x, *staged), limits.l1), *tile_uses([tile], limits)


@dataclass(frozen=True)
class ConvPlan(ConvTiling):
    """A tiling with its bands."""

    bands: tuple[ConvBand, ...]


def make_conv_plan(
    geometry: ConvGeometry, limits: Limits, band_rows: int | None = None, written: Written = FREE
) -> ConvPlan:
    """Tile a convolution by the cheapest plan that fits; everything is as of `kernels.planner.make_plan`."""
    return _with_bands(considered(geometry, limits, band_rows, written).best)


@lru_cache(maxsize=32)
def considered(
    geometry: ConvGeometry,
    limits: Limits,
    band_rows: int | None = None,
    written: Written = FREE,
    told: int = 0,
) -> Considered[ConvTiling]:
    """The cheapest plan, and the `told` next ones; other arguments and errors as of `make_conv_plan`."""
    check_written(written, "", geometry.depth, geometry.cout)

    def family(within: Limits) -> Family[ConvGeometry, ConvTiling]:
        return Family(
            lambda shapes, rows, streams: _tiling(shapes, within, rows, streams, written),
            ways,
            lambda shapes, rows, streams: _least(shapes, within, rows, streams, written),
            ("width", "cin", "cout"),
        )

    roomy = family(replace(limits, l1=ENDLESS))
    return search(geometry, limits.rates, family(limits), roomy, band_rows, told)


def _least(
    geometry: ConvGeometry, limits: Limits, band_rows: int, streams: Streams, written: Written
) -> float:
    """Cycles that no plan with bands of a height undercuts: the cheapest tile in every position, one load."""
    held, _ = held_rows(geometry.conv, band_rows, geometry.height, geometry.width)
    bands, rates = -(-geometry.out_height // band_rows), limits.rates
    outs, filters = geometry.out_height * geometry.out_width, filter_size(geometry.depth, geometry.cout)
    loaded = bands * held * geometry.width * geometry.cin + filters * (bands if streams.filters else 1)
    return (
        outs * (least_work(limits, geometry.depth, geometry.cout, written) + geometry.cout / rates.l0c_gm)
        + loaded / rates.gm_l1
        + tables_work(geometry.cout).cycles(rates) * bands
    )


def ways(geometry: ConvGeometry) -> list[Streams]:
    """What L1 may not hold throughout a band: x with a single C1 plane is no smaller by planes."""
    return [RESIDENT, STREAMED, *([Streams(True, True)] if geometry.cin > C0 else [])]


def account(
    geometry: ConvGeometry, limits: Limits, band_rows: int | None = None, written: Written = FREE
) -> Account:
    """The plan of a geometry in words and numbers; arguments and errors as of `make_conv_plan`."""
    found = considered(geometry, limits, band_rows, written, TOLD)
    plan = _with_bands(found.best)
    facts = {
        "bands": f"{len(plan.bands)} of {plan.band_rows} output rows, with {plan.bands[0].x.rows} rows of x",
        "conv": tile_in_words(plan.tile, geometry.cout),
        "filter": "streamed: each band brings it in" if plan.streamed else "in L1 throughout",
    }
    if plan.tile.planes:
        facts["x"] = "by C1 planes: each ACC tile brings them in, one at a time"
    works = {"conv": plan.work}
    return Account(facts, plan.uses(limits), works, found.others(limits.rates), str(found.refused or ""))


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
    return _with_bands(_tiling(geometry, limits, band_rows, streams, written))


def _tiling(
    geometry: ConvGeometry, limits: Limits, band_rows: int, streams: Streams, written: Written
) -> ConvTiling:
    """A tiling in bands of a given height; its errors are those of `tile_conv_bands`."""
    check_band_rows(band_rows, geometry.out_height)
    # A smaller geometry, of which it is asked whether it fits, may break what is true of this one.
    check_written(written, "", geometry.depth, geometry.cout)
    bands = tuple(_bands(geometry, band_rows, streams, kinds=True))
    tile = _tile(geometry, limits, band_rows, streams, written, bands)
    tiling = ConvTiling(geometry, band_rows, tile, streams.filters)
    check_memories(str(tiling), tiling.uses(limits))
    for band in bands:
        check_unfolded("x", tiling.shape, band.x, tile, band.rows)
    if not streams.filters:
        check_uniform(band_rows, [band.x for band in bands])
    return tiling


def _with_bands(tiling: ConvTiling) -> ConvPlan:
    geometry, rows = tiling.geometry, tiling.band_rows
    bands = tuple(_bands(geometry, rows, tiling.streams))
    return ConvPlan(geometry, rows, tiling.tile, tiling.streamed, bands)


def _tile(
    geometry: ConvGeometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: Written,
    bands: Sequence[ConvBand],
) -> Tile:
    """The cheapest ACC tile for bands of a height."""
    held = sum(held_rows(geometry.conv, band_rows, geometry.height, geometry.width))
    _, x = map_part("x", held, geometry.width, geometry.cin, by_planes=streams.x)
    asked = Asked(
        limits,
        geometry.out_width,
        counted_bands(geometry.out_height, geometry.out_width, band_rows),
        rows_below(geometry.conv, geometry.out_width, ((band.rows, band.x) for band in bands)),
        geometry.depth,
        geometry.cout,
        limits.l1 - x,
        written=written,
    )
    if not streams.filters:
        return resident_tile(asked)
    if streams.x:
        size = held * geometry.width * geometry.cin
        asked = replace(asked, planes=geometry.cin // C0, brought=size / limits.rates.gm_l1)
        check_step(asked, "x")
    return cheapest_tile(asked)[0]


def _bands(
    geometry: ConvGeometry, band_rows: int, streams: Streams, *, kinds: bool = False
) -> Iterator[ConvBand]:
    """Bands of y. All read windows of one size, even a shorter last band, so one buffer serves them all.

    If only their `kinds` are wanted, those between the edges, which are all alike, are given once.
    """
    held, spare = held_rows(geometry.conv, band_rows, geometry.height, geometry.width)
    starts = kinds_of(geometry.conv, geometry.out_height, band_rows, range(1, geometry.height - held))
    for row in starts if kinds else range(0, geometry.out_height, band_rows):
        rows = min(band_rows, geometry.out_height - row)
        x = window(geometry.conv, row, rows, geometry.height, held, spare)
        yield ConvBand(row, rows, at_edges(geometry.conv, x, geometry.height) if streams.filters else x)
