"""Helpers that the tile programs share, each expanded in place where a kernel calls it.

PyPTO expands a helper among the caller's own names: its parameters and locals stay bound there, a name keeps
its type over all calls, and the caller's constants hide the helper's. So the names of each helper have its
own prefix (`conv1_...`, `plane_...`), and the two convolutions, whose tiles differ in shape, are two helpers.
"""

from __future__ import annotations

from typing import Any

from golden.geometry import C0
from kernels.plan import ConvShape, Plan, Tile, Window, unfolded_padding


def conv1_tile(pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int) -> Any:
    """A helper `(feature_map, filters, bias, position) -> acc`: one ACC tile, bias included.

    It computes the convolution that reads x: the pair's first, or the only one.

    Args:
        pl: the DSL.
        shape: the convolution.
        tile: the K loop: over the whole of K, or over one C1 plane.
        window: x rows in the feature map and the padding around them.
        positions: output positions that all tiles of the feature map compute.
    """
    conv1_shape, conv1_filter = [tile.positions, tile.step], [tile.step, shape.channels]
    conv1_step, conv1_steps = tile.step, tile.steps
    padded = unfolded_padding(shape, window, tile, positions)
    conv1_image, conv1_padding = (window.held, shape.width), padded
    conv1_kernel, conv1_stride = shape.kernel, shape.stride

    @pl.inline
    def conv1_tile(conv1_map: Any, conv1_taps: Any, conv1_bias: Any, conv1_position: Any) -> Any:
        conv1_a = pl.tile.img2col(
            conv1_map,
            conv1_position,
            0,
            conv1_shape,
            image_shape=conv1_image,
            kernel_size=conv1_kernel,
            stride=conv1_stride,
            padding=conv1_padding,
        )
        conv1_b = pl.tile.extract(conv1_taps, 0, 0, shape=conv1_filter, target_memory=pl.MemorySpace.Right)
        conv1_acc = pl.tile.matmul_bias(conv1_a, conv1_b, conv1_bias)
        for conv1_k in pl.range(1, conv1_steps):
            conv1_a = pl.tile.img2col(
                conv1_map,
                conv1_position,
                conv1_k * conv1_step,
                conv1_shape,
                image_shape=conv1_image,
                kernel_size=conv1_kernel,
                stride=conv1_stride,
                padding=conv1_padding,
            )
            conv1_b = pl.tile.extract(
                conv1_taps,
                conv1_k * conv1_step,
                0,
                shape=conv1_filter,
                target_memory=pl.MemorySpace.Right,
            )
            conv1_acc = pl.tile.matmul_acc(conv1_acc, conv1_a, conv1_b)
        return conv1_acc

    return conv1_tile


def conv2_tile(pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int) -> Any:
    """A helper `(mid, filters, bias, position) -> acc`: one ACC tile of conv2, bias included.

    Args:
        pl: the DSL.
        shape: the convolution.
        tile: the K loop.
        window: mid rows in L1 and the padding around them.
        positions: output positions that all tiles of the rows compute.
    """
    conv2_shape, conv2_filter = [tile.positions, tile.step], [tile.step, shape.channels]
    conv2_step, conv2_steps = tile.step, tile.steps
    padded = unfolded_padding(shape, window, tile, positions)
    conv2_image, conv2_padding = (window.held, shape.width), padded
    conv2_kernel, conv2_stride = shape.kernel, shape.stride

    @pl.inline
    def conv2_tile(conv2_map: Any, conv2_taps: Any, conv2_bias: Any, conv2_position: Any) -> Any:
        conv2_a = pl.tile.img2col(
            conv2_map,
            conv2_position,
            0,
            conv2_shape,
            image_shape=conv2_image,
            kernel_size=conv2_kernel,
            stride=conv2_stride,
            padding=conv2_padding,
        )
        conv2_b = pl.tile.extract(conv2_taps, 0, 0, shape=conv2_filter, target_memory=pl.MemorySpace.Right)
        conv2_acc = pl.tile.matmul_bias(conv2_a, conv2_b, conv2_bias)
        for conv2_k in pl.range(1, conv2_steps):
            conv2_a = pl.tile.img2col(
                conv2_map,
                conv2_position,
                conv2_k * conv2_step,
                conv2_shape,
                image_shape=conv2_image,
                kernel_size=conv2_kernel,
                stride=conv2_stride,
                padding=conv2_padding,
            )
            conv2_b = pl.tile.extract(
                conv2_taps,
                conv2_k * conv2_step,
                0,
                shape=conv2_filter,
                target_memory=pl.MemorySpace.Right,
            )
            conv2_acc = pl.tile.matmul_acc(conv2_acc, conv2_a, conv2_b)
        return conv2_acc

    return conv2_tile


def load_plane(pl: Any, plan: Plan, number: int, window: Window) -> Any:
    """A helper `(plane0, x, x_row) -> plane`: C1 plane `number` of x as a tile, or `plane0` if there is none.

    Args:
        pl: the DSL.
        plan: the tiled geometry.
        number: which plane.
        window: how many x rows to load.
    """
    geometry = plan.geometry
    load_shape = [window.rows * geometry.width, C0]
    load_start, load_width = number * geometry.height * geometry.width, geometry.width

    @pl.inline
    def load_plane(load_first: Any, load_x: Any, load_row: Any) -> Any:
        loaded = pl.load(
            load_x,
            [load_start + load_row * load_width, 0],
            load_shape,
            target_memory=pl.MemorySpace.Mat,
        )
        return loaded

    @pl.inline
    def no_plane(load_first: Any, load_x: Any, load_row: Any) -> Any:
        return load_first

    return load_plane if number < plan.planes else no_plane


def plane_tile(pl: Any, plan: Plan, tile: Tile, number: int, window: Window, positions: int) -> Any:
    """A helper `(acc, plane, filters, position) -> acc`: adds C1 plane `number` to a tile, if x has it.

    Args:
        pl: the DSL.
        plan: the tiled geometry.
        tile: the K loop over one plane.
        number: which plane.
        window: x rows in the plane and the padding around them.
        positions: output positions that all tiles of the plane compute.
    """
    shape = plan.shape1
    plane_shape, plane_filter = [tile.positions, tile.step], [tile.step, shape.channels]
    plane_step, plane_steps = tile.step, tile.steps
    plane_first = number * tile.steps * tile.step
    padded = unfolded_padding(shape, window, tile, positions)
    plane_image, plane_padding = (window.held, shape.width), padded
    plane_kernel, plane_stride = shape.kernel, shape.stride

    @pl.inline
    def plane_tile(plane_acc: Any, plane_map: Any, plane_taps: Any, plane_position: Any) -> Any:
        for plane_k in pl.range(plane_steps):
            plane_a = pl.tile.img2col(
                plane_map,
                plane_position,
                plane_k * plane_step,
                plane_shape,
                image_shape=plane_image,
                kernel_size=plane_kernel,
                stride=plane_stride,
                padding=plane_padding,
            )
            plane_b = pl.tile.extract(
                plane_taps,
                plane_first + plane_k * plane_step,
                0,
                shape=plane_filter,
                target_memory=pl.MemorySpace.Right,
            )
            plane_acc = pl.tile.matmul_acc(plane_acc, plane_a, plane_b)
        return plane_acc

    @pl.inline
    def no_plane(plane_acc: Any, plane_map: Any, plane_taps: Any, plane_position: Any) -> Any:
        return plane_acc

    return plane_tile if number < plan.planes else no_plane
