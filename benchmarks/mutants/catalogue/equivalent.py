"""Changes that change no result: each must be proved."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    CONV,
    CONV_ONLY,
    FUSED,
    GEMM,
    GEMM_BLOCKS,
    GEMM_ONLY,
    PASS1,
    PASS2,
    PLANES,
    STRIDE_1_2,
    WHOLE_K,
    WITH_CONV1,
    WITH_CONV2,
    equivalent,
)
from benchmarks.mutants.catalogue.fused import one_map
from benchmarks.mutants.catalogue.issue import CONTINUED
from benchmarks.mutants.mutant import Edit

_FUSED, _TWO, _BLOCKS, _PLAN, _PLANNER, _WINDOWS, _GEMM = (
    "fused_conv2d.py",
    "unfused_conv2d.py",
    "blocks.py",
    "plan.py",
    "planner.py",
    "windows.py",
    "gemm.py",
)
_CONV1_K = ("conv1_position,\n                conv1_k *", "conv1_taps,\n                conv1_k *")
_CONV2_K = ("conv2_position,\n                conv2_k *", "conv2_taps,\n                conv2_k *")
_LAST = "y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, last_y)"
_FIRST = "y = first_of_y(x, f1, b1, s1, f2, b2, s2, y, 0, 0)"
_REQUANT = (
    "            mid = pl.tile.fixpipe_requant(mid, acc1, scale_table1, [mid_tile * band_mid_tile, 0])\n"
)
_TABLES2 = """        bias_table2 = pl.move(band_bias2, target_memory=pl.MemorySpace.Bias)
        scale_table2 = pl.move(band_scale2, target_memory=pl.MemorySpace.LeftScale)
"""
_TABLES1 = _TABLES2.replace("2", "1")
_INTERIOR_OF_Y = """            if interior:
                for band in pl.range(1, last_band):
                    y = inner_of_y(
                        mid, f2, bias, scale, y, inner_mid + (band - 1) * inner_step, band * rows_of_band
                    )
"""
_LOAD_F1 = "            f1 = pl.load(filter1, [0, 0], filter1_shape, target_memory=pl.MemorySpace.Mat)\n"
_LOAD_F2 = "            f2 = pl.load(filter2, [0, 0], filter2_shape, target_memory=pl.MemorySpace.Mat)\n"

MUTANTS = (
    equivalent(
        "equivalent, conv2: the K loop runs from the end",
        WITH_CONV2,
        *(Edit(_BLOCKS, text, text.replace("conv2_k *", "(conv2_steps - conv2_k) *")) for text in _CONV2_K),
    ),
    equivalent(
        "equivalent, conv1: the K loop runs from the end",
        WITH_CONV1,
        *(Edit(_BLOCKS, text, text.replace("conv1_k *", "(conv1_steps - conv1_k) *")) for text in _CONV1_K),
    ),
    equivalent(
        "equivalent, fused: tiles of mid and y from the end",
        FUSED,
        Edit(_FUSED, "band_mid_start + mid_tile *", "band_mid_start + (band_mid_tiles - 1 - mid_tile) *"),
        Edit(_FUSED, "[mid_tile *", "[(band_mid_tiles - 1 - mid_tile) *"),
        Edit(_FUSED, "band_out_start + out_tile *", "band_out_start + (band_out_tiles - 1 - out_tile) *"),
        Edit(_FUSED, "band_out_width + out_tile *", "band_out_width + (band_out_tiles - 1 - out_tile) *"),
    ),
    equivalent(
        "equivalent, fused: interior bands from the bottom",
        FUSED,
        Edit(_FUSED, "inner_x + (band - 1) * inner_step,", "inner_x + (last_band - 1 - band) * inner_step,"),
        Edit(_FUSED, "band * rows_of_band,", "(last_band - band) * rows_of_band,"),
    ),
    equivalent(
        "equivalent, fused: the last band twice",
        FUSED,
        Edit(_FUSED, _LAST, f"{_LAST}\n                {_LAST}"),
    ),
    equivalent(
        "equivalent, fused: the last band in place of the first, which then mends it",
        FUSED,
        Edit(_FUSED, _FIRST, f"y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, 0)\n            {_FIRST}"),
    ),
    equivalent(
        "equivalent, fused: the last band first",
        FUSED,
        Edit(_FUSED, f"            if several:\n                {_LAST}\n", ""),
        Edit(
            _FUSED,
            f"            {_FIRST}\n",
            f"            if several:\n                {_LAST}\n            {_FIRST}\n",
        ),
    ),
    equivalent(
        "equivalent, fused: planes are gathered from the last",
        FUSED,
        Edit(
            _FUSED, "dst_offset=[0, plane * band_c0]", "dst_offset=[0, (band_planes - 1 - plane) * band_c0]"
        ),
        Edit(_FUSED, "[plane * band_image + ", "[(band_planes - 1 - plane) * band_image + "),
    ),
    equivalent(
        "equivalent, fused: each tile of mid is requantised twice",
        FUSED,
        Edit(_FUSED, _REQUANT, _REQUANT + _REQUANT),
    ),
    equivalent(
        "equivalent, fused: a tile of mid is computed, discarded and computed again",
        FUSED,
        Edit(
            _FUSED,
            "            acc1 = first_conv(",
            "            unused = first_conv(feature_map, band_taps1, bias_table1, band_mid_start)\n"
            "            acc1 = first_conv(",
        ),
    ),
    equivalent(
        "equivalent, fused: all tables are moved before conv1",
        FUSED,
        Edit(_FUSED, _TABLES2, ""),
        Edit(_FUSED, _TABLES1, _TABLES1 + _TABLES2),
    ),
    equivalent(
        "equivalent, fused: filter2 is loaded before filter1",
        FUSED,
        Edit(_FUSED, _LOAD_F1 + _LOAD_F2, _LOAD_F2 + _LOAD_F1),
    ),
    equivalent(
        "equivalent, fused: one feature map serves all bands, each gathers the whole of it",
        FUSED,
        *one_map("plan.planes"),
    ),
    equivalent(
        "equivalent, fused: conv2 steps through K as conv1 does",
        FUSED,
        Edit(_FUSED, "plan.conv2, band.mid, band_out_pixels)", "plan.conv1, band.mid, band_out_pixels)"),
    ),
    equivalent(
        "equivalent, plan: K steps of 32 in conv1",
        WHOLE_K,
        Edit(_PLANNER, "written=written[0]", "written=replace(written[0], step=C0)"),
    ),
    equivalent(
        "equivalent, plan: pass1's bands are half as high",
        PASS1,
        Edit(
            _PLAN,
            "height = min(band_rows * geometry.conv2.stride_rows, geometry.mid_height)",
            "height = min(band_rows, geometry.mid_height)",
        ),
        case=STRIDE_1_2,
    ),
    equivalent(
        "equivalent, plan: two rows more than needed are loaded of each map",
        (*WITH_CONV1, "pass2"),
        Edit(
            _WINDOWS,
            "held = min(rows_read(conv, rows), height)",
            "held = min(rows_read(conv, rows) + 2, height)",
        ),
    ),
    equivalent(
        "equivalent, plan: an ACC tile of two image rows",
        (*WITH_CONV1, "pass2"),
        Edit(_PLANNER, "written=written[0]", "written=replace(written[0], positions=32)"),
        Edit(_PLANNER, "written=written[1]", "written=replace(written[1], positions=32)"),
    ),
    equivalent(
        "equivalent, pass2: the first band last",
        PASS2,
        Edit(_TWO, "            y = first_of_y(mid, f2, bias, scale, y, 0, 0)\n", ""),
        Edit(
            _TWO,
            "y = last_of_y(mid, f2, bias, scale, y, last_mid, last_y)\n",
            "y = last_of_y(mid, f2, bias, scale, y, last_mid, last_y)\n"
            "            y = first_of_y(mid, f2, bias, scale, y, 0, 0)\n",
        ),
    ),
    equivalent(
        "equivalent, pass2: interior bands twice",
        PASS2,
        Edit(_TWO, _INTERIOR_OF_Y, _INTERIOR_OF_Y + _INTERIOR_OF_Y),
    ),
    equivalent(
        "equivalent, pass1: the third plane is added before the second",
        PASS1,
        Edit(_TWO, "add1(acc0, plane1,", "add2(acc0, plane2,"),
        Edit(_TWO, "add2(acc1, plane2,", "add1(acc1, plane1,"),
        case=PLANES,
    ),
    equivalent(
        "equivalent, pass2, a helper: the accumulator goes on under a new name each time", PASS2, *CONTINUED
    ),
    equivalent(
        "equivalent, first-tile-fused-alloc: the discarded sum has a third product",
        ("first-tile-fused-alloc",),
        Edit(
            "first_tile.py",
            "            discarded = pl.tile.matmul_acc(discarded, a, b)\n",
            2 * "            discarded = pl.tile.matmul_acc(discarded, a, b)\n",
        ),
    ),
    equivalent(
        "equivalent, gemm: bands from the last",
        GEMM_ONLY,
        Edit(_GEMM, "[band * rows, 0]", "[(bands - 1 - band) * rows, 0]"),
        Edit(_GEMM, "[band * rows + row", "[(bands - 1 - band) * rows + row"),
        case=GEMM,
    ),
    equivalent(
        "equivalent, gemm: the K loop runs from the end",
        GEMM_ONLY,
        Edit(
            _GEMM,
            "                                    k * step,",
            "                                    (steps - k) * step,",
            2,
        ),
        case=GEMM,
    ),
    equivalent(
        "equivalent, gemm: blocks from the last",
        GEMM_ONLY,
        Edit(_GEMM, "block * columns", "(blocks - 1 - block) * columns", 2),
        case=GEMM_BLOCKS,
    ),
    equivalent(
        "equivalent, gemm: K steps half as long",
        GEMM_ONLY,
        Edit(
            "gemm_plan.py",
            "    return GemmPlan(geometry, tile_m, tile_n, step,",
            "    return GemmPlan(geometry, tile_m, tile_n, step // 2,",
        ),
        case=GEMM,
    ),
    equivalent(
        "equivalent, conv: tiles of y from the end",
        CONV_ONLY,
        Edit("conv2d.py", "out_tile * band_tile", "(band_tiles - 1 - out_tile) * band_tile", 2),
        case=CONV,
    ),
    equivalent(
        "equivalent, conv: the last band first",
        CONV_ONLY,
        Edit(
            "conv2d.py",
            "            y = first_of_y(x, taps, bias_row, scale_row, y, 0, 0)\n",
            "            y = last_of_y(x, taps, bias_row, scale_row, y, last_x, last_y)\n"
            "            y = first_of_y(x, taps, bias_row, scale_row, y, 0, 0)\n",
        ),
        case=CONV,
    ),
    equivalent(
        "equivalent, fused: a product of conv2 is computed and discarded",
        FUSED,
        Edit(
            _FUSED,
            "            acc2 = second_conv(",
            "            unused = second_conv(mid, band_taps2, bias_table2, band_out_start)\n"
            "            acc2 = second_conv(",
        ),
    ),
)
