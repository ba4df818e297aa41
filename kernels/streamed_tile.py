"""The first-tile variants of pass1 where filters are not in L1 throughout (`kernels.first_tile`)."""

from __future__ import annotations

from typing import Any

from golden.geometry import C0
from kernels.maps import brings_packed, brings_x
from kernels.plan import Plan
from kernels.streams import blocks_to_gm
from kernels.windows import Window


def _tile_of(pl: Any, plan: Plan, window: Window, bring: Any) -> Any:
    """A helper `(source, filter1, bias1, scale1, tile) -> tile`: the first ACC tile of mid into GM."""
    geometry, positions = plan.geometry, plan.first_tile
    tile_bring, tile_start = bring, window.skip * geometry.mid_width
    tile_only = blocks_to_gm(pl, plan.shape1, plan.conv1, window, positions, geometry.cmid, bring)

    @pl.inline
    def tile_of_map(
        tile_source: Any, tile_filter: Any, tile_bias: Any, tile_scale: Any, tile_out: Any
    ) -> Any:
        feature_map = tile_bring(tile_source, 0)
        tile_out = tile_only(feature_map, 0, tile_filter, tile_bias, tile_scale, tile_out, 0, tile_start)
        return tile_out

    @pl.inline
    def tile_of_planes(
        tile_source: Any, tile_filter: Any, tile_bias: Any, tile_scale: Any, tile_out: Any
    ) -> Any:
        tile_out = tile_only(tile_source, 0, tile_filter, tile_bias, tile_scale, tile_out, 0, tile_start)
        return tile_out

    return tile_of_planes if plan.conv1.planes else tile_of_map


def build_first_tile(pl: Any, plan: Plan) -> Any:
    """The first ACC tile of mid from a gathered map: `main(x, filter1, bias1, scale1, tile)`.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    positions, window = plan.first_tile, plan.bands[0].x
    result_shape = [positions, geometry.cmid]
    filter_shape, row_shape = [geometry.depth1, geometry.cmid], [1, geometry.cmid]
    only = _tile_of(pl, plan, window, brings_x(pl, geometry, plan.conv1, window))

    @pl.program
    class StreamedFirstTile:
        @pl.function(type=pl.FunctionType.InCore)
        def first_tile(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            tile: pl.Out[pl.Tensor[result_shape, pl.INT8]],
        ) -> pl.Tensor[result_shape, pl.INT8]:
            tile = only(x, filter1, bias1, scale1, tile)
            return tile

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            tile: pl.Out[pl.Tensor[result_shape, pl.INT8]],
        ) -> pl.Tensor[result_shape, pl.INT8]:
            tile = self.first_tile(x, filter1, bias1, scale1, tile)
            return tile

    return StreamedFirstTile


def build_first_tile_packed(pl: Any, plan: Plan) -> Any:
    """The same from rows that the host packed: `main(x_band, filter1, bias1, scale1, tile)`.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    geometry = plan.geometry
    positions, window = plan.first_tile, plan.bands[0].x
    band_shape = [window.held * geometry.width, geometry.cin]
    result_shape = [positions, geometry.cmid]
    filter_shape, row_shape = [geometry.depth1, geometry.cmid], [1, geometry.cmid]
    only = _tile_of(pl, plan, window, brings_packed(pl, geometry, plan.conv1, window))

    @pl.program
    class StreamedFirstTilePacked:
        @pl.function(type=pl.FunctionType.InCore)
        def first_tile(
            self,
            x_band: pl.Tensor[band_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            tile: pl.Out[pl.Tensor[result_shape, pl.INT8]],
        ) -> pl.Tensor[result_shape, pl.INT8]:
            tile = only(x_band, filter1, bias1, scale1, tile)
            return tile

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            x_band: pl.Tensor[band_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            tile: pl.Out[pl.Tensor[result_shape, pl.INT8]],
        ) -> pl.Tensor[result_shape, pl.INT8]:
            tile = self.first_tile(x_band, filter1, bias1, scale1, tile)
            return tile

    return StreamedFirstTilePacked


def build_first_tile_alloc(pl: Any, plan: Plan) -> Any:
    """The same beside the L1 tiles of the fused program, in its order.

    Called as `main(x, filter1, bias1, scale1, filter2, bias2, scale2, tile)`.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    positions, band = plan.first_tile, plan.bands[0]
    result_shape = [positions, geometry.cmid]
    filter1_shape, filter2_shape = [geometry.depth1, geometry.cmid], [geometry.depth2, geometry.cout]
    row1_shape, row2_shape = [1, geometry.cmid], [1, geometry.cout]
    mid_channels, placeholder_a = C0 if plan.conv2.planes else geometry.cmid, [16, 32]
    mid_shape = [band.mid.held * geometry.mid_width, mid_channels]
    only = _tile_of(pl, plan, band.x, brings_x(pl, geometry, plan.conv1, band.x))

    @pl.program
    class StreamedFirstTileAlloc:
        @pl.function(type=pl.FunctionType.InCore)
        def first_tile(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter1_shape, pl.INT8],
            bias1: pl.Tensor[row1_shape, pl.INT32],
            scale1: pl.Tensor[row1_shape, pl.UINT64],
            filter2: pl.Tensor[filter2_shape, pl.INT8],
            bias2: pl.Tensor[row2_shape, pl.INT32],
            scale2: pl.Tensor[row2_shape, pl.UINT64],
            tile: pl.Out[pl.Tensor[result_shape, pl.INT8]],
        ) -> pl.Tensor[result_shape, pl.INT8]:
            mid = pl.tile.create(mid_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
            # Residency placeholder: mid is given any bytes and read once, only to be live in L1 as in the
            # fused kernel. Do not "fix" it.
            mid = pl.tile.gather_row(mid, filter1, dst_offset=[0, 0], src_offset=[0, 0], shapes=placeholder_a)
            tile = only(x, filter1, bias1, scale1, tile)
            kept = pl.tile.extract(mid, 0, 0, shape=placeholder_a, target_memory=pl.MemorySpace.Left)  # noqa: F841
            return tile

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter1_shape, pl.INT8],
            bias1: pl.Tensor[row1_shape, pl.INT32],
            scale1: pl.Tensor[row1_shape, pl.UINT64],
            filter2: pl.Tensor[filter2_shape, pl.INT8],
            bias2: pl.Tensor[row2_shape, pl.INT32],
            scale2: pl.Tensor[row2_shape, pl.UINT64],
            tile: pl.Out[pl.Tensor[result_shape, pl.INT8]],
        ) -> pl.Tensor[result_shape, pl.INT8]:
            tile = self.first_tile(x, filter1, bias1, scale1, filter2, bias2, scale2, tile)
            return tile

    return StreamedFirstTileAlloc
