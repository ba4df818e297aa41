"""Convolutions whose filters L1 does not hold: they come in by blocks of output channels.

Where not even the narrowest block fits, it comes in by slices of K, for each ACC tile anew; and where L1
does not hold the feature map either, each slice brings in the C1 plane that it reads. An accumulator is kept
over all of them, so that no partial sum goes through GM.

Names have prefixes as in `kernels.blocks`: `near_` where the output goes into L1, `far_` where into GM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from golden.geometry import C0
from kernels.blocks import conv1_more, conv1_tile, conv2_more, conv2_tile
from kernels.tiles import Tile
from kernels.windows import ConvShape, Window


def one_slice(tile: Tile) -> Tile:
    """A tile with the K loop over one slice of the filter."""
    return replace(tile, steps=tile.steps // tile.slices)


def blocks_to_l1(
    pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int, channels: int, plane: Any
) -> Any:
    """A helper that computes a convolution into L1, block by block.

    Called as `(source, row, filter, bias, scale, mid, start, first) -> mid`. The source is the map in L1, or
    the tensor in GM and the row from which its planes come; mid lies in L1, the others in GM. `start` is the
    first position that is wanted, `first` the first output channel.

    Args:
        pl: the DSL.
        shape: the convolution; its channels are those of a block.
        tile: its ACC tile.
        window: the rows of the map.
        positions: output positions to compute.
        channels: of all blocks.
        plane: brings in a plane, as `kernels.maps.plane_of_map` does, if the tile takes them one at a time.
    """
    near_columns, near_blocks = shape.channels, channels // shape.channels
    near_taps, near_row_shape = [tile.slice, near_columns], [1, near_columns]
    near_tiles, near_tile, near_rest = tile.count(positions), tile.positions, tile.rest(positions)
    near_last = tile.ragged(positions)
    near_conv = conv1_tile(pl, shape, one_slice(tile), window, positions)
    near_more = conv1_more(pl, shape, one_slice(tile), window, positions)
    near_slices, near_depth, near_planes = tile.slices // max(tile.planes, 1), tile.slice, tile.planes
    near_plane, near_plane_depth = plane, near_slices * near_depth

    @pl.inline
    def blocks_to_l1(
        near_source: Any,
        near_row: Any,
        near_filter: Any,
        near_bias: Any,
        near_scale: Any,
        near_mid: Any,
        near_start: Any,
        near_first: Any,
    ) -> Any:
        for block1 in pl.range(near_blocks):
            f1 = pl.load(
                near_filter,
                [0, near_first + block1 * near_columns],
                near_taps,
                target_memory=pl.MemorySpace.Mat,
            )
            b1 = pl.load(
                near_bias,
                [0, near_first + block1 * near_columns],
                near_row_shape,
                target_memory=pl.MemorySpace.Mat,
            )
            s1 = pl.load(
                near_scale,
                [0, near_first + block1 * near_columns],
                near_row_shape,
                target_memory=pl.MemorySpace.Mat,
            )
            bias_table1 = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale_table1 = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            for mid_tile in pl.range(near_tiles):
                acc1 = near_conv(near_source, f1, bias_table1, near_start + mid_tile * near_tile)
                if mid_tile == near_last:
                    acc1 = pl.tile.set_validshape(acc1, near_rest, near_columns)
                near_mid = pl.tile.fixpipe_requant(
                    near_mid, acc1, scale_table1, [mid_tile * near_tile, block1 * near_columns]
                )
        return near_mid

    @pl.inline
    def slices_to_l1(
        near_source: Any,
        near_row: Any,
        near_filter: Any,
        near_bias: Any,
        near_scale: Any,
        near_mid: Any,
        near_start: Any,
        near_first: Any,
    ) -> Any:
        for block1 in pl.range(near_blocks):
            b1 = pl.load(
                near_bias,
                [0, near_first + block1 * near_columns],
                near_row_shape,
                target_memory=pl.MemorySpace.Mat,
            )
            s1 = pl.load(
                near_scale,
                [0, near_first + block1 * near_columns],
                near_row_shape,
                target_memory=pl.MemorySpace.Mat,
            )
            bias_table1 = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale_table1 = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            for mid_tile in pl.range(near_tiles):
                f1 = pl.load(
                    near_filter,
                    [0, near_first + block1 * near_columns],
                    near_taps,
                    target_memory=pl.MemorySpace.Mat,
                )
                acc1 = near_conv(near_source, f1, bias_table1, near_start + mid_tile * near_tile)
                for slice1 in pl.range(1, near_slices):
                    more1 = pl.load(
                        near_filter,
                        [slice1 * near_depth, near_first + block1 * near_columns],
                        near_taps,
                        target_memory=pl.MemorySpace.Mat,
                    )
                    acc1 = near_more(
                        acc1,
                        near_source,
                        more1,
                        near_start + mid_tile * near_tile,
                        slice1 * near_depth,
                        0,
                    )
                if mid_tile == near_last:
                    acc1 = pl.tile.set_validshape(acc1, near_rest, near_columns)
                near_mid = pl.tile.fixpipe_requant(
                    near_mid, acc1, scale_table1, [mid_tile * near_tile, block1 * near_columns]
                )
        return near_mid

    @pl.inline
    def planes_to_l1(
        near_source: Any,
        near_row: Any,
        near_filter: Any,
        near_bias: Any,
        near_scale: Any,
        near_mid: Any,
        near_start: Any,
        near_first: Any,
    ) -> Any:
        for block1 in pl.range(near_blocks):
            b1 = pl.load(
                near_bias,
                [0, near_first + block1 * near_columns],
                near_row_shape,
                target_memory=pl.MemorySpace.Mat,
            )
            s1 = pl.load(
                near_scale,
                [0, near_first + block1 * near_columns],
                near_row_shape,
                target_memory=pl.MemorySpace.Mat,
            )
            bias_table1 = pl.move(b1, target_memory=pl.MemorySpace.Bias)
            scale_table1 = pl.move(s1, target_memory=pl.MemorySpace.LeftScale)
            for mid_tile in pl.range(near_tiles):
                map1 = near_plane(near_source, near_row, 0)
                f1 = pl.load(
                    near_filter,
                    [0, near_first + block1 * near_columns],
                    near_taps,
                    target_memory=pl.MemorySpace.Mat,
                )
                acc1 = near_conv(map1, f1, bias_table1, near_start + mid_tile * near_tile)
                for slice1 in pl.range(1, near_slices):
                    more1 = pl.load(
                        near_filter,
                        [slice1 * near_depth, near_first + block1 * near_columns],
                        near_taps,
                        target_memory=pl.MemorySpace.Mat,
                    )
                    acc1 = near_more(
                        acc1, map1, more1, near_start + mid_tile * near_tile, slice1 * near_depth, 0
                    )
                for plane1 in pl.range(1, near_planes):
                    next1 = near_plane(near_source, near_row, plane1)
                    for slice1 in pl.range(near_slices):
                        more1 = pl.load(
                            near_filter,
                            [
                                plane1 * near_plane_depth + slice1 * near_depth,
                                near_first + block1 * near_columns,
                            ],
                            near_taps,
                            target_memory=pl.MemorySpace.Mat,
                        )
                        acc1 = near_more(
                            acc1, next1, more1, near_start + mid_tile * near_tile, slice1 * near_depth, 0
                        )
                if mid_tile == near_last:
                    acc1 = pl.tile.set_validshape(acc1, near_rest, near_columns)
                near_mid = pl.tile.fixpipe_requant(
                    near_mid, acc1, scale_table1, [mid_tile * near_tile, block1 * near_columns]
                )
        return near_mid

    if tile.planes:
        return planes_to_l1
    return blocks_to_l1 if tile.slices == 1 else slices_to_l1


def blocks_to_gm(
    pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int, channels: int, plane: Any
) -> Any:
    """A helper that computes a convolution into GM, block by block.

    Called as `(source, row, filter, bias, scale, out, position, start) -> out`. The source is as of
    `blocks_to_l1`, all others lie in GM; `position` is the first position of `out`, `start` the first of the
    convolution that is wanted. Arguments as of `blocks_to_l1`.
    """
    far_columns, far_blocks = shape.channels, channels // shape.channels
    far_taps, far_row_shape = [tile.slice, far_columns], [1, far_columns]
    far_tiles, far_tile, far_rest = tile.count(positions), tile.positions, tile.rest(positions)
    far_last = tile.ragged(positions)
    far_conv = conv2_tile(pl, shape, one_slice(tile), window, positions)
    far_more = conv2_more(pl, shape, one_slice(tile), window, positions)
    far_slices, far_depth, far_planes = tile.slices // max(tile.planes, 1), tile.slice, tile.planes
    far_plane, far_plane_depth = plane, far_slices * far_depth

    @pl.inline
    def blocks_to_gm(
        far_source: Any,
        far_row: Any,
        far_filter: Any,
        far_bias: Any,
        far_scale: Any,
        far_out: Any,
        far_position: Any,
        far_start: Any,
    ) -> Any:
        for block2 in pl.range(far_blocks):
            f2 = pl.load(far_filter, [0, block2 * far_columns], far_taps, target_memory=pl.MemorySpace.Mat)
            b2 = pl.load(far_bias, [0, block2 * far_columns], far_row_shape, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(
                far_scale, [0, block2 * far_columns], far_row_shape, target_memory=pl.MemorySpace.Mat
            )
            bias_table2 = pl.move(b2, target_memory=pl.MemorySpace.Bias)
            scale_table2 = pl.move(s2, target_memory=pl.MemorySpace.LeftScale)
            for out_tile in pl.range(far_tiles):
                acc2 = far_conv(far_source, f2, bias_table2, far_start + out_tile * far_tile)
                if out_tile == far_last:
                    acc2 = pl.tile.set_validshape(acc2, far_rest, far_columns)
                far_out = pl.tile.fixpipe_store(
                    acc2, scale_table2, far_out, [far_position + out_tile * far_tile, block2 * far_columns]
                )
        return far_out

    @pl.inline
    def slices_to_gm(
        far_source: Any,
        far_row: Any,
        far_filter: Any,
        far_bias: Any,
        far_scale: Any,
        far_out: Any,
        far_position: Any,
        far_start: Any,
    ) -> Any:
        for block2 in pl.range(far_blocks):
            b2 = pl.load(far_bias, [0, block2 * far_columns], far_row_shape, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(
                far_scale, [0, block2 * far_columns], far_row_shape, target_memory=pl.MemorySpace.Mat
            )
            bias_table2 = pl.move(b2, target_memory=pl.MemorySpace.Bias)
            scale_table2 = pl.move(s2, target_memory=pl.MemorySpace.LeftScale)
            for out_tile in pl.range(far_tiles):
                f2 = pl.load(
                    far_filter, [0, block2 * far_columns], far_taps, target_memory=pl.MemorySpace.Mat
                )
                acc2 = far_conv(far_source, f2, bias_table2, far_start + out_tile * far_tile)
                for slice2 in pl.range(1, far_slices):
                    more2 = pl.load(
                        far_filter,
                        [slice2 * far_depth, block2 * far_columns],
                        far_taps,
                        target_memory=pl.MemorySpace.Mat,
                    )
                    acc2 = far_more(
                        acc2, far_source, more2, far_start + out_tile * far_tile, slice2 * far_depth, 0
                    )
                if out_tile == far_last:
                    acc2 = pl.tile.set_validshape(acc2, far_rest, far_columns)
                far_out = pl.tile.fixpipe_store(
                    acc2, scale_table2, far_out, [far_position + out_tile * far_tile, block2 * far_columns]
                )
        return far_out

    @pl.inline
    def planes_to_gm(
        far_source: Any,
        far_row: Any,
        far_filter: Any,
        far_bias: Any,
        far_scale: Any,
        far_out: Any,
        far_position: Any,
        far_start: Any,
    ) -> Any:
        for block2 in pl.range(far_blocks):
            b2 = pl.load(far_bias, [0, block2 * far_columns], far_row_shape, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(
                far_scale, [0, block2 * far_columns], far_row_shape, target_memory=pl.MemorySpace.Mat
            )
            bias_table2 = pl.move(b2, target_memory=pl.MemorySpace.Bias)
            scale_table2 = pl.move(s2, target_memory=pl.MemorySpace.LeftScale)
            for out_tile in pl.range(far_tiles):
                map2 = far_plane(far_source, far_row, 0)
                f2 = pl.load(
                    far_filter, [0, block2 * far_columns], far_taps, target_memory=pl.MemorySpace.Mat
                )
                acc2 = far_conv(map2, f2, bias_table2, far_start + out_tile * far_tile)
                for slice2 in pl.range(1, far_slices):
                    more2 = pl.load(
                        far_filter,
                        [slice2 * far_depth, block2 * far_columns],
                        far_taps,
                        target_memory=pl.MemorySpace.Mat,
                    )
                    acc2 = far_more(acc2, map2, more2, far_start + out_tile * far_tile, slice2 * far_depth, 0)
                for plane2 in pl.range(1, far_planes):
                    next2 = far_plane(far_source, far_row, plane2)
                    for slice2 in pl.range(far_slices):
                        more2 = pl.load(
                            far_filter,
                            [plane2 * far_plane_depth + slice2 * far_depth, block2 * far_columns],
                            far_taps,
                            target_memory=pl.MemorySpace.Mat,
                        )
                        acc2 = far_more(
                            acc2, next2, more2, far_start + out_tile * far_tile, slice2 * far_depth, 0
                        )
                if out_tile == far_last:
                    acc2 = pl.tile.set_validshape(acc2, far_rest, far_columns)
                far_out = pl.tile.fixpipe_store(
                    acc2, scale_table2, far_out, [far_position + out_tile * far_tile, block2 * far_columns]
                )
        return far_out

    if tile.planes:
        return planes_to_gm
    return blocks_to_gm if tile.slices == 1 else slices_to_gm


def computed_planes_to_gm(
    pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int, channels: int, plane: Any
) -> Any:
    """A helper that computes conv2 of a pair into GM from planes of mid that conv1 computes one at a time.

    L1 holds one C1 plane of the band's mid: conv1 computes it anew for each ACC tile, conv2 adds what it
    gives, and the next one takes its place. Called as `(source, row, filter1, bias1, scale1, mid, filter2,
    bias2, scale2, out, position, start1, start2) -> out`.

    Args:
        pl: the DSL.
        shape: conv2; its channels are those of a block.
        tile: its ACC tile, which takes its map by planes.
        window: the rows of mid.
        positions: output positions to compute.
        channels: of all blocks.
        plane: computes the C0 channels of mid from a first one, as `blocks_to_l1` does.
    """
    far_columns, far_blocks = shape.channels, channels // shape.channels
    far_taps, far_row_shape = [tile.slice, far_columns], [1, far_columns]
    far_tiles, far_tile, far_rest = tile.count(positions), tile.positions, tile.rest(positions)
    far_last = tile.ragged(positions)
    far_conv = conv2_tile(pl, shape, one_slice(tile), window, positions)
    far_more = conv2_more(pl, shape, one_slice(tile), window, positions)
    far_slices, far_depth, far_planes = tile.slices // tile.planes, tile.slice, tile.planes
    far_plane, far_plane_depth, far_c0 = plane, far_slices * far_depth, C0

    @pl.inline
    def computed_planes_to_gm(
        far_source: Any,
        far_row: Any,
        far_filter1: Any,
        far_bias1: Any,
        far_scale1: Any,
        far_mid: Any,
        far_filter: Any,
        far_bias: Any,
        far_scale: Any,
        far_out: Any,
        far_position: Any,
        far_start1: Any,
        far_start: Any,
    ) -> Any:
        for block2 in pl.range(far_blocks):
            b2 = pl.load(far_bias, [0, block2 * far_columns], far_row_shape, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(
                far_scale, [0, block2 * far_columns], far_row_shape, target_memory=pl.MemorySpace.Mat
            )
            bias_table2 = pl.move(b2, target_memory=pl.MemorySpace.Bias)
            scale_table2 = pl.move(s2, target_memory=pl.MemorySpace.LeftScale)
            for out_tile in pl.range(far_tiles):
                far_mid = far_plane(
                    far_source, far_row, far_filter1, far_bias1, far_scale1, far_mid, far_start1, 0
                )
                f2 = pl.load(
                    far_filter, [0, block2 * far_columns], far_taps, target_memory=pl.MemorySpace.Mat
                )
                acc2 = far_conv(far_mid, f2, bias_table2, far_start + out_tile * far_tile)
                for slice2 in pl.range(1, far_slices):
                    more2 = pl.load(
                        far_filter,
                        [slice2 * far_depth, block2 * far_columns],
                        far_taps,
                        target_memory=pl.MemorySpace.Mat,
                    )
                    acc2 = far_more(
                        acc2, far_mid, more2, far_start + out_tile * far_tile, slice2 * far_depth, 0
                    )
                for plane2 in pl.range(1, far_planes):
                    far_mid = far_plane(
                        far_source,
                        far_row,
                        far_filter1,
                        far_bias1,
                        far_scale1,
                        far_mid,
                        far_start1,
                        plane2 * far_c0,
                    )
                    for slice2 in pl.range(far_slices):
                        more2 = pl.load(
                            far_filter,
                            [plane2 * far_plane_depth + slice2 * far_depth, block2 * far_columns],
                            far_taps,
                            target_memory=pl.MemorySpace.Mat,
                        )
                        acc2 = far_more(
                            acc2, far_mid, more2, far_start + out_tile * far_tile, slice2 * far_depth, 0
                        )
                if out_tile == far_last:
                    acc2 = pl.tile.set_validshape(acc2, far_rest, far_columns)
                far_out = pl.tile.fixpipe_store(
                    acc2, scale_table2, far_out, [far_position + out_tile * far_tile, block2 * far_columns]
                )
        return far_out

    return computed_planes_to_gm
