"""The two-pass conv pair, whose mid goes through global memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from golden.geometry import C0
from kernels import streamed
from kernels.blocks import add_plane, conv1_tile, conv2_tile, load_plane
from kernels.plan import MAX_PLANES, Band, Plan, Tile
from kernels.windows import Window


def one_plane(plan: Plan) -> Tile:
    """Conv1's ACC tile with the K loop over one C1 plane, in steps of C0."""
    return replace(plan.conv1, step=C0, steps=plan.geometry.conv1.taps)


def _mid_band(pl: Any, plan: Plan, rows: int, x_window: Window) -> Any:
    """A helper `(x, filters, bias, scale, mid, x_row, mid_row) -> mid`: one band of mid, C1 planes as tiles.

    x and mid lie in GM, the filters in L1, bias and scale in their tables.
    """
    geometry = plan.geometry
    band_width, band_x_width = geometry.mid_width, geometry.width
    band_plane = [x_window.rows * geometry.width, C0]
    band_pixels, band_channels = rows * geometry.mid_width, geometry.cmid
    band_tiles, band_tile = plan.conv1.count(band_pixels), plan.conv1.positions
    band_rest, band_last = plan.conv1.rest(band_pixels), plan.conv1.ragged(band_pixels)
    band_start = x_window.skip * geometry.mid_width
    tile = one_plane(plan)
    first_plane = conv1_tile(pl, plan.shape1, tile, x_window, band_pixels)
    load1, load2, load3 = (load_plane(pl, plan, number, x_window) for number in range(1, MAX_PLANES))
    add1, add2, add3 = (
        add_plane(pl, plan, tile, number, x_window, band_pixels) for number in range(1, MAX_PLANES)
    )

    @pl.inline
    def band_of_mid(
        band_x: Any,
        band_taps: Any,
        band_bias: Any,
        band_scale: Any,
        band_mid: Any,
        band_x_row: Any,
        band_mid_row: Any,
    ) -> Any:
        plane0 = pl.load(band_x, [band_x_row * band_x_width, 0], band_plane, target_memory=pl.MemorySpace.Mat)
        plane1 = load1(plane0, band_x, band_x_row)
        plane2 = load2(plane0, band_x, band_x_row)
        plane3 = load3(plane0, band_x, band_x_row)
        for mid_tile in pl.range(band_tiles):
            acc0 = first_plane(plane0, band_taps, band_bias, band_start + mid_tile * band_tile)
            acc1 = add1(acc0, plane1, band_taps, band_start + mid_tile * band_tile)
            acc2 = add2(acc1, plane2, band_taps, band_start + mid_tile * band_tile)
            acc3 = add3(acc2, plane3, band_taps, band_start + mid_tile * band_tile)
            if mid_tile == band_last:
                acc3 = pl.tile.set_validshape(acc3, band_rest, band_channels)
            band_mid = pl.tile.fixpipe_store(
                acc3, band_scale, band_mid, [band_mid_row * band_width + mid_tile * band_tile, 0]
            )
        return band_mid

    return band_of_mid


def build_pass1(pl: Any, plan: Plan) -> Any:
    """The first pass: `main(x, filter1, bias1, scale1, mid)`, the whole mid image into GM as NHWC rows.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    if not plan.plain:
        return streamed.build_pass1(pl, plan)
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    mid_shape = [geometry.mid_height * geometry.mid_width, geometry.cmid]
    filter_shape, row_shape = [geometry.depth1, geometry.cmid], [1, geometry.cmid]
    bands = plan.pass1
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_x, inner_step = inner[2].row, bands[min(2, last_band)][2].row - inner[2].row
    rows_of_band = bands[0][1]
    last_x, last_mid = bands[-1][2].row, bands[-1][0]
    first_of_mid, inner_of_mid, last_of_mid = (
        _mid_band(pl, plan, rows, x) for _, rows, x in (bands[0], inner, bands[-1])
    )

    @pl.program
    class Pass1:
        @pl.function(type=pl.FunctionType.InCore)
        def pass1(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            mid: pl.Out[pl.Tensor[mid_shape, pl.INT8]],
        ) -> pl.Tensor[mid_shape, pl.INT8]:
            f1 = pl.load(filter1, [0, 0], filter_shape, target_memory=pl.MemorySpace.Mat)
            b1 = pl.load(bias1, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            s1 = pl.load(scale1, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            bias = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            # Interior bands first: a loop carries what was bound before it, and PyPTO cannot carry two names
            # of one tile, such as a plane's and load_plane's own.
            if interior:
                for band in pl.range(1, last_band):
                    mid = inner_of_mid(
                        x, f1, bias, scale, mid, inner_x + (band - 1) * inner_step, band * rows_of_band
                    )
            mid = first_of_mid(x, f1, bias, scale, mid, 0, 0)
            if several:
                mid = last_of_mid(x, f1, bias, scale, mid, last_x, last_mid)
            return mid

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            mid: pl.Out[pl.Tensor[mid_shape, pl.INT8]],
        ) -> pl.Tensor[mid_shape, pl.INT8]:
            mid = self.pass1(x, filter1, bias1, scale1, mid)
            return mid

    return Pass1


def _band_from_mid(pl: Any, plan: Plan, band: Band) -> Any:
    """A helper `(mid, filters, bias, scale, y, mid_row, y_row) -> y`: one band of y from mid rows in GM."""
    geometry = plan.geometry
    band_width, band_out_width = geometry.mid_width, geometry.out_width
    band_pixels, band_channels = band.rows * geometry.out_width, geometry.cout
    band_rows = [band.mid.rows * geometry.mid_width, geometry.cmid]
    band_tiles, band_tile = plan.conv2.count(band_pixels), plan.conv2.positions
    band_rest, band_last = plan.conv2.rest(band_pixels), plan.conv2.ragged(band_pixels)
    band_start = band.mid.skip * geometry.out_width
    second_conv = conv2_tile(pl, plan.shape2, plan.conv2, band.mid, band_pixels)

    @pl.inline
    def band_from_mid(
        band_mid: Any,
        band_taps: Any,
        band_bias: Any,
        band_scale: Any,
        band_y: Any,
        band_mid_row: Any,
        band_y_row: Any,
    ) -> Any:
        mid_rows = pl.load(
            band_mid, [band_mid_row * band_width, 0], band_rows, target_memory=pl.MemorySpace.Mat
        )
        for out_tile in pl.range(band_tiles):
            acc = second_conv(mid_rows, band_taps, band_bias, band_start + out_tile * band_tile)
            if out_tile == band_last:
                acc = pl.tile.set_validshape(acc, band_rest, band_channels)
            band_y = pl.tile.fixpipe_store(
                acc, band_scale, band_y, [band_y_row * band_out_width + out_tile * band_tile, 0]
            )
        return band_y

    return band_from_mid


def build_pass2(pl: Any, plan: Plan) -> Any:
    """The second pass: `main(mid, filter2, bias2, scale2, y)`, with the fused kernel's bands.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    if plan.streamed or plan.bands[0].mid.spare:
        return streamed.build_pass2(pl, plan)
    geometry = plan.geometry
    mid_shape = [geometry.mid_height * geometry.mid_width, geometry.cmid]
    y_shape = [geometry.out_height * geometry.out_width, geometry.cout]
    filter_shape, row_shape = [geometry.depth2, geometry.cout], [1, geometry.cout]
    bands = plan.bands
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_mid, inner_step = inner.mid.row, bands[min(2, last_band)].mid.row - inner.mid.row
    rows_of_band = plan.band_rows
    last_mid, last_y = bands[-1].mid.row, bands[-1].row
    first_of_y, inner_of_y, last_of_y = (
        _band_from_mid(pl, plan, band) for band in (bands[0], inner, bands[-1])
    )

    @pl.program
    class Pass2:
        @pl.function(type=pl.FunctionType.InCore)
        def pass2(
            self,
            mid: pl.Tensor[mid_shape, pl.INT8],
            filter2: pl.Tensor[filter_shape, pl.INT8],
            bias2: pl.Tensor[row_shape, pl.INT32],
            scale2: pl.Tensor[row_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            f2 = pl.load(filter2, [0, 0], filter_shape, target_memory=pl.MemorySpace.Mat)
            b2 = pl.load(bias2, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(scale2, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            bias = pl.move(b2, target_memory=pl.MemorySpace.Bias)
            scale = pl.move(s2, target_memory=pl.MemorySpace.LeftScale)
            y = first_of_y(mid, f2, bias, scale, y, 0, 0)
            if interior:
                for band in pl.range(1, last_band):
                    y = inner_of_y(
                        mid, f2, bias, scale, y, inner_mid + (band - 1) * inner_step, band * rows_of_band
                    )
            if several:
                y = last_of_y(mid, f2, bias, scale, y, last_mid, last_y)
            return y

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            mid: pl.Tensor[mid_shape, pl.INT8],
            filter2: pl.Tensor[filter_shape, pl.INT8],
            bias2: pl.Tensor[row_shape, pl.INT32],
            scale2: pl.Tensor[row_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            y = self.pass2(mid, filter2, bias2, scale2, y)
            return y

    return Pass2
