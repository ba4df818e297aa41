"""Mistakes in how a conv pair is tiled: the kernels are right, the numbers that they are given are not."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    INTERIOR,
    NARROW,
    RAGGED,
    SHORT_TILE,
    STRIDE_1_2,
    UNITS,
    WHOLE_K,
    WITH_CONV1,
    WITH_CONV2,
    fault,
)
from benchmarks.mutants.mutant import Case, Mutant

_TWO_BY_TWO = ("fused", "pass1", "pass2")


def _of(
    name: str, programs: tuple[str, ...], old: str, new: str, case: Case = INTERIOR, file: str = "plan.py"
) -> Mutant:
    return fault(f"plan, {name}", programs, file, old, new, case)


def _of_tile(name: str, programs: tuple[str, ...], old: str, new: str, case: Case = INTERIOR) -> Mutant:
    return _of(f"ACC tile: {name}", programs, old, new, case, "tiles.py")


def _of_window(name: str, programs: tuple[str, ...], old: str, new: str, case: Case = INTERIOR) -> Mutant:
    return _of(name, programs, old, new, case, "windows.py")


def _of_planner(name: str, programs: tuple[str, ...], old: str, new: str, case: Case = INTERIOR) -> Mutant:
    return _of(name, programs, old, new, case, "planner.py")


MUTANTS = (
    _of_window(
        "window: no padding below", ("fused", "pass2"), "bottom = max(0, end - start - held)", "bottom = 0"
    ),
    _of_window(
        "window: ends one row too early",
        ("fused", "pass2"),
        "- above + conv.kernel_rows\n",
        "- above + conv.kernel_rows - 1\n",
    ),
    _of_window(
        "window: no padding above",
        (*WITH_CONV1, "pass2"),
        "top = -shift if shift < 0 else -shift % conv.stride_rows",
        "top = 0",
    ),
    _of_window(
        "window: one row of padding above in every band",
        ("fused", "pass1"),
        "top = -shift if shift < 0 else -shift % conv.stride_rows",
        "top = 1",
    ),
    _of_window(
        "window: paddings above and below are swapped",
        (*WITH_CONV1, "pass2"),
        "padding = (top, bottom, left, right)",
        "padding = (bottom, top, left, right)",
    ),
    _of_window(
        "window: left padding one less, right padding one more",
        (*WITH_CONV1, "pass2"),
        "padding = (top, bottom, left, right)",
        "padding = (top, bottom, left - 1, right + 1)",
    ),
    _of_window(
        "window: the skip is counted without the padding above",
        ("fused", "pass1"),
        "(shift + top) // conv.stride_rows",
        "max(shift, 0) // conv.stride_rows",
        RAGGED,
    ),
    _of_window(
        "window: the skip is in rows of the input",
        ("fused", "pass1"),
        "(shift + top) // conv.stride_rows",
        "(shift + top)",
        RAGGED,
    ),
    _of_window(
        "window: the first row is counted without the padding",
        (*WITH_CONV1, "pass2"),
        "first = row * conv.stride_rows - above",
        "first = row * conv.stride_rows",
    ),
    _of_window(
        "window: rows are not strided",
        ("fused", "pass1"),
        "first = row * conv.stride_rows - above",
        "first = row - above",
    ),
    _of_window(
        "window: the start is not kept inside the image",
        ("fused", "pass2"),
        "min(max(first, 0), size - held)",
        "max(first, 0)",
    ),
    _of_window(
        "window: the start is kept inside an image one row lower",
        (*WITH_CONV1, "pass2"),
        "min(max(first, 0), size - held)",
        "min(max(first, 1), size - held)",
    ),
    _of(
        "x window: of the mid rows one further down",
        WITH_CONV1,
        "x = window(geometry.conv1, mid_row, mid_rows,",
        "x = window(geometry.conv1, mid_row + 1, mid_rows,",
    ),
    _of(
        "bands: the x window is that of the rows of y",
        ("fused",),
        "_x_window(geometry, mid.row, held, held, streams)",
        "_x_window(geometry, row, held, held, streams)",
    ),
    _of(
        "bands: the mid window is one row of y further down",
        WITH_CONV2,
        "window(geometry.conv2, row, rows,",
        "window(geometry.conv2, row + 1, rows,",
    ),
    _of(
        "bands: the mid window is computed with conv1",
        WITH_CONV2,
        "window(geometry.conv2, row, rows,",
        "window(geometry.conv1, row, rows,",
    ),
    _of(
        "bands: the last is as high as the others",
        WITH_CONV2,
        "rows = min(band_rows, geometry.out_height - row)",
        "rows = band_rows",
        RAGGED,
    ),
    _of(
        "bands: the last is as high as a tile",
        WITH_CONV2,
        "rows = min(band_rows, geometry.out_height - row)",
        "rows = band_rows if row + band_rows <= geometry.out_height else 1",
        RAGGED,
    ),
    _of(
        "pass1: x windows of the mid rows one further down",
        ("pass1",),
        "_x_window(geometry, row, rows, height, streams)",
        "_x_window(geometry, row + 1, rows, height, streams)",
    ),
    _of(
        "pass1: the last band is as high as the others",
        ("pass1",),
        "rows = min(height, geometry.mid_height - row)",
        "rows = height",
        RAGGED,
    ),
    _of_window(
        "rows read: the kernel is one row too small",
        _TWO_BY_TWO,
        "return (rows - 1) * conv.stride_rows + conv.kernel_rows",
        "return (rows - 1) * conv.stride_rows + conv.kernel_rows - 1",
    ),
    _of_window(
        "rows read: the stride is that of one row",
        ("fused", "pass1"),
        "return (rows - 1) * conv.stride_rows + conv.kernel_rows",
        "return (rows - 1) + conv.kernel_rows",
    ),
    _of_window(
        "rows held: rounded down to whole fractals",
        WITH_CONV2,
        "return held, whole(held + beyond, row_unit(width)) - held",
        "return held - held % row_unit(width), 0",
        UNITS,
    ),
    _of_tile(
        "one K step too few",
        (*WHOLE_K, "pass2"),
        "replace(tile, columns=0, slices=1)",
        "replace(tile, columns=0, slices=1, steps=tile.steps - 1)",
    ),
    _of_tile(
        "one K step too many",
        (*WHOLE_K, "pass2"),
        "replace(tile, columns=0, slices=1)",
        "replace(tile, columns=0, slices=1, steps=tile.steps + 1)",
        RAGGED,  # in `INTERIOR` a plan that streams the filters would cost less then, and be right
    ),
    _of_tile(
        "the last one of a band is left out if it is not whole",
        ("fused", "pass1", "pass2"),
        "return -(-positions // self.positions)",
        "return max(positions // self.positions, 1)",
        NARROW,
    ),
    _of_tile(
        "a last one that is not whole is one position short",
        ("fused", "first-tile-load", "pass1", "pass2"),
        "return positions - (self.count(positions) - 1) * self.positions",
        "return positions - (self.count(positions) - 1) * self.positions - 1",
        SHORT_TILE,
    ),
    _of_planner(
        "conv1: the depth is that of conv2",
        WHOLE_K,
        "geometry.depth1,\n        geometry.cmid,\n        written=written[0]",
        "geometry.depth2,\n        geometry.cmid,\n        written=written[0]",
        STRIDE_1_2,
    ),
    _of_planner(
        "conv1: the depth is that of conv2, which is more",
        WHOLE_K,
        "geometry.depth1,\n        geometry.cmid,\n        written=written[0]",
        "geometry.depth2,\n        geometry.cmid,\n        written=written[0]",
        RAGGED,
    ),
    _of_planner(
        "conv2: the depth is that of conv1",
        WITH_CONV2,
        "geometry.depth2,\n        geometry.cout,\n        written=written[1]",
        "geometry.depth1,\n        geometry.cout,\n        written=written[1]",
        RAGGED,
    ),
    _of(
        "conv1: kernel and stride are those of conv2",
        WITH_CONV1,
        "conv_shape(self.geometry.conv1,",
        "conv_shape(self.geometry.conv2,",
    ),
    _of(
        "conv2: kernel and stride are those of conv1",
        WITH_CONV2,
        "conv_shape(self.geometry.conv2,",
        "conv_shape(self.geometry.conv1,",
    ),
    _of(
        "conv2: the image is as wide as x",
        WITH_CONV2,
        "self.geometry.mid_width, channels)",
        "self.geometry.width, channels)",
    ),
    _of_window(
        "both convolutions: kernel and stride are swapped",
        (*WITH_CONV1, "pass2"),
        "(conv.kernel_rows, conv.kernel_columns), (conv.stride_rows, conv.stride_columns)",
        "(conv.stride_rows, conv.stride_columns), (conv.kernel_rows, conv.kernel_columns)",
    ),
    _of_window(
        "both convolutions: the kernel's height is one less",
        (*WITH_CONV1, "pass2"),
        "(conv.kernel_rows, conv.kernel_columns), ",
        "(conv.kernel_rows - 1, conv.kernel_columns), ",
    ),
    _of_window(
        "both convolutions: columns are not strided",
        WITH_CONV1,
        "(conv.stride_rows, conv.stride_columns)",
        "(conv.stride_rows, 1)",
    ),
)
