"""Helpers that bring feature maps into L1: the rows of a window, all C1 planes at once or one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from golden.geometry import C0, ConvGeometry, Geometry
from kernels.tiles import Tile
from kernels.windows import Window


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


def map_of_rows(pl: Any, width: int, channels: int, window: Window) -> Any:
    """A helper `(rows, first_row) -> feature_map`: the rows of a window from an image in NHWC.

    Args:
        pl: the DSL.
        width: columns of the image.
        channels: of the image.
        window: what to gather; rows of zeros lie under it.
    """
    map_shape, map_channels, map_width = [window.held * width, channels], channels, width
    map_loaded, map_pixels, map_spare = [window.rows * width, channels], window.rows * width, window.spare > 0

    @pl.inline
    def map_of_rows(map_rows: Any, map_row: Any) -> Any:
        feature_map = pl.tile.create(map_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if map_spare:
            feature_map = pl.tile.set_validshape(feature_map, map_pixels, map_channels)
            feature_map = pl.tile.fillpad_inplace(feature_map)
        feature_map = pl.tile.gather_row(
            feature_map, map_rows, dst_offset=[0, 0], src_offset=[map_row * map_width, 0], shapes=map_loaded
        )
        return feature_map

    return map_of_rows


def plane_of_map(pl: Any, width: int, window: Window, *, image: int) -> Any:
    """A helper `(tensor, first_row, plane) -> feature_map`: one C1 plane of the rows of a window.

    Args:
        pl: the DSL.
        width: columns of the image.
        window: what to gather; rows of zeros lie under it.
        image: pixels of a plane if the tensor has one C1 plane under the other; 0 if it has NHWC rows.
    """
    map_shape, map_channels, map_width = [window.held * width, C0], C0, width
    map_loaded, map_pixels, map_spare = [window.rows * width, C0], window.rows * width, window.spare > 0
    map_down, map_across = image, 0 if image else C0

    @pl.inline
    def plane_of_map(map_tensor: Any, map_row: Any, map_number: Any) -> Any:
        plane_map = pl.tile.create(map_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
        if map_spare:
            plane_map = pl.tile.set_validshape(plane_map, map_pixels, map_channels)
            plane_map = pl.tile.fillpad_inplace(plane_map)
        plane_map = pl.tile.gather_row(
            plane_map,
            map_tensor,
            dst_offset=[0, 0],
            src_offset=[map_number * map_down + map_row * map_width, map_number * map_across],
            shapes=map_loaded,
        )
        return plane_map

    return plane_of_map


def brings_x(pl: Any, geometry: Geometry | ConvGeometry, tile: Tile, window: Window) -> Any:
    """How a tile's convolution gets x: `map_of_x`, or `plane_of_map` if it comes one plane at a time."""
    if tile.planes:
        return plane_of_map(pl, geometry.width, window, image=geometry.height * geometry.width)
    return map_of_x(pl, geometry, window)


def brings_rows(pl: Any, width: int, channels: int, tile: Tile, window: Window) -> Any:
    """The same for an image in NHWC: `map_of_rows` or `plane_of_map`."""
    if tile.planes:
        return plane_of_map(pl, width, window, image=0)
    return map_of_rows(pl, width, channels, window)


def brings_packed(pl: Any, geometry: Geometry, tile: Tile, window: Window) -> Any:
    """The same for rows that the host packed, zeros under them included: by a plain load if all at once."""
    if tile.planes:
        return plane_of_map(pl, geometry.width, replace(window, rows=window.held, spare=0), image=0)
    map_shape = [window.held * geometry.width, geometry.cin]

    @pl.inline
    def packed_map(map_packed: Any, map_row: Any) -> Any:
        feature_map = pl.load(map_packed, [map_row, 0], map_shape, target_memory=pl.MemorySpace.Mat)
        return feature_map

    return packed_map
