"""Helpers that the tile programs share, each expanded in place where a kernel calls it.

PyPTO expands a helper among the caller's own names: its parameters and locals stay bound there, a name keeps
its type over all calls, and the caller's constants hide the helper's. So the names of each helper have its
own prefix (`conv1_...`, `plane_...`), and the two convolutions, whose tiles differ in shape, are two helpers.
"""

from __future__ import annotations

from typing import Any

from golden.geometry import C0
from kernels.plan import Plan, Tile
from kernels.windows import ConvShape, Window, unfolded_padding


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
    conv1_step, conv1_steps, conv1_kernel, conv1_stride = tile.step, tile.steps, shape.kernel, shape.stride
    padded = unfolded_padding(shape, window, tile, positions)
    conv1_image, conv1_padding = (window.held, shape.width), padded

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


def conv1_more(pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int) -> Any:
    """A helper `(acc, map, filters, position, depth, row) -> acc`: adds K steps to a tile of `conv1_tile`.

    They begin at `depth` in the K of the map, and at row `row` of the filters.

    Args:
        pl: the DSL.
        shape: the convolution.
        tile: the K loop over what is added.
        window: the rows of the map and the padding around them.
        positions: output positions that all tiles of the map compute.
    """
    more1_shape, more1_filter = [tile.positions, tile.step], [tile.step, shape.channels]
    more1_step, more1_steps = tile.step, tile.steps
    padded = unfolded_padding(shape, window, tile, positions)
    more1_image, more1_padding = (window.held, shape.width), padded
    more1_kernel, more1_stride = shape.kernel, shape.stride

    @pl.inline
    def conv1_more(
        more1_acc: Any,
        more1_map: Any,
        more1_taps: Any,
        more1_position: Any,
        more1_depth: Any,
        more1_row: Any,
    ) -> Any:
        for more1_k in pl.range(more1_steps):
            more1_a = pl.tile.img2col(
                more1_map,
                more1_position,
                more1_depth + more1_k * more1_step,
                more1_shape,
                image_shape=more1_image,
                kernel_size=more1_kernel,
                stride=more1_stride,
                padding=more1_padding,
            )
            more1_b = pl.tile.extract(
                more1_taps,
                more1_row + more1_k * more1_step,
                0,
                shape=more1_filter,
                target_memory=pl.MemorySpace.Right,
            )
            more1_acc = pl.tile.matmul_acc(more1_acc, more1_a, more1_b)
        return more1_acc

    return conv1_more


def conv2_more(pl: Any, shape: ConvShape, tile: Tile, window: Window, positions: int) -> Any:
    """A helper `(acc, map, filters, position, depth, row) -> acc`: adds K steps to a tile of `conv2_tile`.

    They begin at `depth` in the K of the map, and at row `row` of the filters.

    Args:
        pl: the DSL.
        shape: the convolution.
        tile: the K loop over what is added.
        window: the rows of the map and the padding around them.
        positions: output positions that all tiles of the map compute.
    """
    more2_shape, more2_filter = [tile.positions, tile.step], [tile.step, shape.channels]
    more2_step, more2_steps = tile.step, tile.steps
    padded = unfolded_padding(shape, window, tile, positions)
    more2_image, more2_padding = (window.held, shape.width), padded
    more2_kernel, more2_stride = shape.kernel, shape.stride

    @pl.inline
    def conv2_more(
        more2_acc: Any,
        more2_map: Any,
        more2_taps: Any,
        more2_position: Any,
        more2_depth: Any,
        more2_row: Any,
    ) -> Any:
        for more2_k in pl.range(more2_steps):
            more2_a = pl.tile.img2col(
                more2_map,
                more2_position,
                more2_depth + more2_k * more2_step,
                more2_shape,
                image_shape=more2_image,
                kernel_size=more2_kernel,
                stride=more2_stride,
                padding=more2_padding,
            )
            more2_b = pl.tile.extract(
                more2_taps,
                more2_row + more2_k * more2_step,
                0,
                shape=more2_filter,
                target_memory=pl.MemorySpace.Right,
            )
            more2_acc = pl.tile.matmul_acc(more2_acc, more2_a, more2_b)
        return more2_acc

    return conv2_more


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


def add_plane(pl: Any, plan: Plan, tile: Tile, number: int, window: Window, positions: int) -> Any:
    """A helper `(acc, plane, filters, position) -> acc`: adds C1 plane `number` to a tile, if x has it.

    Args:
        pl: the DSL.
        plan: the tiled geometry.
        tile: the K loop over one plane.
        number: which plane.
        window: x rows in the plane and the padding around them.
        positions: output positions that all tiles of the plane compute.
    """
    plane_more = conv1_more(pl, plan.shape1, tile, window, positions)
    plane_first = number * tile.steps * tile.step

    @pl.inline
    def add_plane(plane_acc: Any, plane_map: Any, plane_taps: Any, plane_position: Any) -> Any:
        plane_acc = plane_more(plane_acc, plane_map, plane_taps, plane_position, 0, plane_first)
        return plane_acc

    @pl.inline
    def no_plane(plane_acc: Any, plane_map: Any, plane_taps: Any, plane_position: Any) -> Any:
        return plane_acc

    return add_plane if number < plan.planes else no_plane
