"""The fused conv pair: one kernel, band by band, whose int8 mid stays in L1 between the convolutions."""

from __future__ import annotations

from typing import Any

from golden.geometry import C0
from kernels import streamed
from kernels.blocks import conv1_tile, conv2_tile
from kernels.plan import Band, Plan, PlanError


def fused_band(pl: Any, plan: Plan, band: Band) -> Any:
    """A helper that computes one band of y: gather x, conv1 into the L1 mid, conv2 out of it.

    Called as `(x, filter1, bias1, scale1, filter2, bias2, scale2, y, x_row, y_row) -> y` with x and y in GM
    and the rest in L1. The band's padding is a compile-time constant.

    Raises:
        PlanError: the plan's filters are streamed: they do not fit L1.
    """
    if plan.streamed:
        raise PlanError("the filters of this geometry are streamed, and the program keeps them in L1")
    geometry = plan.geometry
    band_planes, band_c0 = plan.planes, C0
    band_image, band_width = geometry.height * geometry.width, geometry.width
    band_plane = [band.x.rows * geometry.width, C0]
    band_map = [band.x.held * geometry.width, geometry.cin]
    band_mid = [band.mid.held * geometry.mid_width, geometry.cmid]
    band_mid_pixels, band_out_pixels = band.mid.rows * geometry.mid_width, band.rows * geometry.out_width
    band_mid_tiles, band_mid_tile = plan.conv1.count(band_mid_pixels), plan.conv1.positions
    band_mid_start = band.x.skip * geometry.mid_width
    band_out_tiles, band_out_tile = plan.conv2.count(band_out_pixels), plan.conv2.positions
    band_out_start, band_out_width = band.mid.skip * geometry.out_width, geometry.out_width
    first_conv, second_conv = (
        conv1_tile(pl, plan.shape1, plan.conv1, band.x, band_mid_pixels),
        conv2_tile(pl, plan.shape2, plan.conv2, band.mid, band_out_pixels),
    )
    # What follows concerns rows of zeros under a map, and positions of the last tile that nobody wants.
    band_map_spare, band_map_pixels, band_map_channels = (
        band.x.spare > 0,
        band.x.rows * geometry.width,
        geometry.cin,
    )
    band_mid_spare, band_mid_channels = band.mid.spare > 0, geometry.cmid
    band_mid_rest, band_out_rest = plan.conv1.rest(band_mid_pixels), plan.conv2.rest(band_out_pixels)
    band_mid_last, band_out_last = plan.conv1.ragged(band_mid_pixels), plan.conv2.ragged(band_out_pixels)
    band_out_channels = geometry.cout

    @pl.inline
    def band_of_y(
        band_x: Any,
        band_taps1: Any,
        band_bias1: Any,
        band_scale1: Any,
        band_taps2: Any,
        band_bias2: Any,
        band_scale2: Any,
        band_y: Any,
        band_x_row: Any,
        band_y_row: Any,
    ) -> Any:
        feature_map = pl.tile.create(band_map, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if band_map_spare:
            feature_map = pl.tile.set_validshape(feature_map, band_map_pixels, band_map_channels)
            feature_map = pl.tile.fillpad_inplace(feature_map)
        for plane in pl.range(band_planes):
            feature_map = pl.tile.gather_row(
                feature_map,
                band_x,
                dst_offset=[0, plane * band_c0],
                src_offset=[plane * band_image + band_x_row * band_width, 0],
                shapes=band_plane,
            )
        mid = pl.tile.create(band_mid, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if band_mid_spare:
            mid = pl.tile.set_validshape(mid, band_mid_pixels, band_mid_channels)
            mid = pl.tile.fillpad_inplace(mid)
        bias_table1 = pl.move(band_bias1, target_memory=pl.MemorySpace.Bias)
        scale_table1 = pl.move(band_scale1, target_memory=pl.MemorySpace.LeftScale)
        for mid_tile in pl.range(band_mid_tiles):
            acc1 = first_conv(feature_map, band_taps1, bias_table1, band_mid_start + mid_tile * band_mid_tile)
            if mid_tile == band_mid_last:
                acc1 = pl.tile.set_validshape(acc1, band_mid_rest, band_mid_channels)
            mid = pl.tile.fixpipe_requant(mid, acc1, scale_table1, [mid_tile * band_mid_tile, 0])
        bias_table2 = pl.move(band_bias2, target_memory=pl.MemorySpace.Bias)
        scale_table2 = pl.move(band_scale2, target_memory=pl.MemorySpace.LeftScale)
        for out_tile in pl.range(band_out_tiles):
            acc2 = second_conv(mid, band_taps2, bias_table2, band_out_start + out_tile * band_out_tile)
            if out_tile == band_out_last:
                acc2 = pl.tile.set_validshape(acc2, band_out_rest, band_out_channels)
            band_y = pl.tile.fixpipe_store(
                acc2, scale_table2, band_y, [band_y_row * band_out_width + out_tile * band_out_tile, 0]
            )
        return band_y

    return band_of_y


def build_fused(pl: Any, plan: Plan) -> Any:
    """The fused program: `main(x, filter1, bias1, scale1, filter2, bias2, scale2, y)`.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    if plan.streamed:
        return streamed.build_fused(pl, plan)
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    y_shape = [geometry.out_height * geometry.out_width, geometry.cout]
    filter1_shape, filter2_shape = [geometry.depth1, geometry.cmid], [geometry.depth2, geometry.cout]
    row1_shape, row2_shape = [1, geometry.cmid], [1, geometry.cout]
    bands = plan.bands
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_x, inner_step = inner.x.row, bands[min(2, last_band)].x.row - inner.x.row
    rows_of_band = plan.band_rows
    last_x, last_y = bands[-1].x.row, bands[-1].row
    first_of_y, inner_of_y, last_of_y = (fused_band(pl, plan, band) for band in (bands[0], inner, bands[-1]))

    @pl.program
    class FusedConv2d:
        @pl.function(type=pl.FunctionType.InCore)
        def fused(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter1_shape, pl.INT8],
            bias1: pl.Tensor[row1_shape, pl.INT32],
            scale1: pl.Tensor[row1_shape, pl.UINT64],
            filter2: pl.Tensor[filter2_shape, pl.INT8],
            bias2: pl.Tensor[row2_shape, pl.INT32],
            scale2: pl.Tensor[row2_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            f1 = pl.load(filter1, [0, 0], filter1_shape, target_memory=pl.MemorySpace.Mat)
            f2 = pl.load(filter2, [0, 0], filter2_shape, target_memory=pl.MemorySpace.Mat)
            b1 = pl.load(bias1, [0, 0], row1_shape, target_memory=pl.MemorySpace.Mat)
            s1 = pl.load(scale1, [0, 0], row1_shape, target_memory=pl.MemorySpace.Mat)
            b2 = pl.load(bias2, [0, 0], row2_shape, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(scale2, [0, 0], row2_shape, target_memory=pl.MemorySpace.Mat)
            y = first_of_y(x, f1, b1, s1, f2, b2, s2, y, 0, 0)
            if interior:
                for band in pl.range(1, last_band):
                    y = inner_of_y(
                        x,
                        f1,
                        b1,
                        s1,
                        f2,
                        b2,
                        s2,
                        y,
                        inner_x + (band - 1) * inner_step,
                        band * rows_of_band,
                    )
            if several:
                y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, last_y)
            return y

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
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            y = self.fused(x, filter1, bias1, scale1, filter2, bias2, scale2, y)
            return y

    return FusedConv2d
