"""How one convolution is tiled: bands of output rows, made of the same pieces as the pair's plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from golden.geometry import C0, ConvGeometry
from kernels.choice import Account, Considered, Use, check_memories, search
from kernels.cost import Work
from kernels.plan import (
    LONGEST_STEP,
    ConvShape,
    Limits,
    Tile,
    Window,
    acc_tile,
    check_band_rows,
    check_unfolded,
    check_uniform,
    conv_shape,
    conv_work,
    filter_bytes,
    held_rows,
    in_words,
    map_part,
    staged_parts,
    streamed_tile,
    tables_work,
    tile_in_words,
    tile_uses,
    window,
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
        return in_words(self.band_rows, streamed=self.streamed)

    @property
    def planes(self) -> int:
        """C1 planes of x."""
        return self.geometry.cin // C0

    @property
    def sliced(self) -> bool:
        """Whether the filter comes in by slices of K."""
        return self.tile.slices > 1

    @property
    def shape(self) -> ConvShape:
        """The convolution."""
        geometry = self.geometry
        return conv_shape(geometry.conv, geometry.width, self.tile.columns or geometry.cout)

    @property
    def work(self) -> Work:
        """What the program moves and multiplies."""
        geometry, bands = self.geometry, len(self.bands)
        work = tables_work(geometry.cout) * bands
        for band in self.bands:
            work += conv_work(self.tile, band.rows * geometry.out_width, geometry.cout, to_gm=True)
        positions = [band.rows * geometry.out_width for band in self.bands]
        filters = filter_bytes(self.tile, geometry.cout, positions, streamed=self.streamed)
        x = self.bands[0].x.rows * geometry.width * geometry.cin * bands
        return work + Work(gm_l1=x + filters)


def make_conv_plan(geometry: ConvGeometry, limits: Limits, band_rows: int | None = None) -> ConvPlan:
    """Tile a convolution by the cheapest plan that fits; everything is as of `kernels.plan.make_plan`."""
    return considered(geometry, limits, band_rows).best


@lru_cache(maxsize=32)
def considered(geometry: ConvGeometry, limits: Limits, band_rows: int | None = None) -> Considered[ConvPlan]:
    """All plans that fit; arguments and errors as of `make_conv_plan`."""

    def tiled(shapes: ConvGeometry, rows: int, streamed: bool) -> ConvPlan:
        return tile_conv_bands(shapes, limits, rows, streamed)

    return search(geometry, limits.rates, tiled, band_rows, ("width", "cin", "cout"))


def account(geometry: ConvGeometry, limits: Limits, band_rows: int | None = None) -> Account:
    """The plan of a geometry in words and numbers; arguments and errors as of `make_conv_plan`."""
    found = considered(geometry, limits, band_rows)
    plan = found.best
    facts = {
        "bands": f"{len(plan.bands)} of {plan.band_rows} output rows, with {plan.bands[0].x.rows} rows of x",
        "conv": tile_in_words(plan.tile, geometry.cout),
        "filter": "streamed: each band brings it in" if plan.streamed else "in L1 throughout",
    }
    _, uses = _tile(geometry, limits, plan.band_rows, plan.streamed)
    return Account(
        facts, tuple(uses), {"conv": plan.work}, found.others(limits.rates), str(found.refused or "")
    )


def tile_conv_bands(
    geometry: ConvGeometry, limits: Limits, band_rows: int, streamed: bool = False
) -> ConvPlan:
    """Tile a convolution in bands of a given height.

    Raises:
        PlanError: the height, or a size that follows from it, breaks a rule.
    """
    check_band_rows(band_rows, geometry.out_height)
    tile, uses = _tile(geometry, limits, band_rows, streamed)
    check_memories(in_words(band_rows, streamed=streamed), uses)
    kept = tile if streamed else replace(tile, columns=0)
    plan = ConvPlan(geometry, band_rows, tuple(_bands(geometry, band_rows)), kept, streamed)
    for band in plan.bands:
        check_unfolded("x", plan.shape, band.x, tile, band.rows)
    check_uniform(band_rows, [band.x for band in plan.bands])
    return plan


def _tile(geometry: ConvGeometry, limits: Limits, band_rows: int, streamed: bool) -> tuple[Tile, list[Use]]:
    """The ACC tile for bands of a height, and what the program needs of the memories."""
    held = sum(held_rows(geometry.conv, band_rows, geometry.height, geometry.width))
    x = map_part("x", held, geometry.width, geometry.cin)

    positions = band_rows * geometry.out_width
    if streamed:
        room = limits.l1 - x[1]
        tile = streamed_tile(
            room, limits, geometry.out_width, positions, geometry.depth, geometry.cout, LONGEST_STEP
        )
    else:
        depth, columns = geometry.depth, geometry.cout
        tile = acc_tile(geometry.out_width, positions, depth, columns, limits, LONGEST_STEP)
        tile = replace(tile, columns=columns)
    staged = staged_parts(tile.slice, tile.columns)
    return tile, [Use("L1", (x, *staged), limits.l1), *tile_uses([tile], limits)]


def _bands(geometry: ConvGeometry, band_rows: int) -> Iterator[ConvBand]:
    """Bands of y. All read windows of one size, even a shorter last band, so one buffer serves them all."""
    held, spare = held_rows(geometry.conv, band_rows, geometry.height, geometry.width)
    for row in range(0, geometry.out_height, band_rows):
        rows = min(band_rows, geometry.out_height - row)
        yield ConvBand(row, rows, window(geometry.conv, row, rows, geometry.height, held, spare))
