"""The first-tile variants of pass1: three ways to load the feature map of the first ACC tile of mid.

Together they tell layout, load and address faults apart.
"""

from __future__ import annotations

from typing import Any

from golden.geometry import C0
from kernels import streamed_tile
from kernels.blocks import add_plane, conv1_tile, load_plane
from kernels.plan import MAX_PLANES, Plan
from kernels.unfused_conv2d import one_plane


def build_first_tile_load(pl: Any, plan: Plan) -> Any:
    """One plain load for each C1 plane: `main(x, filter1, bias1, scale1, tile)`.

    Where pass1 keeps no planes as tiles, they are gathered as it gathers them.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry; the rows loaded are those of its first band.
    """
    if not plan.plain or plan.bands[0].x.spare:
        return streamed_tile.build_first_tile(pl, plan)
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    positions, channels, ragged = plan.first_tile, geometry.cmid, plan.first_tile < plan.conv1.positions
    result_shape = [positions, geometry.cmid]
    filter_shape, row_shape = [geometry.depth1, geometry.cmid], [1, geometry.cmid]
    window = plan.bands[0].x
    load_shape = [window.rows * geometry.width, C0]
    start = window.skip * geometry.mid_width
    plane_loop = one_plane(plan)
    first_plane = conv1_tile(pl, plan.shape1, plane_loop, window, positions)
    load1, load2, load3 = (load_plane(pl, plan, number, window) for number in range(1, MAX_PLANES))
    add1, add2, add3 = (
        add_plane(pl, plan, plane_loop, number, window, positions) for number in range(1, MAX_PLANES)
    )

    @pl.program
    class FirstTileLoad:
        @pl.function(type=pl.FunctionType.InCore)
        def first_tile(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            tile: pl.Out[pl.Tensor[result_shape, pl.INT8]],
        ) -> pl.Tensor[result_shape, pl.INT8]:
            plane0 = pl.load(x, [0, 0], load_shape, target_memory=pl.MemorySpace.Mat)
            plane1 = load1(plane0, x, 0)
            plane2 = load2(plane0, x, 0)
            plane3 = load3(plane0, x, 0)
            f1 = pl.load(filter1, [0, 0], filter_shape, target_memory=pl.MemorySpace.Mat)
            b1 = pl.load(bias1, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            s1 = pl.load(scale1, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            bias = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            acc0 = first_plane(plane0, f1, bias, start)
            acc1 = add1(acc0, plane1, f1, start)
            acc2 = add2(acc1, plane2, f1, start)
            acc = add3(acc2, plane3, f1, start)
            if ragged:
                acc = pl.tile.set_validshape(acc, positions, channels)
            tile = pl.tile.fixpipe_store(acc, scale, tile, [0, 0])
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

    return FirstTileLoad


def build_first_tile_packed(pl: Any, plan: Plan) -> Any:
    """One load of rows that the host packed: `main(x_band, filter1, bias1, scale1, tile)`.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry; `x_band` holds the x rows of its first band as `[rows * width, cin]`, and
            the rows of zeros under them.
    """
    if plan.streamed:
        return streamed_tile.build_first_tile_packed(pl, plan)
    geometry = plan.geometry
    window = plan.bands[0].x
    band_shape = [window.held * geometry.width, geometry.cin]
    positions, channels, ragged = plan.first_tile, geometry.cmid, plan.first_tile < plan.conv1.positions
    result_shape = [positions, geometry.cmid]
    filter_shape, row_shape = [geometry.depth1, geometry.cmid], [1, geometry.cmid]
    start = window.skip * geometry.mid_width
    whole_tile = conv1_tile(pl, plan.shape1, plan.conv1, window, positions)

    @pl.program
    class FirstTilePacked:
        @pl.function(type=pl.FunctionType.InCore)
        def first_tile(
            self,
            x_band: pl.Tensor[band_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            tile: pl.Out[pl.Tensor[result_shape, pl.INT8]],
        ) -> pl.Tensor[result_shape, pl.INT8]:
            feature_map = pl.load(x_band, [0, 0], band_shape, target_memory=pl.MemorySpace.Mat)
            f1 = pl.load(filter1, [0, 0], filter_shape, target_memory=pl.MemorySpace.Mat)
            b1 = pl.load(bias1, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            s1 = pl.load(scale1, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            bias = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            acc = whole_tile(feature_map, f1, bias, start)
            if ragged:
                acc = pl.tile.set_validshape(acc, positions, channels)
            tile = pl.tile.fixpipe_store(acc, scale, tile, [0, 0])
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

    return FirstTilePacked


def build_first_tile_fused_alloc(pl: Any, plan: Plan) -> Any:
    """All L1 tiles of the fused kernel: `main(x, filter1, bias1, scale1, filter2, bias2, scale2, tile)`.

    They are created in its order, so that the feature map has the same address as in the fused kernel.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    if plan.streamed:
        return streamed_tile.build_first_tile_alloc(pl, plan)
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    positions, channels, ragged = plan.first_tile, geometry.cmid, plan.first_tile < plan.conv1.positions
    result_shape = [positions, geometry.cmid]
    filter1_shape, filter2_shape = [geometry.depth1, geometry.cmid], [geometry.depth2, geometry.cout]
    row1_shape, row2_shape = [1, geometry.cmid], [1, geometry.cout]
    band = plan.bands[0]
    planes, image, c0 = plan.planes, geometry.height * geometry.width, C0
    load_shape = [band.x.rows * geometry.width, C0]
    map_shape = [band.x.held * geometry.width, geometry.cin]
    map_spare, map_pixels, map_channels = band.x.spare > 0, band.x.rows * geometry.width, geometry.cin
    mid_shape = [band.mid.held * geometry.mid_width, geometry.cmid]
    mid_spare, mid_pixels = band.mid.spare > 0, band.mid.rows * geometry.mid_width
    start = band.x.skip * geometry.mid_width
    placeholder_a, placeholder_b = [16, 32], [32, geometry.cout]
    whole_tile = conv1_tile(pl, plan.shape1, plan.conv1, band.x, positions)

    @pl.program
    class FirstTileFusedAlloc:
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
            f1 = pl.load(filter1, [0, 0], filter1_shape, target_memory=pl.MemorySpace.Mat)
            f2 = pl.load(filter2, [0, 0], filter2_shape, target_memory=pl.MemorySpace.Mat)
            b1 = pl.load(bias1, [0, 0], row1_shape, target_memory=pl.MemorySpace.Mat)
            s1 = pl.load(scale1, [0, 0], row1_shape, target_memory=pl.MemorySpace.Mat)
            b2 = pl.load(bias2, [0, 0], row2_shape, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(scale2, [0, 0], row2_shape, target_memory=pl.MemorySpace.Mat)
            feature_map = pl.tile.create(map_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
            if map_spare:
                feature_map = pl.tile.set_validshape(feature_map, map_pixels, map_channels)
                feature_map = pl.tile.fillpad_inplace(feature_map)
            for plane in pl.range(planes):
                feature_map = pl.tile.gather_row(
                    feature_map,
                    x,
                    dst_offset=[0, plane * c0],
                    src_offset=[plane * image, 0],
                    shapes=load_shape,
                )
            mid = pl.tile.create(mid_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
            if mid_spare:
                mid = pl.tile.set_validshape(mid, mid_pixels, channels)
                mid = pl.tile.fillpad_inplace(mid)
            bias = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            acc = whole_tile(feature_map, f1, bias, start)
            if ragged:
                acc = pl.tile.set_validshape(acc, positions, channels)
            tile = pl.tile.fixpipe_store(acc, scale, tile, [0, 0])
            mid = pl.tile.fixpipe_requant(mid, acc, scale, [0, 0])
            # Residency placeholder, not conv2: one operand pair is multiplied twice and the result discarded,
            # only to keep mid, filter2 and its rows live in L1 as in the fused kernel. Do not "fix" it.
            second_bias = pl.move(b2, target_memory=pl.MemorySpace.Bias)
            second_scale = pl.move(s2, target_memory=pl.MemorySpace.LeftScale)  # noqa: F841 (residency)
            a = pl.tile.extract(mid, 0, 0, shape=placeholder_a, target_memory=pl.MemorySpace.Left)
            b = pl.tile.extract(f2, 0, 0, shape=placeholder_b, target_memory=pl.MemorySpace.Right)
            discarded = pl.tile.matmul_bias(a, b, second_bias)
            discarded = pl.tile.matmul_acc(discarded, a, b)
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

    return FirstTileFusedAlloc
