"""Kernels, strides and paddings of several numbers, as a matrix writes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from golden.geometry import Conv
from pipeline.ground.subject import geometry_of
from pipeline.matrix.schema import Matrix

CONV1 = "{kernel: 3, stride: 2, padding: 1}"
PAIR, FOUR = "a list [rows, columns]", "a list [top, bottom, left, right]"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{kernel: [1, 7], stride: 1, padding: [0, 0, 3, 3]}", Conv((1, 7), 1, (0, 0, 3, 3))),
        ("{kernel: 3, stride: [2, 1], padding: [0, 1, 0, 1]}", Conv(3, (2, 1), (0, 1, 0, 1))),
        ("{kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1]}", Conv(3, 2, 1)),
    ],
)
def test_a_number_or_one_for_each_direction_and_side(
    written: str, expected: Conv, sound: str, load_text: Callable[..., Matrix]
) -> None:
    tiny = load_text(sound.replace(CONV1, written)).geometries["tiny"]
    assert tiny.declaration is not None
    assert geometry_of(tiny.declaration, tiny.shapes).conv1 == expected


@pytest.mark.parametrize(
    ("key", "written", "said"),
    [
        ("kernel", "[3]", f": expected `array` of length 2, got 1; write a whole number, or {PAIR}"),
        ("kernel", '"3"', f": `3`: expected `int | array`, got `str`; write a whole number, or {PAIR}"),
        ("kernel", "3.0", f": `3.0`: expected `int | array`, got `float`; write a whole number, or {PAIR}"),
        ("kernel", "true", f": `true`: expected `int | array`, got `bool`; write a whole number, or {PAIR}"),
        ("kernel", "{rows: 3}", f": expected `int | array`, got `object`; write a whole number, or {PAIR}"),
        ("kernel", "[3, true]", "[1]: `true`: expected `int`, got `bool`; write a whole number"),
        ("kernel", "[[3], 3]", "[0]: expected `int`, got `array`; write a whole number"),
        ("kernel", "[3, 0]", ": conv1.kernel (columns) is 0: must be 1..255; write another value"),
        ("stride", "[2, 1.5]", "[1]: `1.5`: expected `int`, got `float`; write a whole number"),
        ("stride", "[256, 1]", ": conv1.stride (rows) is 256: must be 1..255; write another value"),
        ("padding", "[1, 2]", f": expected `array` of length 4, got 2; write a whole number, or {FOUR}"),
        (
            "padding",
            "[1, 1, 3, 1]",
            ": conv1.padding (left) is 3: must be at least 0 and below the kernel (3); write another value",
        ),
        (
            "padding",
            "[1, -1, 1, 1]",
            ": conv1.padding (bottom) is -1: must be at least 0 and below the kernel (3); write another "
            "value",
        ),
    ],
)
def test_anything_else_is_refused_in_one_line(
    key: str, written: str, said: str, sound: str, refusal: Callable[..., str]
) -> None:
    parts = {"kernel": "3", "stride": "2", "padding": "1", key: written}
    conv = ", ".join(f"{name}: {value}" for name, value in parts.items())
    message = refusal(sound.replace(CONV1, f"{{{conv}}}"))
    assert message == f"matrix.yaml:8: geometries.tiny.conv1.{key}{said}"
