"""Mistakes in the helpers that all tile programs of convolutions share."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    INTERIOR,
    PLANES,
    WHOLE_K,
    WITH_CONV1,
    WITH_CONV2,
    fault,
)
from benchmarks.mutants.mutant import Case, Mutant

_FILE = "blocks.py"
_PLANES = ("pass1", "first-tile-load")
_CONV1_TAP = "conv1_taps,\n                conv1_k * conv1_step,"
_CONV2_TAP = "conv2_taps,\n                conv2_k * conv2_step,"
_CONV1_AT = "conv1_position,\n                conv1_k * conv1_step,"
_CONV2_AT = "conv2_position,\n                conv2_k * conv2_step,"
_CONV1_WINDOW = "conv1_image, conv1_padding = (window.held, shape.width), padded"
_CONV2_WINDOW = "conv2_image, conv2_padding = (window.held, shape.width), padded"
_PLANE_WINDOW = "more1_image, more1_padding = (window.held, shape.width), padded"


def _conv1(
    name: str, old: str, new: str, programs: tuple[str, ...] = WITH_CONV1, case: Case = INTERIOR
) -> Mutant:
    return fault(f"conv1, {name}", programs, _FILE, old, new, case)


def _conv2(name: str, old: str, new: str, case: Case = INTERIOR) -> Mutant:
    return fault(f"conv2, {name}", WITH_CONV2, _FILE, old, new, case)


def _plane(name: str, old: str, new: str, programs: tuple[str, ...] = _PLANES, case: Case = PLANES) -> Mutant:
    return fault(f"planes, {name}", programs, _FILE, old, new, case)


MUTANTS = (
    _conv1(
        "K loop: the windows lag one step behind",
        _CONV1_AT,
        _CONV1_AT.replace("conv1_k *", "(conv1_k - 1) *"),
    ),
    _conv1(
        "first step: takes the windows of the second",
        "conv1_position,\n            0,",
        "conv1_position,\n            conv1_step,",
        ("pass1", *WHOLE_K),
    ),
    _conv1(
        "first step: takes the filter of the second",
        "conv1_taps, 0, 0,",
        "conv1_taps, conv1_step, 0,",
        ("fused", "pass1"),
    ),
    _conv1(
        "K loop: all steps read the position 0",
        _CONV1_AT,
        _CONV1_AT.replace("conv1_position", "0"),
        ("fused", "pass1"),
    ),
    _conv1("K loop: ends one step too early", "pl.range(1, conv1_steps)", "pl.range(1, conv1_steps - 1)"),
    _conv1(
        "K loop: adds the first step twice",
        "pl.range(1, conv1_steps)",
        "pl.range(conv1_steps)",
        ("fused", "pass1"),
    ),
    _conv1(
        "K loop: leaves the second step out",
        "pl.range(1, conv1_steps)",
        "pl.range(2, conv1_steps)",
        ("pass1", *WHOLE_K),
    ),
    _conv1(
        "K loop: every step begins a new sum",
        "pl.tile.matmul_acc(conv1_acc, conv1_a, conv1_b)",
        "pl.tile.matmul_bias(conv1_a, conv1_b, conv1_bias)",
    ),
    _conv1(
        "no bias", "pl.tile.matmul_bias(conv1_a, conv1_b, conv1_bias)", "pl.tile.matmul(conv1_a, conv1_b)"
    ),
    _conv1(
        "img2col: paddings above and below are swapped",
        _CONV1_WINDOW,
        _CONV1_WINDOW.replace("padded", "(padded[1], padded[0], *padded[2:])"),
    ),
    _conv1(
        "img2col: no padding above",
        _CONV1_WINDOW,
        _CONV1_WINDOW.replace("padded", "(0, *padded[1:])"),
    ),
    _conv1(
        "img2col: padding left 0, right 2",
        _CONV1_WINDOW,
        _CONV1_WINDOW.replace("padded", "(*padded[:2], 0, 2)"),
    ),
    _conv1(
        "img2col: columns are not strided",
        "tile.steps, shape.kernel, shape.stride",
        "tile.steps, shape.kernel, (2, 1)",
    ),
    _conv1(
        "img2col: rows and columns of the image are swapped",
        _CONV1_WINDOW,
        _CONV1_WINDOW.replace("(window.held, shape.width)", "(shape.width, window.held)"),
    ),
    _conv1(
        "K loop: filter reversed, windows not",
        _CONV1_TAP,
        _CONV1_TAP.replace("conv1_k *", "(conv1_steps - conv1_k) *"),
    ),
    _conv1(
        "K loop: the filter rows are those of two steps before",
        _CONV1_TAP,
        _CONV1_TAP.replace("conv1_k *", "(conv1_k + 7) % conv1_steps *"),
    ),
    _conv2(
        "K loop: the windows lag one step behind",
        _CONV2_AT,
        _CONV2_AT.replace("conv2_k *", "(conv2_k - 1) *"),
    ),
    _conv2(
        "first step: takes the windows of the second",
        "conv2_position,\n            0,",
        "conv2_position,\n            conv2_step,",
    ),
    _conv2("first step: takes the filter of the last", "conv2_taps, 0, 0,", "conv2_taps, 544, 0,"),
    _conv2("K loop: all steps read the position 0", _CONV2_AT, _CONV2_AT.replace("conv2_position", "0")),
    _conv2("K loop: ends one step too early", "pl.range(1, conv2_steps)", "pl.range(1, conv2_steps - 1)"),
    _conv2("K loop: adds the first step twice", "pl.range(1, conv2_steps)", "pl.range(conv2_steps)"),
    _conv2("K loop: leaves the second step out", "pl.range(1, conv2_steps)", "pl.range(2, conv2_steps)"),
    _conv2(
        "K loop: every step begins a new sum",
        "pl.tile.matmul_acc(conv2_acc, conv2_a, conv2_b)",
        "pl.tile.matmul(conv2_a, conv2_b)",
    ),
    _conv2(
        "no bias", "pl.tile.matmul_bias(conv2_a, conv2_b, conv2_bias)", "pl.tile.matmul(conv2_a, conv2_b)"
    ),
    _conv2(
        "img2col: paddings above and below are swapped",
        _CONV2_WINDOW,
        _CONV2_WINDOW.replace("padded", "(padded[1], padded[0], *padded[2:])"),
    ),
    _conv2(
        "img2col: no padding below",
        _CONV2_WINDOW,
        _CONV2_WINDOW.replace("padded", "(padded[0], 0, *padded[2:])"),
    ),
    _conv2(
        "img2col: padding left 0, right 2",
        _CONV2_WINDOW,
        _CONV2_WINDOW.replace("padded", "(*padded[:2], 0, 2)"),
    ),
    _conv2(
        "img2col: rows and columns of the image are swapped",
        _CONV2_WINDOW,
        _CONV2_WINDOW.replace("(window.held, shape.width)", "(shape.width, window.held)"),
    ),
    _conv2(
        "img2col: one row of the image less",
        _CONV2_WINDOW,
        _CONV2_WINDOW.replace("(window.held,", "(window.held - 1,"),
    ),
    _conv2(
        "K loop: filter reversed, windows not",
        _CONV2_TAP,
        _CONV2_TAP.replace("conv2_k *", "(conv2_steps - conv2_k) *"),
    ),
    _conv2(
        "K loop: the last two taps are swapped in the filter",
        _CONV2_TAP,
        _CONV2_TAP.replace(
            "conv2_k *", "(conv2_k + (conv2_k // (conv2_steps - 2)) * (2 * (conv2_steps - conv2_k) - 3)) *"
        ),
    ),
    _conv2(
        "K loop: odd steps use the filter rows of the even step before",
        _CONV2_TAP,
        _CONV2_TAP.replace("conv2_k *", "conv2_k // 2 * 2 *"),
    ),
    _plane(
        "filter: each plane takes the rows of the one before",
        "plane_first = number * tile",
        "plane_first = (number - 1) * tile",
    ),
    _plane(
        "filter: every plane takes the rows of the first",
        "more1_row + more1_k * more1_step",
        "more1_k * more1_step",
    ),
    _plane(
        "K loop: begins at the second tap",
        "for more1_k in pl.range(more1_steps):",
        "for more1_k in pl.range(1, more1_steps):",
        ("pass1",),
    ),
    _plane(
        "K loop: ends one tap too early",
        "for more1_k in pl.range(more1_steps):",
        "for more1_k in pl.range(more1_steps - 1):",
    ),
    _plane(
        "img2col: no padding above",
        _PLANE_WINDOW,
        _PLANE_WINDOW.replace("padded", "(0, *padded[1:])"),
    ),
    _plane(
        "img2col: padding left 2, right 0",
        _PLANE_WINDOW,
        _PLANE_WINDOW.replace("padded", "(*padded[:2], 2, 0)"),
    ),
    _plane(
        "K loop: windows of the tap before",
        "more1_depth + more1_k * more1_step,",
        "more1_depth + (more1_k + 8) % 9 * more1_step,",
    ),
    _plane(
        "load: the plane stride is one row short",
        "number * geometry.height * geometry.width, geometry.width",
        "number * (geometry.height - 1) * geometry.width, geometry.width",
    ),
    _plane(
        "load: the plane stride is that of the window",
        "number * geometry.height * geometry.width, geometry.width",
        "number * window.rows * geometry.width, geometry.width",
    ),
    _plane(
        "load: the band's row is ignored",
        "[load_start + load_row * load_width, 0]",
        "[load_start, 0]",
        ("pass1",),
    ),
    _plane(
        "load: the last plane is not loaded, the first stands for it",
        "return load_plane if number < plan.planes",
        "return load_plane if number < plan.planes - 1",
    ),
    _plane(
        "the last plane is not added",
        "return add_plane if number < plan.planes",
        "return add_plane if number < plan.planes - 1",
    ),
    fault(
        "planes, load: a plane after the last is loaded",
        _PLANES,
        _FILE,
        "return load_plane if number < plan.planes",
        "return load_plane if number <= plan.planes",
    ),
    fault(
        "planes, a plane after the last is added",
        _PLANES,
        _FILE,
        "return add_plane if number < plan.planes",
        "return add_plane if number <= plan.planes",
    ),
)
