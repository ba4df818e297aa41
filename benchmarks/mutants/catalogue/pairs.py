"""Two mistakes at once, in different stages or programs: each must be found."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    CONV,
    CONV_ONLY,
    FUSED,
    GEMM,
    GEMM_ONLY,
    PASS1,
    WHOLE_K,
    WITH_CONV1,
    WITH_CONV2,
    several,
)
from benchmarks.mutants.mutant import Edit

_FUSED, _TWO, _BLOCKS = "fused_conv2d.py", "unfused_conv2d.py", "blocks.py"
_CONV1_TAP = "conv1_taps,\n                conv1_k * conv1_step,"
_CONV2_TAP = "conv2_taps,\n                conv2_k * conv2_step,"

MUTANTS = (
    several(
        "two at once, fused: planes of x in reverse order, tiles of y in reverse order",
        FUSED,
        Edit(
            _FUSED, "dst_offset=[0, plane * band_c0]", "dst_offset=[0, (band_planes - 1 - plane) * band_c0]"
        ),
        Edit(_FUSED, "band_out_width + out_tile *", "band_out_width + (band_out_tiles - 1 - out_tile) *"),
    ),
    several(
        "two at once, fused: bias1 from bias2, scale2 from scale1",
        FUSED,
        Edit(_FUSED, "b1 = pl.load(bias1,", "b1 = pl.load(bias2,"),
        Edit(_FUSED, "s2 = pl.load(scale2,", "s2 = pl.load(scale1,"),
    ),
    several(
        "two at once, fused: interior bands read the x rows of the first, the last has its tables swapped",
        FUSED,
        Edit(_FUSED, "inner_x + (band - 1) * inner_step,", "inner_x,"),
        Edit(_FUSED, "last_of_y(x, f1, b1, s1, f2, b2, s2,", "last_of_y(x, f1, b1, s2, f2, b2, s1,"),
    ),
    several(
        "two at once, conv1 without bias, conv2's filter one step behind",
        ("fused", "pass1", "first-tile-load", "first-tile-packed", "first-tile-fused-alloc", "pass2"),
        Edit(
            _BLOCKS, "pl.tile.matmul_bias(conv1_a, conv1_b, conv1_bias)", "pl.tile.matmul(conv1_a, conv1_b)"
        ),
        Edit(_BLOCKS, _CONV2_TAP, _CONV2_TAP.replace("conv2_k *", "(conv2_k - 1) *")),
    ),
    several(
        "two at once, conv1's last step with the first filter rows, conv2 without bias",
        (*WITH_CONV1, "pass2"),
        Edit(_BLOCKS, _CONV1_TAP, _CONV1_TAP.replace("conv1_k *", "conv1_k % (conv1_steps - 1) *")),
        Edit(
            _BLOCKS, "pl.tile.matmul_bias(conv2_a, conv2_b, conv2_bias)", "pl.tile.matmul(conv2_a, conv2_b)"
        ),
    ),
    several(
        "two at once, fused: filter2 from filter1, mid tiles in reverse order",
        FUSED,
        Edit(_FUSED, "f2 = pl.load(filter2,", "f2 = pl.load(filter1,"),
        Edit(_FUSED, "[mid_tile * band_mid_tile, 0]", "[(band_mid_tiles - 1 - mid_tile) * band_mid_tile, 0]"),
    ),
    several(
        "two at once, fused: the plane stride is one row short, conv2's padding left 2 and right 0",
        WITH_CONV2,
        Edit(
            _FUSED,
            "geometry.height * geometry.width, geometry.width",
            "(geometry.height - 1) * geometry.width, geometry.width",
        ),
        Edit(
            _BLOCKS,
            "conv2_padding = (window.held, shape.width), padded",
            "conv2_padding = (window.held, shape.width), (*padded[:2], 2, 0)",
        ),
    ),
    several(
        "two at once, pass1: interior bands one x row lower, the last two rows too high",
        PASS1,
        Edit(_TWO, "inner_x + (band - 1) * inner_step", "inner_x + 1 + (band - 1) * inner_step"),
        Edit(_TWO, "last_x, last_mid = bands[-1][2].row,", "last_x, last_mid = bands[-1][2].row - 2,"),
    ),
    several(
        "two at once, pass1 reads plane 1 one row short, pass2 stores its tiles in reverse",
        ("pass1", "pass2", "first-tile-load"),
        Edit(
            _BLOCKS,
            "number * geometry.height * geometry.width, geometry.width",
            "number * (geometry.height - 1) * geometry.width, geometry.width",
        ),
        Edit(
            _TWO,
            "band_out_width + out_tile * band_tile",
            "band_out_width + (band_tiles - 1 - out_tile) * band_tile",
        ),
    ),
    several(
        "two at once, plan: one K step too few; fused: main swaps biases",
        (*WHOLE_K, "pass2"),
        Edit(
            "tiles.py",
            "replace(tile, columns=0, slices=1)",
            "replace(tile, columns=0, slices=1, steps=tile.steps - 1)",
        ),
        Edit(
            _FUSED,
            "self.fused(x, filter1, bias1, scale1, filter2, bias2,",
            "self.fused(x, filter1, bias2, scale1, filter2, bias1,",
        ),
    ),
    several(
        "two at once, fused: the last band starts two x rows too high, y takes the table of mid",
        FUSED,
        Edit(_FUSED, "last_x, last_y = bands[-1].x.row,", "last_x, last_y = bands[-1].x.row - 2,"),
        Edit(_FUSED, "acc2, scale_table2,", "acc2, scale_table1,"),
    ),
    several(
        "two at once, conv: planes in reverse order, interior bands of y in reverse order",
        CONV_ONLY,
        Edit(
            "conv2d.py",
            "dst_offset=[0, plane * band_c0]",
            "dst_offset=[0, (band_planes - 1 - plane) * band_c0]",
        ),
        Edit("conv2d.py", "band * rows_of_band,", "(last_band - band) * rows_of_band,"),
        case=CONV,
    ),
    several(
        "two at once, gemm: b one step behind, bands of c in reverse order",
        GEMM_ONLY,
        Edit(
            "gemm.py",
            "b_block,\n                                    k * step,",
            "b_block,\n                                    (k - 1) * step,",
        ),
        Edit("gemm.py", "[band * rows + row * tile_m,", "[(bands - 1 - band) * rows + row * tile_m,"),
        case=GEMM,
    ),
)
