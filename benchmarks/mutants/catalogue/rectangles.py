"""Mistakes that show only where rows and columns differ: in kernels, strides and padding."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import WITH_CONV1, fault, pair_case
from benchmarks.mutants.mutant import Mutant
from golden.geometry import Conv, Geometry

RECTANGLES = pair_case(
    Geometry(40, 26, 64, 64, 64, Conv((5, 3), (2, 1), (1, 2, 2, 0)), Conv((3, 2), (1, 2), (2, 1, 0, 1))),
    6,
    (208, 64),
    (80, 32),
)
"""Four bands; no two sides of a convolution have the same padding and no two numbers of a pair are alike."""

_BOTH = (*WITH_CONV1, "pass2")


def _of(name: str, programs: tuple[str, ...], old: str, new: str) -> Mutant:
    return fault(f"rectangles, {name}", programs, "windows.py", old, new, RECTANGLES)


MUTANTS = (
    _of(
        "window: left and right padding are swapped",
        _BOTH,
        "padding = (top, bottom, left, right)",
        "padding = (top, bottom, right, left)",
    ),
    _of(
        "window: the padding on the left is that on the right",
        _BOTH,
        "padding = (top, bottom, left, right)",
        "padding = (top, bottom, right, right)",
    ),
    _of(
        "window: the padding above is that below",
        _BOTH,
        "above, _, left, right = conv.sides",
        "_, above, left, right = conv.sides",
    ),
    _of(
        "both convolutions: the kernel is turned",
        _BOTH,
        "(conv.kernel_rows, conv.kernel_columns), ",
        "(conv.kernel_columns, conv.kernel_rows), ",
    ),
    _of(
        "both convolutions: the strides are turned",
        _BOTH,
        "(conv.stride_rows, conv.stride_columns)",
        "(conv.stride_columns, conv.stride_rows)",
    ),
    _of(
        "rows held: as many as the kernel has columns",
        _BOTH,
        "return (rows - 1) * conv.stride_rows + conv.kernel_rows",
        "return (rows - 1) * conv.stride_rows + conv.kernel_columns",
    ),
)
