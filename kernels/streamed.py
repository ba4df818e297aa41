"""Programs whose filters are not in L1 throughout: each band brings them in, as `kernels.streams` does.

They are built where `Plan.streamed` says so, and `pass1` and `pass2` also where their resident forms do not
take a map.
"""

from __future__ import annotations

from typing import Any

from golden.geometry import C0, ConvGeometry
from kernels.conv_plan import ConvBand, ConvPlan
from kernels.maps import brings_rows, brings_x
from kernels.plan import Band, Plan, Tile
from kernels.runs import bands_of_conv, bands_of_pair
from kernels.streams import blocks_to_gm, blocks_to_l1, computed_planes_to_gm
from kernels.windows import ConvShape


def _mid_and_y(pl: Any, plan: Plan, band: Band, plane: Any) -> Any:
    """A helper that computes mid of a band into L1 and y from it, called as `computed_planes_to_gm` says."""
    geometry, positions = plan.geometry, band.rows * plan.geometry.out_width
    mids = band.mid.rows * geometry.mid_width
    channels = C0 if plan.conv2.planes else geometry.cmid
    first = blocks_to_l1(pl, plan.shape1, plan.conv1, band.x, mids, channels, plane)
    if plan.conv2.planes:
        return computed_planes_to_gm(pl, plan.shape2, plan.conv2, band.mid, positions, geometry.cout, first)
    second = blocks_to_gm(pl, plan.shape2, plan.conv2, band.mid, positions, geometry.cout, None)

    @pl.inline
    def mid_and_y(
        both_source: Any,
        both_row: Any,
        both_filter1: Any,
        both_bias1: Any,
        both_scale1: Any,
        both_mid: Any,
        both_filter2: Any,
        both_bias2: Any,
        both_scale2: Any,
        both_y: Any,
        both_position: Any,
        both_start1: Any,
        both_start2: Any,
    ) -> Any:
        both_mid = first(
            both_source, both_row, both_filter1, both_bias1, both_scale1, both_mid, both_start1, 0
        )
        both_y = second(
            both_mid, 0, both_filter2, both_bias2, both_scale2, both_y, both_position, both_start2
        )
        return both_y

    return mid_and_y


def _fused_band(pl: Any, plan: Plan, band: Band) -> Any:
    """A helper that computes one band of y, as `kernels.runs.bands_of_pair` calls it; all tensors in GM."""
    geometry = plan.geometry
    band_channels = C0 if plan.conv2.planes else geometry.cmid
    band_shape, band_pixels = (
        [band.mid.held * geometry.mid_width, band_channels],
        band.mid.rows * geometry.mid_width,
    )
    band_spare, band_width, band_mid_width = band.mid.spare > 0, geometry.out_width, geometry.mid_width
    bring = brings_x(pl, geometry, plan.conv1, band.x)
    both = _mid_and_y(pl, plan, band, bring)

    # mid comes first: it outlives the feature map, whose place the second filter may then have.
    @pl.inline
    def band_of_y(
        band_x: Any,
        band_filter1: Any,
        band_bias1: Any,
        band_scale1: Any,
        band_filter2: Any,
        band_bias2: Any,
        band_scale2: Any,
        band_y: Any,
        band_x_row: Any,
        band_y_row: Any,
        band_skip1: Any,
        band_skip2: Any,
    ) -> Any:
        mid = pl.tile.create(band_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if band_spare:
            mid = pl.tile.set_validshape(mid, band_pixels, band_channels)
            mid = pl.tile.fillpad_inplace(mid)
        feature_map = bring(band_x, band_x_row)
        band_y = both(
            feature_map,
            0,
            band_filter1,
            band_bias1,
            band_scale1,
            mid,
            band_filter2,
            band_bias2,
            band_scale2,
            band_y,
            band_y_row * band_width,
            band_skip1 * band_mid_width,
            band_skip2 * band_width,
        )
        return band_y

    @pl.inline
    def band_by_planes(
        band_x: Any,
        band_filter1: Any,
        band_bias1: Any,
        band_scale1: Any,
        band_filter2: Any,
        band_bias2: Any,
        band_scale2: Any,
        band_y: Any,
        band_x_row: Any,
        band_y_row: Any,
        band_skip1: Any,
        band_skip2: Any,
    ) -> Any:
        mid = pl.tile.create(band_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if band_spare:
            mid = pl.tile.set_validshape(mid, band_pixels, band_channels)
            mid = pl.tile.fillpad_inplace(mid)
        band_y = both(
            band_x,
            band_x_row,
            band_filter1,
            band_bias1,
            band_scale1,
            mid,
            band_filter2,
            band_bias2,
            band_scale2,
            band_y,
            band_y_row * band_width,
            band_skip1 * band_mid_width,
            band_skip2 * band_width,
        )
        return band_y

    return band_by_planes if plan.conv1.planes else band_of_y


def build_fused(pl: Any, plan: Plan) -> Any:
    """The fused program: `main(x, filter1, bias1, scale1, filter2, bias2, scale2, y)`.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    y_shape = [geometry.out_height * geometry.out_width, geometry.cout]
    filter1_shape, filter2_shape = [geometry.depth1, geometry.cmid], [geometry.depth2, geometry.cout]
    row1_shape, row2_shape = [1, geometry.cmid], [1, geometry.cout]
    whole = bands_of_pair(pl, plan.bands, lambda band: _fused_band(pl, plan, band))

    @pl.program
    class StreamedFusedConv2d:
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
            y = whole(x, filter1, bias1, scale1, filter2, bias2, scale2, y)
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

    return StreamedFusedConv2d


def _band(pl: Any, shape: ConvShape, tile: Tile, band: ConvBand, channels: int, bring: Any) -> Any:
    """A helper that computes one band, as `kernels.runs.bands_of_conv` calls it; all tensors in GM.

    Args:
        pl: the DSL.
        shape: the convolution.
        tile: its ACC tile.
        band: the band.
        channels: of the output.
        bring: brings in the map, or one plane of it, as `kernels.maps` does.
    """
    band_width, pixels = shape.out_width, band.rows * shape.out_width
    only = blocks_to_gm(pl, shape, tile, band.x, pixels, channels, bring)

    @pl.inline
    def band_of_y(
        band_source: Any,
        band_filter: Any,
        band_bias: Any,
        band_scale: Any,
        band_y: Any,
        band_row: Any,
        band_y_row: Any,
        band_skip: Any,
    ) -> Any:
        feature_map = bring(band_source, band_row)
        band_y = only(
            feature_map,
            0,
            band_filter,
            band_bias,
            band_scale,
            band_y,
            band_y_row * band_width,
            band_skip * band_width,
        )
        return band_y

    @pl.inline
    def band_by_planes(
        band_source: Any,
        band_filter: Any,
        band_bias: Any,
        band_scale: Any,
        band_y: Any,
        band_row: Any,
        band_y_row: Any,
        band_skip: Any,
    ) -> Any:
        band_y = only(
            band_source,
            band_row,
            band_filter,
            band_bias,
            band_scale,
            band_y,
            band_y_row * band_width,
            band_skip * band_width,
        )
        return band_y

    return band_by_planes if tile.planes else band_of_y


def _band_of_x(pl: Any, plan: ConvPlan, band: ConvBand) -> Any:
    bring = brings_x(pl, plan.geometry, plan.tile, band.x)
    return _band(pl, plan.shape, plan.tile, band, plan.geometry.cout, bring)


def _band_of_mid(pl: Any, plan: Plan, band: ConvBand) -> Any:
    geometry = plan.geometry
    bring = brings_rows(pl, geometry.mid_width, geometry.cmid, plan.conv2, band.x)
    return _band(pl, plan.shape2, plan.conv2, band, geometry.cout, bring)


def build_conv(pl: Any, plan: ConvPlan) -> Any:
    """The program of one convolution: `main(x, filter, bias, scale, y)`.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    y_shape = [geometry.out_height * geometry.out_width, geometry.cout]
    filter_shape, row_shape = [geometry.depth, geometry.cout], [1, geometry.cout]
    whole = bands_of_conv(pl, plan.bands, lambda band: _band_of_x(pl, plan, band))

    @pl.program
    class StreamedConv2d:
        @pl.function(type=pl.FunctionType.InCore)
        def conv(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter: pl.Tensor[filter_shape, pl.INT8],
            bias: pl.Tensor[row_shape, pl.INT32],
            scale: pl.Tensor[row_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            y = whole(x, filter, bias, scale, y)
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

    return StreamedConv2d


def build_pass1(pl: Any, plan: Plan) -> Any:
    """The first pass: `main(x, filter1, bias1, scale1, mid)`, the whole mid image into GM as NHWC rows.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    mid_shape = [geometry.mid_height * geometry.mid_width, geometry.cmid]
    filter_shape, row_shape = [geometry.depth1, geometry.cmid], [1, geometry.cmid]
    alone = first_alone(plan)
    whole = bands_of_conv(pl, alone.bands, lambda band: _band_of_x(pl, alone, band))

    @pl.program
    class StreamedPass1:
        @pl.function(type=pl.FunctionType.InCore)
        def pass1(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            scale1: pl.Tensor[row_shape, pl.UINT64],
            mid: pl.Out[pl.Tensor[mid_shape, pl.INT8]],
        ) -> pl.Tensor[mid_shape, pl.INT8]:
            mid = whole(x, filter1, bias1, scale1, mid)
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

    return StreamedPass1


def first_alone(plan: Plan) -> ConvPlan:
    """The first convolution of a pair as a convolution of its own, in the bands of pass1."""
    geometry = plan.geometry
    alone = ConvGeometry(geometry.height, geometry.width, geometry.cin, geometry.cmid, geometry.conv1)
    bands = tuple(ConvBand(*band) for band in plan.pass1)
    return ConvPlan(alone, bands[0].rows, plan.conv1, plan.streamed, bands)


def build_pass2(pl: Any, plan: Plan) -> Any:
    """The second pass: `main(mid, filter2, bias2, scale2, y)`, with the fused kernel's bands.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    geometry = plan.geometry
    mid_shape = [geometry.mid_height * geometry.mid_width, geometry.cmid]
    y_shape = [geometry.out_height * geometry.out_width, geometry.cout]
    filter_shape, row_shape = [geometry.depth2, geometry.cout], [1, geometry.cout]
    bands = [ConvBand(band.row, band.rows, band.mid) for band in plan.bands]
    whole = bands_of_conv(pl, bands, lambda band: _band_of_mid(pl, plan, band))

    @pl.program
    class StreamedPass2:
        @pl.function(type=pl.FunctionType.InCore)
        def pass2(
            self,
            mid: pl.Tensor[mid_shape, pl.INT8],
            filter2: pl.Tensor[filter_shape, pl.INT8],
            bias2: pl.Tensor[row_shape, pl.INT32],
            scale2: pl.Tensor[row_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            y = whole(mid, filter2, bias2, scale2, y)
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

    return StreamedPass2
