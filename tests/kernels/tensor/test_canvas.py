from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from golden.geometry import Conv, Geometry
from kernels.tensor.canvas import Canvas, canvas_of


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    kernel = draw(st.tuples(*[st.integers(1, 5)] * 2))
    above_below, sides = (draw(st.tuples(*[st.integers(0, size - 1)] * 2)) for size in kernel)
    conv2 = Conv(kernel, draw(st.tuples(*[st.integers(1, 4)] * 2)), (*above_below, *sides))
    height, width = (
        draw(st.integers(max(1, size - sum(padding)), 14))
        for size, padding in zip(kernel, (above_below, sides), strict=True)
    )
    return Geometry(height, width, 32, 32, 32, Conv(1, 1, 0), conv2)


def mid_of(geometry: Geometry) -> npt.NDArray[np.int64]:
    """A mid of one channel whose every pixel has a value of its own, none of them 0."""
    return np.arange(geometry.mid_height * geometry.mid_width) + 1


def windows_of(canvas: Canvas, mid: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The windows of all flat output rows, cut from the canvas by shifting."""
    flat = np.zeros(canvas.rows, np.int64)
    read = canvas.pixels >= 0
    flat[canvas.pixels[read]] = mid[read]
    rows = np.arange(canvas.out_rows)
    columns = [flat[cut.plane * canvas.plane_rows + cut.shift + rows] for cut in canvas.cuts]
    return np.stack(columns, axis=1)


@given(geometry=geometries(), step=st.integers(1, 40), out_step=st.integers(1, 40))
def test_windows_cut_by_shifting_are_those_of_the_convolution(
    geometry: Geometry, step: int, out_step: int
) -> None:
    canvas = canvas_of(geometry, step, out_step)
    mid, conv = mid_of(geometry), geometry.conv2
    sides = conv.sides[:2], conv.sides[2:]
    image = np.pad(mid.reshape(geometry.mid_height, geometry.mid_width), sides)
    expected = [
        image[y : y + conv.kernel_rows, x : x + conv.kernel_columns].reshape(-1)
        for y in range(0, geometry.out_height * conv.stride_rows, conv.stride_rows)
        for x in range(0, geometry.out_width * conv.stride_columns, conv.stride_columns)
    ]

    assert np.array_equal(windows_of(canvas, mid)[canvas.kept], expected)


@given(geometry=geometries(), step=st.integers(1, 40), out_step=st.integers(1, 40))
def test_every_cut_of_every_flat_row_lies_within_its_plane(
    geometry: Geometry, step: int, out_step: int
) -> None:
    canvas = canvas_of(geometry, step, out_step)

    assert canvas.out_rows + canvas.reach <= canvas.plane_rows
    assert {cut.plane for cut in canvas.cuts} == set(range(canvas.planes))
    assert canvas.plane_rows % step == 0
    assert canvas.out_rows % out_step == 0
    read = canvas.pixels[canvas.pixels >= 0]
    assert len(set(read)) == len(read)


def test_the_reference_geometry_has_one_plane_of_the_padded_image() -> None:
    canvas = canvas_of(Geometry(288, 112, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)))

    assert canvas.width == 58
    assert canvas.planes == 1
    assert [cut.shift for cut in canvas.cuts] == [0, 1, 2, 58, 59, 60, 116, 117, 118]
    assert canvas.out_rows == 144 * 58
    assert canvas.pixels[0] == 59


def test_a_kernel_smaller_than_its_stride_reads_only_some_planes() -> None:
    canvas = canvas_of(Geometry(8, 8, 32, 32, 32, Conv(1, 1, 0), Conv(1, 2, 0)))

    assert canvas.planes == 1
    assert (canvas.pixels >= 0).sum() == 16
