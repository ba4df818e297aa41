"""One convolution with requantisation, band by band."""

from __future__ import annotations

from typing import Any

from golden.geometry import C0
from kernels import streamed
from kernels.blocks import conv1_tile
from kernels.conv_plan import ConvBand, ConvPlan


def _band(pl: Any, plan: ConvPlan, band: ConvBand) -> Any:
    """A helper that computes one band of y: gather x, then the convolution tile by tile.

    Called as `(x, filter, bias, scale, y, x_row, y_row) -> y` with x and y in GM and the rest in L1. The
    band's padding is a compile-time constant.
    """
    geometry = plan.geometry
    band_planes, band_c0 = plan.planes, C0
    band_image, band_width = geometry.height * geometry.width, geometry.width
    band_plane = [band.x.rows * geometry.width, C0]
    band_map = [band.x.held * geometry.width, geometry.cin]
    band_pixels = band.rows * geometry.out_width
    band_tiles, band_tile = plan.tile.count(band_pixels), plan.tile.positions
    band_start, band_out_width = band.x.skip * geometry.out_width, geometry.out_width
    only_conv = conv1_tile(pl, plan.shape, plan.tile, band.x, band_pixels)
    band_map_spare, band_map_pixels, band_map_channels = (
        band.x.spare > 0,
        band.x.rows * geometry.width,
        geometry.cin,
    )
    band_rest, band_channels = plan.tile.rest(band_pixels), geometry.cout
    band_last = plan.tile.ragged(band_pixels)

    @pl.inline
    def band_of_y(
        band_x: Any,
        band_taps: Any,
        band_bias: Any,
        band_scale: Any,
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
        bias_table = pl.move(band_bias, target_memory=pl.MemorySpace.Bias)
        scale_table = pl.move(band_scale, target_memory=pl.MemorySpace.LeftScale)
        for out_tile in pl.range(band_tiles):
            acc = only_conv(feature_map, band_taps, bias_table, band_start + out_tile * band_tile)
            if out_tile == band_last:
                acc = pl.tile.set_validshape(acc, band_rest, band_channels)
            band_y = pl.tile.fixpipe_store(
                acc, scale_table, band_y, [band_y_row * band_out_width + out_tile * band_tile, 0]
            )
        return band_y

    return band_of_y


def build_conv(pl: Any, plan: ConvPlan) -> Any:
    """The program of one convolution: `main(x, filter, bias, scale, y)`.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    if plan.streamed:
        return streamed.build_conv(pl, plan)
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    y_shape = [geometry.out_height * geometry.out_width, geometry.cout]
    filter_shape, row_shape = [geometry.depth, geometry.cout], [1, geometry.cout]
    bands = plan.bands
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_x, inner_step = inner.x.row, bands[min(2, last_band)].x.row - inner.x.row
    rows_of_band = plan.band_rows
    last_x, last_y = bands[-1].x.row, bands[-1].row
    first_of_y, inner_of_y, last_of_y = (_band(pl, plan, band) for band in (bands[0], inner, bands[-1]))

    @pl.program
    class Conv2d:
        @pl.function(type=pl.FunctionType.InCore)
        def conv(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter: pl.Tensor[filter_shape, pl.INT8],
            bias: pl.Tensor[row_shape, pl.INT32],
            scale: pl.Tensor[row_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            taps = pl.load(filter, [0, 0], filter_shape, target_memory=pl.MemorySpace.Mat)
            bias_row = pl.load(bias, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            scale_row = pl.load(scale, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            y = first_of_y(x, taps, bias_row, scale_row, y, 0, 0)
            if interior:
                for band in pl.range(1, last_band):
                    y = inner_of_y(
                        x,
                        taps,
                        bias_row,
                        scale_row,
                        y,
                        inner_x + (band - 1) * inner_step,
                        band * rows_of_band,
                    )
            if several:
                y = last_of_y(x, taps, bias_row, scale_row, y, last_x, last_y)
            return y

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter: pl.Tensor[filter_shape, pl.INT8],
            bias: pl.Tensor[row_shape, pl.INT32],
            scale: pl.Tensor[row_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            y = self.conv(x, filter, bias, scale, y)
            return y

    return Conv2d
