"""The two dozen mistakes with which the catalogue began: nobody's list had them."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    FUSED,
    PASS1,
    PASS2,
    RAGGED,
    WHOLE_K,
    WITH_CONV1,
    WITH_CONV2,
    fault,
    faults,
)
from benchmarks.mutants.mutant import Edit

_FUSED, _TWO, _BLOCKS = "fused_conv2d.py", "unfused_conv2d.py", "blocks.py"
_PLAN, _WINDOWS = "plan.py", "windows.py"
_LAST = "last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, last_y)"
_CONV1_K = "conv1_taps,\n                conv1_k * conv1_step,"
_CONV2_K = "conv2_taps,\n                conv2_k * conv2_step,"

CONTINUED = (
    Edit(
        _TWO,
        "    second_conv = conv2_tile(pl, plan.shape2, plan.conv2, band.mid, band_pixels)\n",
        """    tile = plan.conv2
    second_conv = conv2_tile(pl, plan.shape2, replace(tile, steps=tile.steps - 2), band.mid, band_pixels)
    more_shape, more_filter = [tile.positions, tile.step], [tile.step, plan.shape2.channels]
    more_image, more_padding = (band.mid.rows, plan.shape2.width), band.mid.padding
    more_kernel, more_stride = plan.shape2.kernel, plan.shape2.stride
    more_first, more_second = (tile.steps - 2) * tile.step, (tile.steps - 1) * tile.step

    @pl.inline
    def more_of(more_acc: Any, more_map: Any, more_taps: Any, more_position: Any, more_k: Any) -> Any:
        more_a = pl.tile.img2col(
            more_map,
            more_position,
            more_k,
            more_shape,
            image_shape=more_image,
            kernel_size=more_kernel,
            stride=more_stride,
            padding=more_padding,
        )
        more_b = pl.tile.extract(
            more_taps, more_k, 0, shape=more_filter, target_memory=pl.MemorySpace.Right
        )
        more_acc = pl.tile.matmul_acc(more_acc, more_a, more_b)
        return more_acc
""",
    ),
    Edit(
        _TWO,
        """band_start + out_tile * band_tile)
            if out_tile == band_last:
                acc = pl.tile.set_validshape(acc, band_rest, band_channels)
            band_y = pl.tile.fixpipe_store(
                acc, band_scale,""",
        """band_start + out_tile * band_tile)
            more1 = more_of(acc, mid_rows, band_taps, band_start + out_tile * band_tile, more_first)
            more2 = more_of(more1, mid_rows, band_taps, band_start + out_tile * band_tile, more_second)
            band_y = pl.tile.fixpipe_store(
                more2, band_scale,""",
    ),
)
"""Pass2 in which a helper adds the last two K steps, each to an accumulator of a name of its own."""

MUTANTS = (
    fault(
        "fused, gather of x: the plane stride is one x row short",
        FUSED,
        _FUSED,
        "geometry.height * geometry.width, geometry.width",
        "(geometry.height - 1) * geometry.width, geometry.width",
    ),
    fault(
        "fused, conv1's start: the window's skip is ignored",
        FUSED,
        _FUSED,
        "band_mid_start = band.x.skip * geometry.mid_width",
        "band_mid_start = 0",
        case=RAGGED,
    ),
    fault(
        "fused, store into mid: tiles in reverse order",
        FUSED,
        _FUSED,
        "[mid_tile * band_mid_tile, 0]",
        "[(band_mid_tiles - 1 - mid_tile) * band_mid_tile, 0]",
    ),
    fault(
        "fused, store of y: each tile where the next belongs",
        FUSED,
        _FUSED,
        "band_out_width + out_tile * band_out_tile",
        "band_out_width + (out_tile + 1) % band_out_tiles * band_out_tile",
    ),
    fault(
        "fused, interior bands: all read the x rows of the first of them",
        FUSED,
        _FUSED,
        "inner_x + (band - 1) * inner_step,",
        "inner_x,",
    ),
    fault(
        "fused, last band: starts two x rows too high",
        FUSED,
        _FUSED,
        "last_x, last_y = bands[-1].x.row,",
        "last_x, last_y = bands[-1].x.row - 2,",
    ),
    fault(
        "fused, loads: filter2 is loaded from filter1",
        FUSED,
        _FUSED,
        "f2 = pl.load(filter2,",
        "f2 = pl.load(filter1,",
    ),
    fault(
        "fused, last band: scale tables 1 and 2 are swapped",
        FUSED,
        _FUSED,
        _LAST,
        "last_of_y(x, f1, b1, s2, f2, b2, s1, y, last_x, last_y)",
    ),
    fault(
        "conv2, K loop: the filter's K offset lags one step behind",
        WITH_CONV2,
        _BLOCKS,
        _CONV2_K,
        _CONV2_K.replace("conv2_k *", "(conv2_k - 1) *"),
    ),
    fault(
        "conv2, K loop: the filter's taps are transposed",
        WITH_CONV2,
        _BLOCKS,
        _CONV2_K,
        _CONV2_K.replace("conv2_k *", "(conv2_k // 9 * 9 + conv2_k % 3 * 3 + conv2_k % 9 // 3) *"),
    ),
    faults(
        "conv2, K loop: the filter's taps are rotated by 180 degrees",
        WITH_CONV2,
        Edit(_BLOCKS, _CONV2_K, _CONV2_K.replace("conv2_k *", "(conv2_k // 9 * 9 + 8 - conv2_k % 9) *")),
        Edit(_BLOCKS, "conv2_taps, 0, 0,", "conv2_taps, 256, 0,"),
    ),
    fault(
        "conv1, K loop: the last step uses the filter rows of the first",
        WITH_CONV1,
        _BLOCKS,
        _CONV1_K,
        _CONV1_K.replace("conv1_k *", "conv1_k % (conv1_steps - 1) *"),
    ),
    fault(
        "conv1, K loop: the filter's offset is in units of 32 where a step is 64",
        WHOLE_K,
        _BLOCKS,
        _CONV1_K,
        _CONV1_K.replace("conv1_step", "32"),
    ),
    fault(
        "conv2, img2col: padding left 2, right 0",
        WITH_CONV2,
        _BLOCKS,
        "conv2_padding = (window.held, shape.width), padded",
        "conv2_padding = (window.held, shape.width), (*padded[:2], 2, 0)",
    ),
    fault(
        "conv2, img2col: all four paddings of the convolution in every band",
        WITH_CONV2,
        _BLOCKS,
        "conv2_padding = (window.held, shape.width), padded",
        "conv2_padding = (window.held, shape.width), (1, 1, 1, 1)",
    ),
    fault(
        "conv1, img2col: stride (1, 2), rows are not strided",
        ("fused", "pass1"),
        _BLOCKS,
        "tile.steps, shape.kernel, shape.stride",
        "tile.steps, shape.kernel, (1, 2)",
    ),
    fault(
        "conv2, K loop: the last C1 plane of mid is read as the one before",
        WITH_CONV2,
        _BLOCKS,
        "conv2_position,\n                conv2_k * conv2_step,",
        "conv2_position,\n                conv2_k % 9 * conv2_step,",
    ),
    fault(
        "pass1, interior bands: x starts at band * step, not (band - 1) * step",
        PASS1,
        _TWO,
        "inner_x + (band - 1) * inner_step",
        "inner_x + band * inner_step",
    ),
    faults(
        "pass2, interior and last bands: mid is read one row higher",
        PASS2,
        Edit(_TWO, "inner_mid + (band - 1) * inner_step", "inner_mid - 1 + (band - 1) * inner_step"),
        Edit(_TWO, "last_mid, last_y = bands[-1].mid.row,", "last_mid, last_y = bands[-1].mid.row - 1,"),
    ),
    fault(
        "plan, window: the shift is not brought back into step with the stride",
        ("fused", "pass1"),
        _WINDOWS,
        "top = -shift if shift < 0 else -shift % conv.stride_rows",
        "top = max(-shift, 0)",
        case=RAGGED,
    ),
    fault(
        "plan, window: the start is clipped one row early",
        ("fused", "pass1", "pass2"),
        _WINDOWS,
        "max(first, 0), size - held)",
        "max(first, 0), size - held - 1)",
    ),
    fault(
        "plan, x window: one x row short",
        ("fused", "pass1"),
        _PLAN,
        "window(geometry.conv1, mid_row, mid_rows, geometry.height, held, spare)",
        "window(geometry.conv1, mid_row, mid_rows, geometry.height, held - 1, spare)",
    ),
    fault(
        "plan, window: left padding one more, right padding one less",
        (*WITH_CONV1, "pass2"),
        _WINDOWS,
        "padding = (top, bottom, left, right)",
        "padding = (top, bottom, left + 1, right - 1)",
    ),
    faults(
        "pass2, a helper: the accumulator is passed under its first name after it went on under another",
        PASS2,
        *CONTINUED[:-1],
        Edit(_TWO, CONTINUED[-1].old, CONTINUED[-1].new.replace("more_of(more1,", "more_of(acc,")),
    ),
)
