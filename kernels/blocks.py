"""Helpers that the tile programs share, each expanded in place where a kernel calls it.

Their constants come from the function around them. A program's own names win over a helper's where both have
one, so names here start with what they belong to.
"""

from __future__ import annotations

from typing import Any

from golden.geometry import Conv
from kernels.plan import Tile, Window


def conv_tile(pl: Any, conv: Conv, tile: Tile, window: Window, width: int, channels: int) -> Any:
    """A helper `(feature_map, filters, bias, pos_m) -> acc`: one ACC tile of a convolution, bias included.

    Args:
        pl: the DSL.
        conv: kernel, stride (the padding is the window's).
        tile: positions of the tile and its K loop.
        window: image rows in the feature map and the padding around them.
        width: image columns.
        channels: output channels.
    """
    tile_shape = [tile.positions, tile.step]
    tile_filter = [tile.step, channels]
    tile_step, tile_steps = tile.step, tile.steps
    tile_image = (window.rows, width)
    tile_kernel = (conv.kernel, conv.kernel)
    tile_stride = (conv.stride, conv.stride)
    tile_padding = window.padding

    @pl.inline
    def conv_tile(feature_map: Any, filters: Any, bias: Any, pos_m: Any) -> Any:
        a = pl.tile.img2col(
            feature_map,
            pos_m,
            0,
            tile_shape,
            image_shape=tile_image,
            kernel_size=tile_kernel,
            stride=tile_stride,
            padding=tile_padding,
        )
        b = pl.tile.extract(filters, 0, 0, shape=tile_filter, target_memory=pl.MemorySpace.Right)
        acc = pl.tile.matmul_bias(a, b, bias)
        for step in pl.range(1, tile_steps):
            a = pl.tile.img2col(
                feature_map,
                pos_m,
                step * tile_step,
                tile_shape,
                image_shape=tile_image,
                kernel_size=tile_kernel,
                stride=tile_stride,
                padding=tile_padding,
            )
            b = pl.tile.extract(
                filters, step * tile_step, 0, shape=tile_filter, target_memory=pl.MemorySpace.Right
            )
            acc = pl.tile.matmul_acc(acc, a, b)
        return acc

    return conv_tile


def plane_tile(pl: Any, conv: Conv, tile: Tile, window: Window, width: int, channels: int) -> Any:
    """A helper `(acc, feature_map, filters, first_row, pos_m) -> acc`: adds a further C1 plane to a tile.

    Arguments are those of `conv_tile`; `first_row` is the row of the filter matrix where the plane begins.
    """
    plane_shape = [tile.positions, tile.step]
    plane_filter = [tile.step, channels]
    plane_step, plane_steps = tile.step, tile.steps
    plane_image = (window.rows, width)
    plane_kernel = (conv.kernel, conv.kernel)
    plane_stride = (conv.stride, conv.stride)
    plane_padding = window.padding

    @pl.inline
    def plane_tile(acc: Any, feature_map: Any, filters: Any, first_row: Any, pos_m: Any) -> Any:
        for step in pl.range(plane_steps):
            a = pl.tile.img2col(
                feature_map,
                pos_m,
                step * plane_step,
                plane_shape,
                image_shape=plane_image,
                kernel_size=plane_kernel,
                stride=plane_stride,
                padding=plane_padding,
            )
            b = pl.tile.extract(
                filters,
                first_row + step * plane_step,
                0,
                shape=plane_filter,
                target_memory=pl.MemorySpace.Right,
            )
            acc = pl.tile.matmul_acc(acc, a, b)
        return acc

    return plane_tile
