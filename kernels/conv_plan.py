"""How one convolution is tiled: bands of output rows, made of the same pieces as the pair's plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from golden.geometry import C0, ConvGeometry
from kernels.plan import (
    LONGEST_STEP,
    ConvShape,
    Limits,
    Tile,
    Window,
    acc_tile,
    check_band_rows,
    check_image,
    check_memories,
    check_uniform,
    check_whole,
    conv_shape,
    held_rows,
    highest_bands,
    staged_bytes,
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
    """A tiled convolution: its bands, and the ACC tile they are computed in."""

    geometry: ConvGeometry
    band_rows: int
    bands: tuple[ConvBand, ...]
    tile: Tile

    @property
    def planes(self) -> int:
        """C1 planes of x."""
        return self.geometry.cin // C0

    @property
    def shape(self) -> ConvShape:
        """The convolution."""
        return conv_shape(self.geometry.conv, self.geometry.width, self.geometry.cout)


def make_conv_plan(geometry: ConvGeometry, limits: Limits) -> ConvPlan:
    """Tile a convolution, its bands as high as the memories allow (see `kernels.plan.highest_bands`).

    Raises:
        PlanError: no band height fits; the message gives the rule that the smallest one breaks.
    """
    return highest_bands(
        geometry.out_height,
        geometry.out_width,
        lambda band_rows: tile_conv_bands(geometry, limits, band_rows),
    )


def tile_conv_bands(geometry: ConvGeometry, limits: Limits, band_rows: int) -> ConvPlan:
    """Tile a convolution in bands of a given height.

    Raises:
        PlanError: the height, or a size that follows from it, breaks a rule.
    """
    check_band_rows(band_rows, geometry.out_height)
    tile = acc_tile(geometry.out_width, geometry.depth, LONGEST_STEP)
    plan = ConvPlan(geometry, band_rows, tuple(_bands(geometry, band_rows)), tile)
    for band in plan.bands:
        check_whole("output rows of a band", band.rows, tile.rows)
        check_image("x rows x columns of a band", band.x.rows, geometry.width)
    check_uniform(band_rows, [band.x for band in plan.bands])
    held = max(band.x.rows for band in plan.bands) * geometry.width * geometry.cin
    staged = staged_bytes(geometry.depth, geometry.cout)
    uses = [("L1", held + staged, limits.l1), *tile_uses([(tile, geometry.cout)], limits)]
    check_memories(f"bands of {band_rows} rows", uses)
    return plan


def _bands(geometry: ConvGeometry, band_rows: int) -> Iterator[ConvBand]:
    """Bands of y. All read windows of one size, even a shorter last band, so one buffer serves them all."""
    held = held_rows(geometry.conv, band_rows, geometry.height, geometry.width)
    for row in range(0, geometry.out_height, band_rows):
        rows = min(band_rows, geometry.out_height - row)
        yield ConvBand(row, rows, window(geometry.conv, row, rows, geometry.height, held))
