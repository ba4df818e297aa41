from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import layout
from golden.geometry import Conv
from golden.layout import LayoutError

SIZE = st.integers(1, 6)
BLOCKS = st.integers(1, 4)


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


@given(BLOCKS, SIZE, SIZE)
def test_image_layouts_are_exact_inverses(blocks: int, height: int, width: int) -> None:
    image = numbered(1, blocks * 32, height, width)
    planes = layout.nchw_to_nc1hwc0(image)
    assert planes.shape == (blocks * height * width, 32)
    rows = layout.nc1hwc0_to_nhwc(planes, height, width)
    assert np.array_equal(rows, image[0].reshape(blocks * 32, -1).T)


def test_nc1hwc0_puts_a_channel_where_the_specification_says() -> None:
    image = numbered(1, 96, 5, 7)
    planes = layout.nchw_to_nc1hwc0(image)
    channel, row, column = 70, 3, 6
    assert planes[(channel // 32) * 35 + row * 7 + column, channel % 32] == image[0, channel, row, column]


@given(BLOCKS, BLOCKS)
def test_nz_is_the_inverse_of_nd_and_byte_for_byte_c1_r_c0(row_blocks: int, blocks: int) -> None:
    matrix = numbered(row_blocks * 16, blocks * 32)
    fractals = layout.nd_to_nz(matrix)
    assert fractals.shape == (blocks, row_blocks, 16, 32)
    assert np.array_equal(layout.nz_to_nd(fractals), matrix)
    c1_r_c0 = matrix.reshape(row_blocks * 16, blocks, 32).transpose(1, 0, 2)
    assert fractals.tobytes() == c1_r_c0.tobytes()


@given(BLOCKS, SIZE, SIZE, st.integers(1, 5))
def test_filter_layouts_are_exact_inverses(blocks: int, rows: int, columns: int, cout: int) -> None:
    weights = numbered(cout, blocks * 32, rows, columns)
    matrix = layout.filter_to_matrix(weights)
    assert matrix.shape == (blocks * 32 * rows * columns, cout)
    assert np.array_equal(layout.matrix_to_filter(matrix, Conv((rows, columns))), weights)


def test_a_filter_row_splits_into_c1_kh_kw_c0() -> None:
    weights = numbered(4, 64, 3, 2)
    matrix = layout.filter_to_matrix(weights)
    c1, kh, kw, c0 = 1, 2, 1, 17
    assert matrix[((c1 * 3 + kh) * 2 + kw) * 32 + c0, 3] == weights[3, c1 * 32 + c0, kh, kw]


@given(st.data())
def test_img2col_yields_each_window_in_k_order_and_zero_outside(data: st.DataObject) -> None:
    kernel_rows, kernel_columns = kernel = data.draw(st.tuples(*[st.integers(1, 4)] * 2))
    stride_rows, stride_columns = stride = data.draw(st.tuples(*[st.integers(1, 3)] * 2))
    height, width = data.draw(st.integers(kernel_rows, 8)), data.draw(st.integers(kernel_columns, 8))
    padding = data.draw(
        st.tuples(*[st.integers(0, kernel_rows - 1)] * 2, *[st.integers(0, kernel_columns - 1)] * 2)
    )
    image = numbered(1, 64, height, width) + 1
    top, bottom, left, right = padding
    matrix = layout.img2col(layout.nchw_to_nc1hwc0(image), height, width, Conv(kernel, stride, 0), padding)
    out_height = (height + top + bottom - kernel_rows) // stride_rows + 1
    out_width = (width + left + right - kernel_columns) // stride_columns + 1
    area = kernel_rows * kernel_columns
    assert matrix.shape == (out_height * out_width, area * 64)
    m = data.draw(st.integers(0, matrix.shape[0] - 1))
    k = data.draw(st.integers(0, matrix.shape[1] - 1))
    c1, tap, c0 = k // (area * 32), k // 32 % area, k % 32
    row = m // out_width * stride_rows + tap // kernel_columns - top
    column = m % out_width * stride_columns + tap % kernel_columns - left
    inside = 0 <= row < height and 0 <= column < width
    assert matrix[m, k] == (image[0, c1 * 32 + c0, row, column] if inside else 0)


def test_img2col_pads_all_sides_as_the_convolution_does() -> None:
    rows = layout.nchw_to_nc1hwc0(numbered(1, 32, 4, 5))
    conv = Conv(3, 2, 1)
    assert np.array_equal(
        layout.img2col(rows, 4, 5, conv), layout.img2col(rows, 4, 5, Conv(3, 2, 0), (1, 1, 1, 1))
    )


@pytest.mark.parametrize("channels", [1, 31, 33, 70])
def test_the_last_plane_may_have_fewer_channels(channels: int) -> None:
    image = numbered(1, channels, 2, 3) + 1
    rows = layout.nchw_to_nc1hwc0(image)
    planes = rows.reshape(-1, 2, 3, 32).transpose(0, 3, 1, 2).reshape(-1, 2, 3)
    assert np.array_equal(planes[:channels], image[0])
    assert not planes[channels:].any()
    weights, conv = numbered(5, channels, 3, 2), Conv((3, 2))
    matrix = layout.filter_to_matrix(weights)
    first = min(channels, 32)
    assert np.array_equal(matrix[:first], weights[:, :first, 0, 0].T)  # c0 is fastest
    assert np.array_equal(matrix[first : 2 * first], weights[:, :first, 0, 1].T)
    assert np.array_equal(matrix[-1], weights[:, -1, -1, -1])
    assert np.array_equal(layout.matrix_to_filter(matrix, conv), weights)


def test_img2col_steps_over_pixels_between_the_taps_of_a_dilated_kernel() -> None:
    rows = layout.nchw_to_nc1hwc0(numbered(1, 32, 5, 7))
    dense = layout.img2col(rows, 5, 7, Conv((3, 5), 1, 0)).reshape(-1, 3, 5, 32)
    dilated = layout.img2col(rows, 5, 7, Conv((2, 3), 1, 0, 2)).reshape(-1, 2, 3, 32)
    assert np.array_equal(dilated, dense[:, ::2, ::2])


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(LayoutError, match=r"image of shape \[2, 32, 2, 2\]"):
        layout.nchw_to_nc1hwc0(numbered(2, 32, 2, 2))
    with pytest.raises(LayoutError, match=r"C1\*3\*3"):
        layout.nc1hwc0_to_nhwc(numbered(10, 32), 3, 3)
    with pytest.raises(LayoutError, match="R a multiple of 16"):
        layout.nd_to_nz(numbered(24, 32))
    with pytest.raises(LayoutError, match="fractals"):
        layout.nz_to_nd(numbered(1, 1, 32, 16))
    with pytest.raises(LayoutError, match=r"filter of shape \[2, 31, 3\]"):
        layout.filter_to_matrix(numbered(2, 31, 3))
    with pytest.raises(LayoutError, match=r"K a multiple of 3\*3"):
        layout.matrix_to_filter(numbered(64, 2), Conv(3))
    with pytest.raises(LayoutError, match=r"at least the kernel \(5 x 5\)"):
        layout.img2col(numbered(9, 32), 3, 3, Conv(5, 1, 0))
