"""img2col, from the index map to a whole program, against the definition taken literally."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.engine import run_program
from emulator.image import Window, tap_rows
from emulator.program import Program
from emulator.soc import SOCS

Read = Callable[..., Program]


def by_definition(image: np.ndarray, window: Window, m: int, k: int) -> int:
    """Element (m, k) of the unfolded image; `image` is [C, H, W]."""
    height, width = window.image
    kernel_h, kernel_w = window.kernel
    wout = (width + window.padding[2] + window.padding[3] - kernel_w) // window.stride[1] + 1
    c1, rest = divmod(k, kernel_h * kernel_w * 32)
    kh, rest = divmod(rest, kernel_w * 32)
    kw, c0 = divmod(rest, 32)
    row = m // wout * window.stride[0] + kh - window.padding[0]
    column = m % wout * window.stride[1] + kw - window.padding[2]
    if 0 <= row < height and 0 <= column < width:
        return int(image[c1 * 32 + c0, row, column])
    return 0


@st.composite
def windows(draw: st.DrawFn) -> Window:
    image = draw(st.sampled_from([(4, 4), (8, 4), (6, 8), (3, 16), (16, 3), (5, 16)]))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    top, bottom, left, right = (draw(st.integers(0, 2)) for _ in range(4))
    return Window(image, kernel, stride, (top, bottom, left, right))


@given(window=windows(), data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_tap_reads_the_rows_of_the_definition(window: Window, data: st.DataObject) -> None:
    height, width = window.image
    image = 1 + np.arange(height * width).reshape(1, height, width).repeat(32, axis=0)
    total = window.out[0] * window.out[1]
    start = data.draw(st.integers(0, total - 1))
    kh, kw = (data.draw(st.integers(0, size - 1)) for size in window.kernel)
    index, outside = tap_rows(window, start, total - start, (kh, kw))
    read = image[0].reshape(-1)[index]
    if outside is not None:
        assert outside.any()
        assert not index[outside].any()
        read[outside] = 0
    k = (kh * window.kernel[1] + kw) * 32
    assert read.tolist() == [by_definition(image, window, m, k) for m in range(start, total)]


@given(window=windows())
def test_an_output_is_a_window_that_lies_in_the_padded_image(window: Window) -> None:
    top, bottom, left, right = window.padding
    sides = (window.image[0] + top + bottom, window.image[1] + left + right)
    for side, size, stride, out in zip(sides, window.kernel, window.stride, window.out, strict=True):
        assert out == sum(start + size <= side for start in range(0, side, stride))


CASES = {
    "3x3 stride 2 padded": ((8, 8), (3, 3), (2, 2), (1, 1, 1, 1), 64),
    "one-sided padding": ((8, 8), (3, 3), (1, 1), (1, 0, 0, 1), 32),
    "1x1": ((4, 8), (1, 1), (1, 1), (0, 0, 0, 0), 96),
    "not square": ((8, 6), (2, 3), (1, 2), (2, 1, 1, 0), 64),
    "more padding than image": ((4, 4), (3, 3), (1, 1), (2, 2, 2, 2), 32),
}


@pytest.mark.parametrize(
    ("case", "groups"),
    [
        pytest.param(case, groups, id=f"{name}, {groups} C0 groups")
        for name, case in CASES.items()
        for groups in (1, 2, 3, 6)
        if case[1][0] * case[1][1] * case[4] // 32 % groups == 0
    ],
)
def test_a_whole_unfolded_image(read: Read, case: tuple[Any, ...], groups: int) -> None:
    """Every whole tile of M rows and K columns, multiplied by the unit matrix and stored as it is.

    A tile has several C0 groups: taps that follow one another, up to the first ones of the next C1 plane.
    """
    size, kernel, stride, padding, channels = case
    step = groups * 32
    window = Window(size, kernel, stride, padding)
    positions, rows = window.out[0] * window.out[1] // 16 * 16, size[0] * size[1]
    depth = kernel[0] * kernel[1] * channels
    program = read(
        f"""
        image = pl.tile.create([{rows}, {channels}], pl.INT8, @Mat)
        for plane in pl.range({channels // 32}):
            image = pl.tile.gather_row(
                image, x, dst_offset=[0, plane * 32], src_offset=[plane * {rows}, 0], shapes=[{rows}, 32]
            )
        unit = pl.load(eye, [0, 0], [{step}, {step}], @Mat)
        b = pl.move(unit, @Right)
        for m in pl.range({positions // 16}):
            for k in pl.range({depth // step}):
                a = pl.tile.img2col(
                    image, m * 16, k * {step}, [16, {step}],
                    image_shape={size}, kernel_size={kernel}, stride={stride}, padding={padding},
                )
                acc = pl.tile.matmul(a, b)
                z = pl.store(acc, [m * 16, k * {step}], z)
        """,
        x=f"pl.Tensor[[{channels // 32 * rows}, 32], pl.INT8]",
        eye=f"pl.Tensor[[{step}, {step}], pl.INT8]",
        z=f"pl.Out[pl.Tensor[[{positions}, {depth}], pl.INT32]]",
    )
    image = np.random.default_rng(5).integers(-128, 128, (channels, *size)).astype(np.int8)
    x = np.ascontiguousarray(image.reshape(channels // 32, 32, rows).transpose(0, 2, 1)).reshape(-1, 32)
    z = np.zeros((positions, depth), np.int32)
    run_program(program, SOCS["a2a3"], {"x": x, "eye": np.eye(step, dtype=np.int8), "z": z})
    expected = [[by_definition(image, window, m, k) for k in range(depth)] for m in range(positions)]
    assert z.tolist() == expected
