"""Mistakes in the two passes and in the first-tile variants."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    INTERIOR,
    PASS1,
    PASS2,
    PLANES,
    RAGGED,
    STRIDE_1_2,
    TWO_BANDS,
    fault,
    faults,
    swapped,
)
from benchmarks.mutants.mutant import Case, Edit, Mutant

_FILE, _TILES = "unfused_conv2d.py", "first_tile.py"
_FIRST_OF_MID = "mid = first_of_mid(x, f1, bias, scale, mid, 0, 0)"
_LAST_OF_MID = "mid = last_of_mid(x, f1, bias, scale, mid, last_x, last_mid)"
_FIRST_OF_Y = "y = first_of_y(mid, f2, bias, scale, y, 0, 0)"
_LAST_OF_Y = "y = last_of_y(mid, f2, bias, scale, y, last_mid, last_y)"
_MID_PLACE = "band_mid_row * band_width + mid_tile * band_tile"
_Y_PLACE = "band_y_row * band_out_width + out_tile * band_tile"
_ALLOC_MAIN = """self.first_tile(x, filter1, bias1, scale1, filter2, bias2, scale2, tile)
            return tile

    return FirstTileFusedAlloc
"""
_LOAD, _PACKED, _ALLOC = ("first-tile-load",), ("first-tile-packed",), ("first-tile-fused-alloc",)


def _pass1(name: str, old: str, new: str, case: Case = INTERIOR) -> Mutant:
    return fault(f"pass1, {name}", PASS1, _FILE, old, new, case)


def _pass2(name: str, old: str, new: str, case: Case = INTERIOR) -> Mutant:
    return fault(f"pass2, {name}", PASS2, _FILE, old, new, case)


def _tile(name: str, programs: tuple[str, ...], old: str, new: str, case: Case = INTERIOR) -> Mutant:
    return fault(name, programs, _TILES, old, new, case)


MUTANTS = (
    _pass1("first band: x is read one row lower", _FIRST_OF_MID, _FIRST_OF_MID.replace("0, 0)", "1, 0)")),
    _pass1(
        "first band: is computed as an interior one",
        _FIRST_OF_MID,
        _FIRST_OF_MID.replace("first_of", "inner_of"),
    ),
    _pass1(
        "last band: is computed as the first one", _LAST_OF_MID, _LAST_OF_MID.replace("last_of", "first_of")
    ),
    _pass1(
        "last band: starts two x rows too high",
        "last_x, last_mid = bands[-1][2].row,",
        "last_x, last_mid = bands[-1][2].row - 2,",
    ),
    _pass1(
        "last band: mid is stored one row higher",
        "bands[-1][2].row, bands[-1][0]",
        "bands[-1][2].row, bands[-1][0] - 1",
    ),
    _pass1(
        "interior bands: all read the x rows of the first of them",
        "inner_x + (band - 1) * inner_step",
        "inner_x",
    ),
    _pass1(
        "interior bands: mid of one is stored in place of the other",
        "inner_x + (band - 1) * inner_step, band * rows",
        "inner_x + (band - 1) * inner_step, (last_band - band) * rows",
    ),
    _pass1(
        "bands of mid are as high as those of y",
        "rows_of_band = bands[0][1]",
        "rows_of_band = plan.band_rows",
        STRIDE_1_2,
    ),
    _pass1(
        "start: the window's skip is ignored",
        "band_start = x_window.skip * geometry.mid_width",
        "band_start = 0",
        RAGGED,
    ),
    fault(
        "pass1, planes: one tap less in each",
        ("pass1", "first-tile-load"),
        _FILE,
        "plan.geometry.conv1.taps)",
        "plan.geometry.conv1.taps - 1)",
    ),
    _pass1(
        "store: tiles in reverse order",
        _MID_PLACE,
        _MID_PLACE.replace("mid_tile *", "(band_tiles - 1 - mid_tile) *"),
    ),
    _pass1(
        "store: one tile further down, the last at the top",
        _MID_PLACE,
        _MID_PLACE.replace("mid_tile *", "(mid_tile + 1) % band_tiles *"),
    ),
    _pass1(
        "the third plane is multiplied with the rows of the second",
        "add2(acc1, plane2,",
        "add2(acc1, plane1,",
        PLANES,
    ),
    _pass1(
        "the fourth plane goes on from the accumulator of the second",
        "add3(acc2, plane3,",
        "add3(acc1, plane3,",
        PLANES,
    ),
    _pass1(
        "the third plane begins one tile further",
        "add2(acc1, plane2, band_taps, band_start + mid_tile",
        "add2(acc1, plane2, band_taps, band_start + (mid_tile + 1) % band_tiles",
        PLANES,
    ),
    _pass1(
        "the tile is stored before the last plane is added", "acc3, band_scale,", "acc2, band_scale,", PLANES
    ),
    faults(
        "pass1, planes 1 and 2 are loaded into each other's tile",
        PASS1,
        Edit(_FILE, "plane1 = load1(", "plane1 = load2("),
        Edit(_FILE, "plane2 = load2(", "plane2 = load1("),
        case=PLANES,
    ),
    _pass1(
        "plane 0: x is read one row lower in interior bands",
        "inner_x + (band - 1) * inner_step",
        "inner_x + 1 + (band - 1) * inner_step",
    ),
    _pass1(
        "all bands have the window of the first",
        "_mid_band(pl, plan, rows, x) for",
        "_mid_band(pl, plan, rows, bands[0][2]) for",
    ),
    _pass1(
        "interior bands: the last is left out",
        "pl.range(1, last_band):\n                    mid",
        "pl.range(1, last_band - 1):\n                    mid",
    ),
    _pass2(
        "interior bands: all read the mid rows of the first of them",
        "inner_mid + (band - 1) * inner_step",
        "inner_mid",
    ),
    _pass2(
        "interior bands: mid is read one row lower",
        "inner_mid + (band - 1) * inner_step",
        "inner_mid + 1 + (band - 1) * inner_step",
    ),
    _pass2(
        "interior bands: y of one is stored in place of the other",
        "inner_mid + (band - 1) * inner_step, band * rows",
        "inner_mid + (band - 1) * inner_step, (last_band - band) * rows",
    ),
    _pass2(
        "interior bands: mid's step is one row short",
        "bands[min(2, last_band)].mid.row - inner.mid.row",
        "bands[min(2, last_band)].mid.row - inner.mid.row - 1",
    ),
    _pass2(
        "first band: is computed as the last one", _FIRST_OF_Y, _FIRST_OF_Y.replace("first_of", "last_of")
    ),
    _pass2(
        "last band: is computed as an interior one", _LAST_OF_Y, _LAST_OF_Y.replace("last_of", "inner_of")
    ),
    _pass2(
        "last band: reads the mid rows of the band before",
        "last_mid, last_y = bands[-1].mid.row,",
        "last_mid, last_y = bands[-2].mid.row,",
    ),
    _pass2(
        "start: the window's skip is ignored",
        "band_start = band.mid.skip * geometry.out_width",
        "band_start = 0",
        RAGGED,
    ),
    _pass2(
        "all bands have the window of the first", "plan.conv2, band.mid, ", "plan.conv2, plan.bands[0].mid, "
    ),
    _pass2(
        "all bands have the window of the last", "plan.conv2, band.mid, ", "plan.conv2, plan.bands[-1].mid, "
    ),
    _pass2(
        "mid: one row too few is loaded",
        "band_rows = [band.mid.rows * geometry.mid_width,",
        "band_rows = [(band.mid.rows - 1) * geometry.mid_width,",
    ),
    _pass2(
        "mid: rows are as wide as those of y",
        "band_width, band_out_width = geometry.mid_width,",
        "band_width, band_out_width = geometry.out_width,",
        STRIDE_1_2,
    ),
    _pass2(
        "store: tiles in reverse order",
        _Y_PLACE,
        _Y_PLACE.replace("out_tile *", "(band_tiles - 1 - out_tile) *"),
    ),
    _pass2(
        "store: the last band is left out", f"            if several:\n                {_LAST_OF_Y}\n", ""
    ),
    _pass2(
        "conv2: every tile is the first",
        "band_bias, band_start + out_tile * band_tile)\n            if",
        "band_bias, band_start)\n            if",
    ),
    fault(
        "first-tile-load and -packed: the second tile is computed",
        ("first-tile-load", "first-tile-packed"),
        _TILES,
        "start = window.skip * geometry.mid_width",
        "start = window.skip * geometry.mid_width + 16",
        count=2,
    ),
    _tile(
        "first-tile-load: plane 1 is read one row lower",
        _LOAD,
        "plane1 = load1(plane0, x, 0)",
        "plane1 = load1(plane0, x, 1)",
    ),
    _tile(
        "first-tile-load: plane 1 is added from plane 0", _LOAD, "add1(acc0, plane1,", "add1(acc0, plane0,"
    ),
    _tile(
        "first-tile-load: plane 0 is read one row lower",
        _LOAD,
        "pl.load(x, [0, 0], load_shape,",
        "pl.load(x, [32, 0], load_shape,",
    ),
    _tile(
        "first-tile-fused-alloc: every plane is plane 0",
        _ALLOC,
        "src_offset=[plane * image, 0]",
        "src_offset=[0, 0]",
    ),
    _tile(
        "first-tile-fused-alloc: planes in reverse order",
        _ALLOC,
        "dst_offset=[0, plane * c0]",
        "dst_offset=[0, (planes - 1 - plane) * c0]",
    ),
    _tile(
        "first-tile-fused-alloc: the plane stride is one row short",
        _ALLOC,
        "planes, image, c0 = plan.planes, geometry.height * geometry.width, C0",
        "planes, image, c0 = plan.planes, (geometry.height - 1) * geometry.width, C0",
    ),
    _tile(
        "first-tile-fused-alloc: main swaps filters",
        _ALLOC,
        _ALLOC_MAIN,
        swapped(_ALLOC_MAIN, "filter1", "filter2"),
    ),
    _tile(
        "first-tile-fused-alloc: main swaps scales",
        _ALLOC,
        _ALLOC_MAIN,
        swapped(_ALLOC_MAIN, "scale1", "scale2"),
    ),
    _pass1(
        "last band: its rows of x and mid are swapped",
        _LAST_OF_MID,
        swapped(_LAST_OF_MID, "last_x", "last_mid"),
    ),
    _pass2(
        "last band: its rows of mid and y are swapped", _LAST_OF_Y, swapped(_LAST_OF_Y, "last_mid", "last_y")
    ),
    _pass2(
        "mid: one row more than the window has is loaded",
        "band_rows = [band.mid.rows * geometry.mid_width,",
        "band_rows = [(band.mid.rows + 1) * geometry.mid_width,",
    ),
    fault(
        "both passes, the last of two bands is taken for one between them",
        ("pass1", "pass2"),
        _FILE,
        "several, interior = last_band > 0,",
        "several, interior = last_band > 1,",
        TWO_BANDS,
        2,
    ),
)
