"""Mistakes in the fused kernel alone."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    FUSED,
    INTERIOR,
    RAGGED,
    STRIDE_1_2,
    TWO_BANDS,
    fault,
    faults,
    swapped,
)
from benchmarks.mutants.mutant import Case, Edit, Mutant

_FILE = "fused_conv2d.py"
_MAIN = "self.fused(x, filter1, bias1, scale1, filter2, bias2, scale2, y)"
_FIRST = "y = first_of_y(x, f1, b1, s1, f2, b2, s2, y, 0, 0)"
_LAST = "y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, last_y)"
_INNER = """x,
                        f1,
                        b1,
                        s1,
                        f2,
                        b2,
                        s2,
"""
_GATHER_FROM = "src_offset=[plane * band_image + band_x_row * band_width, 0]"
_FIRST_CONV = "first_conv(feature_map, band_taps1, bias_table1, band_mid_start + mid_tile * band_mid_tile)"
_SECOND_CONV = "second_conv(mid, band_taps2, bias_table2, band_out_start + out_tile * band_out_tile)"
_Y_PLACE = "band_y_row * band_out_width + out_tile * band_out_tile"


def _of(name: str, old: str, new: str, case: Case = INTERIOR) -> Mutant:
    return fault(f"fused, {name}", FUSED, _FILE, old, new, case)


def one_map(planes: str) -> tuple[Edit, ...]:
    """Edits by which one feature map serves all bands; `planes` are those that a band gathers."""
    create = "pl.tile.create({}, pl.INT8, target_memory=pl.MemorySpace.Mat)"
    return (
        Edit(_FILE, f"        feature_map = {create.format('band_map')}\n", ""),
        Edit(_FILE, "    def band_of_y(\n", "    def band_of_y(\n        feature_map: Any,\n"),
        Edit(_FILE, "band_planes, band_c0 = plan.planes, C0", f"band_planes, band_c0 = {planes}, C0"),
        Edit(
            _FILE,
            "    bands = plan.bands\n",
            "    bands = plan.bands\n    held_shape = [bands[0].x.rows * geometry.width, geometry.cin]\n",
        ),
        Edit(
            _FILE,
            _FIRST,
            f"held = {create.format('held_shape')}\n            {_FIRST.replace('(x,', '(held, x,')}",
        ),
        Edit(_FILE, _INNER, f"held,\n                        {_INNER}"),
        Edit(_FILE, _LAST, _LAST.replace("(x,", "(held, x,")),
    )


MUTANTS = (
    # The gather of x.
    _of("gather: every plane is plane 0", _GATHER_FROM, "src_offset=[band_x_row * band_width, 0]"),
    _of(
        "gather: planes in reverse order in the feature map",
        "dst_offset=[0, plane * band_c0]",
        "dst_offset=[0, (band_planes - 1 - plane) * band_c0]",
    ),
    _of(
        "gather: rows are as wide as those of mid",
        "geometry.height * geometry.width, geometry.width",
        "geometry.height * geometry.width, geometry.mid_width",
    ),
    _of("gather: the band's row is ignored", _GATHER_FROM, "src_offset=[plane * band_image, 0]"),
    _of(
        "gather: one plane is left out",
        "for plane in pl.range(band_planes):",
        "for plane in pl.range(band_planes - 1):",
    ),
    _of(
        "gather: the last row of a band is left out",
        "band_plane = [band.x.rows * geometry.width, C0]",
        "band_plane = [(band.x.rows - 1) * geometry.width, C0]",
    ),
    _of(
        "gather: the second plane begins one position late",
        _GATHER_FROM,
        "src_offset=[plane * (band_image - 1) + band_x_row * band_width, 0]",
    ),
    faults(
        "fused, the last band gathers nothing and reads the feature map of the band before",
        FUSED,
        *one_map("plan.planes if band.row < plan.bands[-1].row else 0"),
    ),
    faults(
        "fused, the last band gathers its first plane only, the second is that of the band before",
        FUSED,
        *one_map("plan.planes if band.row < plan.bands[-1].row else 1"),
    ),
    faults(
        "fused, interior bands gather nothing and read the feature map of the first",
        FUSED,
        *one_map("0 if 0 < band.row < plan.bands[-1].row else plan.planes"),
    ),
    # The rows and the helper of a band.
    _of(
        "interior bands: x is read one row lower",
        "inner_x + (band - 1) * inner_step,",
        "inner_x + 1 + (band - 1) * inner_step,",
    ),
    _of(
        "interior bands: x is read one row higher",
        "inner_x + (band - 1) * inner_step,",
        "inner_x - 1 + (band - 1) * inner_step,",
    ),
    _of(
        "interior bands: each reads the x rows of the one before",
        "inner_x + (band - 1) * inner_step,",
        "inner_x + (band - 2) * inner_step + 1,",
    ),
    _of(
        "interior bands: the step of x is two rows short",
        "bands[min(2, last_band)].x.row - inner.x.row",
        "bands[min(2, last_band)].x.row - inner.x.row - 2",
    ),
    _of(
        "interior bands: x begins at the second of them",
        "inner_x, inner_step = inner.x.row,",
        "inner_x, inner_step = bands[min(2, last_band)].x.row,",
    ),
    _of("interior bands: y is stored one band higher", "band * rows_of_band,", "(band - 1) * rows_of_band,"),
    _of(
        "interior bands: y of one is stored in place of the other",
        "band * rows_of_band,",
        "(last_band - band) * rows_of_band,",
    ),
    _of(
        "interior bands: the loop begins at the second of them",
        "pl.range(1, last_band)",
        "pl.range(2, last_band)",
    ),
    _of(
        "interior bands: the loop ends one too early", "pl.range(1, last_band)", "pl.range(1, last_band - 1)"
    ),
    _of(
        "last band: reads the x rows of the band before",
        "last_x, last_y = bands[-1].x.row,",
        "last_x, last_y = bands[-2].x.row,",
    ),
    _of(
        "last band: y is stored where the band before belongs",
        "bands[-1].x.row, bands[-1].row",
        "bands[-1].x.row, bands[-2].row",
    ),
    _of(
        "last band: y is stored one row higher",
        "bands[-1].x.row, bands[-1].row",
        "bands[-1].x.row, bands[-1].row - 1",
    ),
    _of("last band: is left out", f"            if several:\n                {_LAST}\n", ""),
    _of("first band: is computed as an interior one", _FIRST, _FIRST.replace("first_of_y", "inner_of_y")),
    _of("first band: is computed as the last one", _FIRST, _FIRST.replace("first_of_y", "last_of_y")),
    _of("last band: is computed as an interior one", _LAST, _LAST.replace("last_of_y", "inner_of_y")),
    _of(
        "last band: is written again with the rows of an interior one",
        _LAST,
        f"{_LAST}\n                {_LAST.replace('last_of_y', 'inner_of_y').replace('last_x', 'inner_x')}",
    ),
    _of(
        "all bands: conv1 has the window of the first",
        "plan.conv1, band.x, ",
        "plan.conv1, plan.bands[0].x, ",
    ),
    _of(
        "all bands: conv2 has the window of the first",
        "plan.conv2, band.mid, ",
        "plan.conv2, plan.bands[0].mid, ",
    ),
    # Filters, biases and tables.
    _of("loads: filter1 is loaded from filter2", "f1 = pl.load(filter1,", "f1 = pl.load(filter2,"),
    _of("loads: bias1 is loaded from bias2", "b1 = pl.load(bias1,", "b1 = pl.load(bias2,"),
    _of("loads: bias2 is loaded from bias1", "b2 = pl.load(bias2,", "b2 = pl.load(bias1,"),
    _of("loads: scale1 is loaded from scale2", "s1 = pl.load(scale1,", "s1 = pl.load(scale2,"),
    _of("loads: scale2 is loaded from scale1", "s2 = pl.load(scale2,", "s2 = pl.load(scale1,"),
    _of(
        "moves: the second bias table is filled from the first bias",
        "bias_table2 = pl.move(band_bias2,",
        "bias_table2 = pl.move(band_bias1,",
    ),
    _of(
        "moves: the first bias table is filled from the second bias",
        "bias_table1 = pl.move(band_bias1,",
        "bias_table1 = pl.move(band_bias2,",
    ),
    _of(
        "moves: the second scale table is filled from the first scales",
        "scale_table2 = pl.move(band_scale2,",
        "scale_table2 = pl.move(band_scale1,",
    ),
    _of(
        "moves: the first scale table is filled from the second scales",
        "scale_table1 = pl.move(band_scale1,",
        "scale_table1 = pl.move(band_scale2,",
    ),
    _of("conv1 is given the filter of conv2", _FIRST_CONV, _FIRST_CONV.replace("taps1", "taps2")),
    _of("conv2 is given the filter of conv1", _SECOND_CONV, _SECOND_CONV.replace("taps2", "taps1")),
    _of(
        "conv2 is given the bias table of conv1",
        _SECOND_CONV,
        _SECOND_CONV.replace("bias_table2", "bias_table1"),
    ),
    _of("y is requantised with the table of mid", "acc2, scale_table2,", "acc2, scale_table1,"),
    _of(
        "mid is requantised with the table of y, which is that of the band before",
        "mid, acc1, scale_table1,",
        "mid, acc1, scale_table2,",
    ),
    _of("first band: filters are swapped", _FIRST, swapped(_FIRST, "f1", "f2")),
    _of("first band: biases are swapped", _FIRST, swapped(_FIRST, "b1", "b2")),
    _of("interior bands: biases are swapped", _INNER, swapped(_INNER, "b1", "b2")),
    _of("interior bands: both tables are the first", _INNER, _INNER.replace("s2", "s1")),
    _of("last band: both filters are the second", _LAST, _LAST.replace("f1", "f2")),
    # Tiles: where conv1 and conv2 begin, where their results go.
    _of(
        "conv1: tiles step as those of conv2 do",
        _FIRST_CONV,
        _FIRST_CONV.replace("* band_mid_tile", "* band_out_tile"),
        STRIDE_1_2,
    ),
    _of(
        "conv1: every tile begins one position late",
        _FIRST_CONV,
        _FIRST_CONV.replace("band_mid_start + mid_tile", "band_mid_start + 1 + mid_tile"),
    ),
    _of(
        "conv1: every tile is the first", _FIRST_CONV, _FIRST_CONV.replace(" + mid_tile * band_mid_tile", "")
    ),
    _of(
        "conv2: every tile is the first",
        _SECOND_CONV,
        _SECOND_CONV.replace(" + out_tile * band_out_tile", ""),
    ),
    _of(
        "conv2: tiles are computed from the end and stored from the start",
        _SECOND_CONV,
        _SECOND_CONV.replace("+ out_tile", "+ (band_out_tiles - 1 - out_tile)"),
    ),
    _of(
        "conv2's start: the window's skip is ignored",
        "band_out_start, band_out_width = band.mid.skip * geometry.out_width,",
        "band_out_start, band_out_width = 0,",
        RAGGED,
    ),
    _of(
        "conv2's start: the skip is in rows of x",
        "band_out_start, band_out_width = band.mid.skip * geometry.out_width,",
        "band_out_start, band_out_width = band.x.skip * geometry.out_width,",
        RAGGED,
    ),
    _of(
        "store into mid: each tile where the next belongs",
        "[mid_tile * band_mid_tile, 0]",
        "[(mid_tile + 1) % band_mid_tiles * band_mid_tile, 0]",
    ),
    _of("store into mid: all tiles go where the first belongs", "[mid_tile * band_mid_tile, 0]", "[0, 0]"),
    _of(
        "store into mid: the loop ends one tile too early",
        "for mid_tile in pl.range(band_mid_tiles):",
        "for mid_tile in pl.range(band_mid_tiles - 1):",
    ),
    _of(
        "store of y: tiles in reverse order",
        _Y_PLACE,
        _Y_PLACE.replace("+ out_tile", "+ (band_out_tiles - 1 - out_tile)"),
    ),
    _of("store of y: all bands at the top", _Y_PLACE, "out_tile * band_out_tile"),
    _of(
        "store of y: the loop ends one tile too early",
        "for out_tile in pl.range(band_out_tiles):",
        "for out_tile in pl.range(band_out_tiles - 1):",
    ),
    _of(
        "store of y: the loop begins at the second tile",
        "for out_tile in pl.range(band_out_tiles):",
        "for out_tile in pl.range(1, band_out_tiles):",
    ),
    _of(
        "store of y: the last band is as high as the others",
        "band.rows * geometry.out_width\n    band_mid_tiles",
        "plan.band_rows * geometry.out_width\n    band_mid_tiles",
        RAGGED,
    ),
    # The arguments of main.
    _of("main: filters are swapped", _MAIN, swapped(_MAIN, "filter1", "filter2")),
    _of("main: biases are swapped", _MAIN, swapped(_MAIN, "bias1", "bias2")),
    _of("main: scales are swapped", _MAIN, swapped(_MAIN, "scale1", "scale2")),
    _of("main: both biases are the first", _MAIN, _MAIN.replace("bias2", "bias1")),
    _of("main: both scales are the second", _MAIN, _MAIN.replace("scale1", "scale2")),
    # Names that stand where another of the same kind belongs, and bounds.
    _of(
        "gather: the strides of planes and rows are swapped",
        _GATHER_FROM,
        "src_offset=[plane * band_width + band_x_row * band_image, 0]",
    ),
    _of(
        "gather: one x row more than the window has",
        "band_plane = [band.x.rows * geometry.width, C0]",
        "band_plane = [(band.x.rows + 1) * geometry.width, C0]",
    ),
    _of("last band: its rows of x and y are swapped", _LAST, swapped(_LAST, "last_x", "last_y")),
    _of("interior bands: rows of y step as those of x do", "band * rows_of_band,", "band * inner_step,"),
    _of(
        "the last of two bands is taken for one between them",
        "several, interior = last_band > 0,",
        "several, interior = last_band > 1,",
        TWO_BANDS,
    ),
    _of(
        "interior bands: are there only if they are three",
        "last_band > 0, last_band > 1",
        "last_band > 0, last_band > 3",
    ),
)
