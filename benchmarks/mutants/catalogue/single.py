"""Mistakes in the single convolution and in the matrix product, and in their plans."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    CONV,
    CONV_ONLY,
    CONV_SQUARE,
    GEMM,
    GEMM_BLOCKS,
    GEMM_COLUMNS,
    GEMM_ONLY,
    GEMM_ROWS,
    GEMM_SQUARE,
    fault,
    swapped,
)
from benchmarks.mutants.mutant import Case, Mutant

_FIRST = "y = first_of_y(x, taps, bias_row, scale_row, y, 0, 0)"
_LAST = "y = last_of_y(x, taps, bias_row, scale_row, y, last_x, last_y)"
_FROM = "src_offset=[plane * band_image + band_x_row * band_width, 0]"
_PLACE = "band_y_row * band_out_width + out_tile * band_tile"
_NEXT = ",\n                                    "
_LOOP_LEFT = f"a_band{_NEXT}row * tile_m{_NEXT}k * step,"
_LOOP_RIGHT = f"b_block{_NEXT}k * step{_NEXT}column * tile_n,"
_FIRST_RIGHT = (
    "b_block,\n                                0,\n                                column * tile_n,"
)
_FIRST_LEFT = "a_band, row * tile_m, 0,"
_C_PLACE = "[band * rows + row * tile_m, block * columns + column * tile_n]"


def _conv(name: str, old: str, new: str, file: str = "conv2d.py", case: Case = CONV) -> Mutant:
    return fault(f"conv, {name}", CONV_ONLY, file, old, new, case)


def _gemm(name: str, old: str, new: str, file: str = "gemm.py", case: Case = GEMM) -> Mutant:
    return fault(f"gemm, {name}", GEMM_ONLY, file, old, new, case)


MUTANTS = (
    _conv(
        "gather: the plane stride is one x row short",
        "geometry.height * geometry.width, geometry.width",
        "(geometry.height - 1) * geometry.width, geometry.width",
    ),
    _conv(
        "gather: planes in reverse order in the feature map",
        "dst_offset=[0, plane * band_c0]",
        "dst_offset=[0, (band_planes - 1 - plane) * band_c0]",
    ),
    _conv("gather: every plane is plane 0", _FROM, "src_offset=[band_x_row * band_width, 0]"),
    _conv(
        "gather: the last row of a band is left out",
        "band_plane = [band.x.rows * geometry.width, C0]",
        "band_plane = [(band.x.rows - 1) * geometry.width, C0]",
    ),
    _conv(
        "interior bands: all read the x rows of the first of them",
        "inner_x + (band - 1) * inner_step",
        "inner_x",
    ),
    _conv("interior bands: y in reverse order", "band * rows_of_band,", "(last_band - band) * rows_of_band,"),
    _conv(
        "interior bands: the step of x is one row short",
        "bands[min(2, last_band)].x.row - inner.x.row",
        "bands[min(2, last_band)].x.row - inner.x.row - 1",
    ),
    _conv("interior bands: the third is left out", "pl.range(1, last_band)", "pl.range(1, last_band - 1)"),
    _conv("first band: is computed as an interior one", _FIRST, _FIRST.replace("first_of", "inner_of")),
    _conv("last band: is computed as an interior one", _LAST, _LAST.replace("last_of", "inner_of")),
    _conv(
        "last band: starts one x row too high",
        "last_x, last_y = bands[-1].x.row,",
        "last_x, last_y = bands[-1].x.row - 1,",
    ),
    _conv(
        "start: the window's skip is ignored",
        "band_start, band_out_width = band.x.skip * geometry.out_width,",
        "band_start, band_out_width = 0,",
    ),
    _conv("all bands have the window of the first", "plan.tile, band.x, ", "plan.tile, plan.bands[0].x, "),
    _conv(
        "store of y: each tile where the next belongs",
        _PLACE,
        _PLACE.replace("out_tile *", "(out_tile + 1) % band_tiles *"),
    ),
    _conv(
        "store of y: the tile's rows are those of the band",
        "[band_y_row * band_out_width + out_tile",
        "[band_y_row * band_out_width * 0 + out_tile",
    ),
    _conv(
        "every tile is the first", "bias_table, band_start + out_tile * band_tile)", "bias_table, band_start)"
    ),
    _conv(
        "main: x and the filter are swapped",
        "self.conv(x, filter, bias, scale, y)",
        "self.conv(filter, x, bias, scale, y)",
        case=CONV_SQUARE,
    ),
    _conv(
        "plan: windows hold one row too few",
        "held, spare = held_rows(geometry.conv, band_rows,",
        "held, spare = held_rows(geometry.conv, band_rows - 1,",
        "conv_plan.py",
    ),
    _conv(
        "plan: windows are those of one row further down",
        "window(geometry.conv, row, rows,",
        "window(geometry.conv, row + 1, rows,",
        "conv_plan.py",
    ),
    _conv(
        "plan: the depth is that of one tap less",
        "geometry.depth,\n        geometry.cout,",
        "geometry.depth - geometry.cin,\n        geometry.cout,",
        "conv_plan.py",
    ),
    _conv(
        "K loop: the last step uses the filter rows of the first",
        "conv1_taps,\n                conv1_k * conv1_step,",
        "conv1_taps,\n                conv1_k % (conv1_steps - 1) * conv1_step,",
        "blocks.py",
    ),
    _conv(
        "img2col: padding left 3, right 1",
        "conv1_padding = (window.held, shape.width), padded",
        "conv1_padding = (window.held, shape.width), (*padded[:2], 3, 1)",
        "blocks.py",
    ),
    _conv(
        "plan: no padding above",
        "top = -shift if shift < 0 else -shift % conv.stride_rows",
        "top = 0",
        "windows.py",
    ),
    _gemm("K loop: b lags one step behind", _LOOP_RIGHT, _LOOP_RIGHT.replace("k * step", "(k - 1) * step")),
    _gemm("K loop: a lags one step behind", _LOOP_LEFT, _LOOP_LEFT.replace("k * step", "(k - 1) * step")),
    _gemm("K loop: a is read from the end", _LOOP_LEFT, _LOOP_LEFT.replace("k * step", "(steps - k) * step")),
    _gemm("K loop: ends one step too early", "pl.range(1, steps)", "pl.range(1, steps - 1)"),
    _gemm("K loop: adds the first step twice", "pl.range(1, steps)", "pl.range(steps)"),
    _gemm(
        "K loop: every step begins a new sum",
        "pl.tile.matmul_acc(acc, left, right)",
        "pl.tile.matmul(left, right)",
    ),
    _gemm("first step: b begins at the second", _FIRST_RIGHT, _FIRST_RIGHT.replace(" 0,", " step,")),
    _gemm("first step: a begins at the second", _FIRST_LEFT, "a_band, row * tile_m, step,"),
    _gemm("first step: every tile is the first of its band", _FIRST_LEFT, "a_band, 0, 0,", case=GEMM_ROWS),
    _gemm(
        "K loop: tiles of a band in reverse order",
        _LOOP_LEFT,
        _LOOP_LEFT.replace("row *", "(tiles_m - 1 - row) *"),
        case=GEMM_ROWS,
    ),
    _gemm(
        "K loop: columns of the first tile",
        _LOOP_RIGHT,
        _LOOP_RIGHT.replace("column * tile_n", "0"),
        case=GEMM_COLUMNS,
    ),
    _gemm(
        "first step: columns of the first tile",
        _FIRST_RIGHT,
        _FIRST_RIGHT.replace("column * tile_n", "0"),
        case=GEMM_COLUMNS,
    ),
    _gemm("load: every band of a is the first", "pl.load(a, [band * rows, 0]", "pl.load(a, [0, 0]"),
    _gemm(
        "load: every block of b is the first",
        "pl.load(b, [0, block * columns]",
        "pl.load(b, [0, 0]",
        case=GEMM_BLOCKS,
    ),
    _gemm(
        "store: bands in reverse order",
        "[band * rows + row * tile_m,",
        "[(bands - 1 - band) * rows + row * tile_m,",
    ),
    _gemm(
        "store: tiles of a band in reverse order",
        "[band * rows + row * tile_m,",
        "[band * rows + (tiles_m - 1 - row) * tile_m,",
        case=GEMM_ROWS,
    ),
    _gemm(
        "store: blocks in reverse order",
        "block * columns + column * tile_n],",
        "(blocks - 1 - block) * columns + column * tile_n],",
        case=GEMM_BLOCKS,
    ),
    _gemm(
        "the loop over tiles of a band ends one too early",
        "for row in pl.range(tiles_m)",
        "for row in pl.range(tiles_m - 1)",
        case=GEMM_ROWS,
    ),
    _gemm(
        "the loop over bands ends one too early",
        "for band in pl.range(bands)",
        "for band in pl.range(bands - 1)",
    ),
    _gemm("main: a and b are swapped", "self.gemm(a, b, c)", "self.gemm(b, a, c)", case=GEMM_SQUARE),
    _gemm(
        "plan: one K step too few",
        "return self.geometry.k // self.step",
        "return self.geometry.k // self.step - 1",
        "gemm_plan.py",
    ),
    _gemm(
        "plan: K steps are half as long, but as many",
        "return self.geometry.k // self.step",
        "return self.geometry.k // (2 * self.step)",
        "gemm_plan.py",
    ),
    _gemm(
        "plan: one band too few",
        "return self.geometry.m // self.band_rows",
        "return self.geometry.m // self.band_rows - 1",
        "gemm_plan.py",
    ),
    _conv("last band: its rows of x and y are swapped", _LAST, swapped(_LAST, "last_x", "last_y")),
    _conv(
        "gather: the strides of planes and rows are swapped",
        _FROM,
        "src_offset=[plane * band_width + band_x_row * band_image, 0]",
    ),
)
