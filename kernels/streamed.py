"""Programs whose filters are not in L1 throughout: each band brings them in by blocks of output channels.

They are built where `Plan.streamed` says so, and `pass1` also where x has more C1 planes than it keeps as
tiles. Where not even the narrowest block fits, it comes in by slices of K. An accumulator is kept over all
of them, so that no partial sum goes through GM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from golden.geometry import C0, ConvGeometry, Geometry
from kernels.blocks import conv1_tile, conv2_tile
from kernels.conv_plan import ConvBand, ConvPlan
from kernels.plan import Band, ConvShape, Plan, Tile, Window, unfolded_padding


def map_of_x(pl: Any, geometry: Geometry | ConvGeometry, window: Window) -> Any:
    """A helper `(x, x_row) -> feature_map`: the x rows of a window, gathered plane by plane.

    Args:
        pl: the DSL.
        geometry: the shapes of x.
        window: what to gather; rows of zeros lie under it.
    """
    map_planes, map_c0, map_channels = geometry.cin // C0, C0, geometry.cin
    map_image, map_width = geometry.height * geometry.width, geometry.width
    map_pixels, map_spare = window.rows * geometry.width, window.spare > 0
    map_plane, map_shape = [map_pixels, C0], [window.held * geometry.width, geometry.cin]

    @pl.inline
    def map_of_x(map_x: Any, map_row: Any) -> Any:
        feature_map = pl.tile.create(map_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if map_spare:
            feature_map = pl.tile.set_validshape(feature_map, map_pixels, map_channels)
            feature_map = pl.tile.fillpad_inplace(feature_map)
        for plane in pl.range(map_planes):
            feature_map = pl.tile.gather_row(
                feature_map,
                map_x,
                dst_offset=[0, plane * map_c0],
                src_offset=[plane * map_image + map_row * map_width, 0],
                shapes=map_plane,
            )
        return feature_map

    return map_of_x


def conv1_more(pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int) -> Any:
    """A helper `(acc, feature_map, filters, position, depth) -> acc`: adds a slice of K to `conv1_tile`'s.

    Args:
        pl: the DSL.
        shape: the convolution.
        tile: the K loop over one slice.
        window: the rows of the map and the padding around them.
        positions: output positions that all tiles of the map compute.
    """
    conv1_shape, conv1_filter = [tile.positions, tile.step], [tile.step, shape.channels]
    conv1_step, conv1_steps = tile.step, tile.steps
    padded = unfolded_padding(shape, window, tile, positions)
    conv1_image, conv1_padding = (window.held, shape.width), padded
    conv1_kernel, conv1_stride = shape.kernel, shape.stride

    @pl.inline
    def conv1_more(
        conv1_acc: Any, conv1_map: Any, conv1_taps: Any, conv1_position: Any, conv1_depth: Any
    ) -> Any:
        for conv1_k in pl.range(conv1_steps):
            conv1_a = pl.tile.img2col(
                conv1_map,
                conv1_position,
                conv1_depth + conv1_k * conv1_step,
                conv1_shape,
                image_shape=conv1_image,
                kernel_size=conv1_kernel,
                stride=conv1_stride,
                padding=conv1_padding,
            )
            conv1_b = pl.tile.extract(
                conv1_taps, conv1_k * conv1_step, 0, shape=conv1_filter, target_memory=pl.MemorySpace.Right
            )
            conv1_acc = pl.tile.matmul_acc(conv1_acc, conv1_a, conv1_b)
        return conv1_acc

    return conv1_more


def conv2_more(pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int) -> Any:
    """A helper `(acc, mid, filters, position, depth) -> acc`: adds a slice of K to `conv2_tile`'s.

    Args:
        pl: the DSL.
        shape: the convolution.
        tile: the K loop over one slice.
        window: the rows of the map and the padding around them.
        positions: output positions that all tiles of the map compute.
    """
    conv2_shape, conv2_filter = [tile.positions, tile.step], [tile.step, shape.channels]
    conv2_step, conv2_steps = tile.step, tile.steps
    padded = unfolded_padding(shape, window, tile, positions)
    conv2_image, conv2_padding = (window.held, shape.width), padded
    conv2_kernel, conv2_stride = shape.kernel, shape.stride

    @pl.inline
    def conv2_more(
        conv2_acc: Any, conv2_map: Any, conv2_taps: Any, conv2_position: Any, conv2_depth: Any
    ) -> Any:
        for conv2_k in pl.range(conv2_steps):
            conv2_a = pl.tile.img2col(
                conv2_map,
                conv2_position,
                conv2_depth + conv2_k * conv2_step,
                conv2_shape,
                image_shape=conv2_image,
                kernel_size=conv2_kernel,
                stride=conv2_stride,
                padding=conv2_padding,
            )
            conv2_b = pl.tile.extract(
                conv2_taps, conv2_k * conv2_step, 0, shape=conv2_filter, target_memory=pl.MemorySpace.Right
            )
            conv2_acc = pl.tile.matmul_acc(conv2_acc, conv2_a, conv2_b)
        return conv2_acc

    return conv2_more


def blocks_to_l1(pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int, channels: int) -> Any:
    """A helper `(map, filter, bias, scale, mid) -> mid`: a convolution into L1, block by block.

    Map and mid lie in L1, the others in GM. A filter that comes in by slices of K is loaded anew for each
    ACC tile.

    Args:
        pl: the DSL.
        shape: the convolution; its channels are those of a block.
        tile: its ACC tile.
        window: the rows of the map.
        positions: output positions to compute.
        channels: of all blocks.
    """
    near_columns, near_blocks = shape.channels, channels // shape.channels
    near_taps, near_row = [tile.slice, near_columns], [1, near_columns]
    near_tiles, near_tile, near_rest = tile.count(positions), tile.positions, tile.rest(positions)
    near_last, near_start = tile.ragged(positions), window.skip * shape.out_width
    part = replace(tile, steps=tile.steps // tile.slices)
    near_conv = conv1_tile(pl, shape, part, window, positions)
    near_more = conv1_more(pl, shape, part, window, positions)
    near_slices, near_depth = tile.slices, tile.slice

    @pl.inline
    def blocks_to_l1(near_map: Any, near_filter: Any, near_bias: Any, near_scale: Any, near_mid: Any) -> Any:
        for block1 in pl.range(near_blocks):
            f1 = pl.load(near_filter, [0, block1 * near_columns], near_taps, target_memory=pl.MemorySpace.Mat)
            b1 = pl.load(near_bias, [0, block1 * near_columns], near_row, target_memory=pl.MemorySpace.Mat)
            s1 = pl.load(near_scale, [0, block1 * near_columns], near_row, target_memory=pl.MemorySpace.Mat)
            bias_table1 = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale_table1 = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            for mid_tile in pl.range(near_tiles):
                acc1 = near_conv(near_map, f1, bias_table1, near_start + mid_tile * near_tile)
                if mid_tile == near_last:
                    acc1 = pl.tile.set_validshape(acc1, near_rest, near_columns)
                near_mid = pl.tile.fixpipe_requant(
                    near_mid, acc1, scale_table1, [mid_tile * near_tile, block1 * near_columns]
                )
        return near_mid

    @pl.inline
    def slices_to_l1(near_map: Any, near_filter: Any, near_bias: Any, near_scale: Any, near_mid: Any) -> Any:
        for block1 in pl.range(near_blocks):
            b1 = pl.load(near_bias, [0, block1 * near_columns], near_row, target_memory=pl.MemorySpace.Mat)
            s1 = pl.load(near_scale, [0, block1 * near_columns], near_row, target_memory=pl.MemorySpace.Mat)
            bias_table1 = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale_table1 = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            for mid_tile in pl.range(near_tiles):
                f1 = pl.load(
                    near_filter, [0, block1 * near_columns], near_taps, target_memory=pl.MemorySpace.Mat
                )
                acc1 = near_conv(near_map, f1, bias_table1, near_start + mid_tile * near_tile)
                for slice1 in pl.range(1, near_slices):
                    more1 = pl.load(
                        near_filter,
                        [slice1 * near_depth, block1 * near_columns],
                        near_taps,
                        target_memory=pl.MemorySpace.Mat,
                    )
                    acc1 = near_more(
                        acc1, near_map, more1, near_start + mid_tile * near_tile, slice1 * near_depth
                    )
                if mid_tile == near_last:
                    acc1 = pl.tile.set_validshape(acc1, near_rest, near_columns)
                near_mid = pl.tile.fixpipe_requant(
                    near_mid, acc1, scale_table1, [mid_tile * near_tile, block1 * near_columns]
                )
        return near_mid

    return blocks_to_l1 if tile.slices == 1 else slices_to_l1


def blocks_to_gm(pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int, channels: int) -> Any:
    """A helper `(map, filter, bias, scale, out, position) -> out`: a convolution into GM, block by block.

    The map lies in L1, the others in GM; `position` is the first output position. Arguments as of
    `blocks_to_l1`.
    """
    far_columns, far_blocks = shape.channels, channels // shape.channels
    far_taps, far_row = [tile.slice, far_columns], [1, far_columns]
    far_tiles, far_tile, far_rest = tile.count(positions), tile.positions, tile.rest(positions)
    far_last, far_start = tile.ragged(positions), window.skip * shape.out_width
    part = replace(tile, steps=tile.steps // tile.slices)
    far_conv = conv2_tile(pl, shape, part, window, positions)
    far_more = conv2_more(pl, shape, part, window, positions)
    far_slices, far_depth = tile.slices, tile.slice

    @pl.inline
    def blocks_to_gm(
        far_map: Any, far_filter: Any, far_bias: Any, far_scale: Any, far_out: Any, far_position: Any
    ) -> Any:
        for block2 in pl.range(far_blocks):
            f2 = pl.load(far_filter, [0, block2 * far_columns], far_taps, target_memory=pl.MemorySpace.Mat)
            b2 = pl.load(far_bias, [0, block2 * far_columns], far_row, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(far_scale, [0, block2 * far_columns], far_row, target_memory=pl.MemorySpace.Mat)
            bias_table2 = pl.move(b2, target_memory=pl.MemorySpace.Bias)
            scale_table2 = pl.move(s2, target_memory=pl.MemorySpace.LeftScale)
            for out_tile in pl.range(far_tiles):
                acc2 = far_conv(far_map, f2, bias_table2, far_start + out_tile * far_tile)
                if out_tile == far_last:
                    acc2 = pl.tile.set_validshape(acc2, far_rest, far_columns)
                far_out = pl.tile.fixpipe_store(
                    acc2, scale_table2, far_out, [far_position + out_tile * far_tile, block2 * far_columns]
                )
        return far_out

    @pl.inline
    def slices_to_gm(
        far_map: Any, far_filter: Any, far_bias: Any, far_scale: Any, far_out: Any, far_position: Any
    ) -> Any:
        for block2 in pl.range(far_blocks):
            b2 = pl.load(far_bias, [0, block2 * far_columns], far_row, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(far_scale, [0, block2 * far_columns], far_row, target_memory=pl.MemorySpace.Mat)
            bias_table2 = pl.move(b2, target_memory=pl.MemorySpace.Bias)
            scale_table2 = pl.move(s2, target_memory=pl.MemorySpace.LeftScale)
            for out_tile in pl.range(far_tiles):
                f2 = pl.load(
                    far_filter, [0, block2 * far_columns], far_taps, target_memory=pl.MemorySpace.Mat
                )
                acc2 = far_conv(far_map, f2, bias_table2, far_start + out_tile * far_tile)
                for slice2 in pl.range(1, far_slices):
                    more2 = pl.load(
                        far_filter,
                        [slice2 * far_depth, block2 * far_columns],
                        far_taps,
                        target_memory=pl.MemorySpace.Mat,
                    )
                    acc2 = far_more(acc2, far_map, more2, far_start + out_tile * far_tile, slice2 * far_depth)
                if out_tile == far_last:
                    acc2 = pl.tile.set_validshape(acc2, far_rest, far_columns)
                far_out = pl.tile.fixpipe_store(
                    acc2, scale_table2, far_out, [far_position + out_tile * far_tile, block2 * far_columns]
                )
        return far_out

    return blocks_to_gm if tile.slices == 1 else slices_to_gm


def _fused_band(pl: Any, plan: Plan, band: Band) -> Any:
    """A helper that computes one band of y, called as `kernels.fused_conv2d` calls its own; all is in GM."""
    geometry = plan.geometry
    band_mid, band_width = [band.mid.held * geometry.mid_width, geometry.cmid], geometry.out_width
    band_spare, band_pixels = band.mid.spare > 0, band.mid.rows * geometry.mid_width
    band_channels = geometry.cmid
    gathered = map_of_x(pl, geometry, band.x)
    first = blocks_to_l1(pl, plan.shape1, plan.conv1, band.x, band_pixels, geometry.cmid)
    second = blocks_to_gm(
        pl, plan.shape2, plan.conv2, band.mid, band.rows * geometry.out_width, geometry.cout
    )

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
    ) -> Any:
        # mid comes first: it outlives the feature map, whose place the second filter may then have.
        mid = pl.tile.create(band_mid, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if band_spare:
            mid = pl.tile.set_validshape(mid, band_pixels, band_channels)
            mid = pl.tile.fillpad_inplace(mid)
        feature_map = gathered(band_x, band_x_row)
        mid = first(feature_map, band_filter1, band_bias1, band_scale1, mid)
        band_y = second(mid, band_filter2, band_bias2, band_scale2, band_y, band_y_row * band_width)
        return band_y

    return band_of_y


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
    bands = plan.bands
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_x, inner_step = inner.x.row, bands[min(2, last_band)].x.row - inner.x.row
    rows_of_band = plan.band_rows
    last_x, last_y = bands[-1].x.row, bands[-1].row
    first_of_y, inner_of_y, last_of_y = (_fused_band(pl, plan, band) for band in (bands[0], inner, bands[-1]))

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
            y = first_of_y(x, filter1, bias1, scale1, filter2, bias2, scale2, y, 0, 0)
            if interior:
                for band in pl.range(1, last_band):
                    y = inner_of_y(
                        x,
                        filter1,
                        bias1,
                        scale1,
                        filter2,
                        bias2,
                        scale2,
                        y,
                        inner_x + (band - 1) * inner_step,
                        band * rows_of_band,
                    )
            if several:
                y = last_of_y(x, filter1, bias1, scale1, filter2, bias2, scale2, y, last_x, last_y)
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


def _conv_band(pl: Any, plan: ConvPlan, band: ConvBand) -> Any:
    """A helper `(x, filter, bias, scale, y, x_row, y_row) -> y`: one band of y, all tensors in GM."""
    geometry = plan.geometry
    band_width, pixels = geometry.out_width, band.rows * geometry.out_width
    gathered = map_of_x(pl, geometry, band.x)
    only = blocks_to_gm(pl, plan.shape, plan.tile, band.x, pixels, geometry.cout)

    @pl.inline
    def band_of_y(
        band_x: Any,
        band_filter: Any,
        band_bias: Any,
        band_scale: Any,
        band_y: Any,
        band_x_row: Any,
        band_y_row: Any,
    ) -> Any:
        feature_map = gathered(band_x, band_x_row)
        band_y = only(feature_map, band_filter, band_bias, band_scale, band_y, band_y_row * band_width)
        return band_y

    return band_of_y


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
    bands = plan.bands
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_x, inner_step = inner.x.row, bands[min(2, last_band)].x.row - inner.x.row
    rows_of_band = bands[0].rows
    last_x, last_y = bands[-1].x.row, bands[-1].row
    first_of_y, inner_of_y, last_of_y = (_conv_band(pl, plan, band) for band in (bands[0], inner, bands[-1]))

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
            y = first_of_y(x, filter, bias, scale, y, 0, 0)
            if interior:
                for band in pl.range(1, last_band):
                    y = inner_of_y(
                        x,
                        filter,
                        bias,
                        scale,
                        y,
                        inner_x + (band - 1) * inner_step,
                        band * rows_of_band,
                    )
            if several:
                y = last_of_y(x, filter, bias, scale, y, last_x, last_y)
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
    bands = alone.bands
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_x, inner_step = inner.x.row, bands[min(2, last_band)].x.row - inner.x.row
    rows_of_band = bands[0].rows
    last_x, last_mid = bands[-1].x.row, bands[-1].row
    first_of_mid, inner_of_mid, last_of_mid = (
        _conv_band(pl, alone, band) for band in (bands[0], inner, bands[-1])
    )

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
            mid = first_of_mid(x, filter1, bias1, scale1, mid, 0, 0)
            if interior:
                for band in pl.range(1, last_band):
                    mid = inner_of_mid(
                        x,
                        filter1,
                        bias1,
                        scale1,
                        mid,
                        inner_x + (band - 1) * inner_step,
                        band * rows_of_band,
                    )
            if several:
                mid = last_of_mid(x, filter1, bias1, scale1, mid, last_x, last_mid)
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
    return ConvPlan(alone, bands[0].rows, bands, plan.conv1, plan.streamed)


def _mid_band(pl: Any, plan: Plan, band: Band) -> Any:
    """A helper `(mid, filter, bias, scale, y, mid_row, y_row) -> y`: one band of y, all tensors in GM."""
    geometry = plan.geometry
    band_shape, band_channels = [band.mid.held * geometry.mid_width, geometry.cmid], geometry.cmid
    band_width, band_out_width = geometry.mid_width, geometry.out_width
    band_loaded, band_spare = [band.mid.rows * geometry.mid_width, geometry.cmid], band.mid.spare > 0
    band_pixels = band.mid.rows * geometry.mid_width
    pixels = band.rows * geometry.out_width
    second = blocks_to_gm(pl, plan.shape2, plan.conv2, band.mid, pixels, geometry.cout)

    @pl.inline
    def band_of_y(
        band_mid: Any,
        band_filter: Any,
        band_bias: Any,
        band_scale: Any,
        band_y: Any,
        band_mid_row: Any,
        band_y_row: Any,
    ) -> Any:
        mid_rows = pl.tile.create(band_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if band_spare:
            mid_rows = pl.tile.set_validshape(mid_rows, band_pixels, band_channels)
            mid_rows = pl.tile.fillpad_inplace(mid_rows)
        mid_rows = pl.tile.gather_row(
            mid_rows,
            band_mid,
            dst_offset=[0, 0],
            src_offset=[band_mid_row * band_width, 0],
            shapes=band_loaded,
        )
        band_y = second(mid_rows, band_filter, band_bias, band_scale, band_y, band_y_row * band_out_width)
        return band_y

    return band_of_y


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
    bands = plan.bands
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_mid, inner_step = inner.mid.row, bands[min(2, last_band)].mid.row - inner.mid.row
    rows_of_band = plan.band_rows
    last_mid, last_y = bands[-1].mid.row, bands[-1].row
    first_of_y, inner_of_y, last_of_y = (_mid_band(pl, plan, band) for band in (bands[0], inner, bands[-1]))

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
            y = first_of_y(mid, filter2, bias2, scale2, y, 0, 0)
            if interior:
                for band in pl.range(1, last_band):
                    y = inner_of_y(
                        mid,
                        filter2,
                        bias2,
                        scale2,
                        y,
                        inner_mid + (band - 1) * inner_step,
                        band * rows_of_band,
                    )
            if several:
                y = last_of_y(mid, filter2, bias2, scale2, y, last_mid, last_y)
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
    gathered = map_of_x(pl, geometry, window)
    only = blocks_to_gm(pl, plan.shape1, plan.conv1, window, positions, geometry.cmid)

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
            feature_map = gathered(x, 0)
            tile = only(feature_map, filter1, bias1, scale1, tile, 0)
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
    only = blocks_to_gm(pl, plan.shape1, plan.conv1, window, positions, geometry.cmid)

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
            feature_map = pl.load(x_band, [0, 0], band_shape, target_memory=pl.MemorySpace.Mat)
            tile = only(feature_map, filter1, bias1, scale1, tile, 0)
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
    mid_shape, placeholder_a = [band.mid.held * geometry.mid_width, geometry.cmid], [16, 32]
    gathered = map_of_x(pl, geometry, band.x)
    only = blocks_to_gm(pl, plan.shape1, plan.conv1, band.x, positions, geometry.cmid)

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
            feature_map = gathered(x, 0)
            tile = only(feature_map, filter1, bias1, scale1, tile, 0)
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
