"""How tensors lie in memory: each layout of the conv pair and its exact inverse, and the img2col order.

Every function works on any dtype and returns a contiguous array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from golden.geometry import C0, Conv

if TYPE_CHECKING:
    import numpy.typing as npt

FRACTAL_ROWS = 16
"""Rows of one NZ fractal; its columns are `C0`."""

T = TypeVar("T", bound="np.generic")


class LayoutError(ValueError):
    """An array does not have the shape its layout needs."""


def _require(holds: bool, what: str, shape: tuple[int, ...], rule: str) -> None:
    if not holds:
        raise LayoutError(f"{what} of shape {list(shape)}: must be {rule}")


def nchw_to_nc1hwc0(image: npt.NDArray[T]) -> npt.NDArray[T]:
    """Image [1, C, H, W] to [C1*H*W, C0], with zeros for what the last C1 plane has no channel for.

    Raises:
        LayoutError: N is not 1.
    """
    _require(image.ndim == 4 and image.shape[0] == 1, "image", image.shape, "[1, C, H, W]")
    _, channels, height, width = image.shape
    whole = np.pad(image[0], ((0, -channels % C0), (0, 0), (0, 0)))
    planes = whole.reshape(-1, C0, height, width)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)).reshape(-1, C0)


def nc1hwc0_to_nhwc(rows: npt.NDArray[T], height: int, width: int) -> npt.NDArray[T]:
    """Image [C1*H*W, C0] to NHWC rows [H*W, C]. Raises `LayoutError` unless the rows fill whole planes."""
    planes = _planes(rows, height, width)
    return np.ascontiguousarray(planes.transpose(1, 2, 0, 3)).reshape(height * width, -1)


def nd_to_nz(matrix: npt.NDArray[T]) -> npt.NDArray[T]:
    """Matrix [R, C] to NZ fractals [C/32, R/16, 16, 32], byte for byte [C1, R, C0].

    Raises:
        LayoutError: unless R is a multiple of 16 and C of 32.
    """
    _require(
        matrix.ndim == 2 and matrix.shape[0] % FRACTAL_ROWS == 0 and matrix.shape[1] % C0 == 0,
        "matrix",
        matrix.shape,
        f"[R, C] with R a multiple of {FRACTAL_ROWS} and C of {C0}",
    )
    rows, columns = matrix.shape
    fractals = matrix.reshape(rows // FRACTAL_ROWS, FRACTAL_ROWS, columns // C0, C0)
    return np.ascontiguousarray(fractals.transpose(2, 0, 1, 3))


def nz_to_nd(fractals: npt.NDArray[T]) -> npt.NDArray[T]:
    """NZ fractals [C/32, R/16, 16, 32] back to the matrix [R, C]. Raises `LayoutError` for another shape."""
    _require(
        fractals.ndim == 4 and fractals.shape[2:] == (FRACTAL_ROWS, C0),
        "fractals",
        fractals.shape,
        f"[C/{C0}, R/{FRACTAL_ROWS}, {FRACTAL_ROWS}, {C0}]",
    )
    columns, rows = fractals.shape[:2]
    return np.ascontiguousarray(fractals.transpose(1, 2, 0, 3)).reshape(rows * FRACTAL_ROWS, columns * C0)


def filter_to_matrix(weights: npt.NDArray[T]) -> npt.NDArray[T]:
    """Filter [Cout, Cin, kh, kw] to [K, Cout], K running (c1, kh, kw, c0), c0 fastest: the img2col order.

    The last C1 plane may have fewer than C0 channels.

    Raises:
        LayoutError: it has not four axes.
    """
    _require(weights.ndim == 4, "filter", weights.shape, "[Cout, Cin, kh, kw]")
    cout, cin = weights.shape[:2]
    planes = (weights[:, first : first + C0] for first in range(0, cin, C0))
    rows = [plane.transpose(2, 3, 1, 0).reshape(-1, cout) for plane in planes]
    return np.ascontiguousarray(np.concatenate(rows))


def matrix_to_filter(matrix: npt.NDArray[T], conv: Conv) -> npt.NDArray[T]:
    """Filter matrix [K, Cout] of a convolution back to [Cout, Cin, kh, kw].

    Raises:
        LayoutError: unless K is a multiple of kh*kw.
    """
    rows, columns, cout = conv.kernel_rows, conv.kernel_columns, matrix.shape[-1]
    _require(
        matrix.ndim == 2 and matrix.shape[0] % conv.taps == 0,
        "filter matrix",
        matrix.shape,
        f"[K, Cout] with K a multiple of {rows}*{columns}",
    )
    planes = (matrix[first : first + conv.taps * C0] for first in range(0, len(matrix), conv.taps * C0))
    blocks = [plane.reshape(rows, columns, -1, cout) for plane in planes]
    return np.ascontiguousarray(np.concatenate(blocks, axis=2).transpose(3, 2, 0, 1))


def img2col(
    rows: npt.NDArray[T],
    height: int,
    width: int,
    conv: Conv,
    padding: tuple[int, int, int, int] | None = None,
) -> npt.NDArray[T]:
    """The windows of an image [C1*H*W, C0] as a matrix [Hout*Wout, K], K running (c1, kh, kw, c0).

    Pixels outside the image are 0.

    Args:
        rows: the image in NC1HWC0.
        height: rows of the image, in pixels.
        width: its columns.
        conv: kernel, stride and dilation, and the padding if `padding` is not given.
        padding: top, bottom, left, right, for a band of an image.

    Raises:
        LayoutError: the rows do not fill whole planes, or the padded image is smaller than the kernel.
    """
    top, bottom, left, right = padding if padding is not None else conv.sides
    planes = np.pad(_planes(rows, height, width), ((0, 0), (top, bottom), (left, right), (0, 0)))
    _require(
        planes.shape[1] >= conv.window_rows and planes.shape[2] >= conv.window_columns,
        "padded image",
        planes.shape[1:3],
        f"at least the kernel ({conv.window_rows} x {conv.window_columns})",
    )
    window = conv.window_rows, conv.window_columns
    windows = np.lib.stride_tricks.sliding_window_view(planes, window, axis=(1, 2))
    taken = windows[:, :: conv.stride_rows, :: conv.stride_columns]
    taken = taken[..., :: conv.dilation_rows, :: conv.dilation_columns]
    ordered = np.ascontiguousarray(taken.transpose(1, 2, 0, 4, 5, 3))
    return ordered.reshape(ordered.shape[0] * ordered.shape[1], -1)


def _planes(rows: npt.NDArray[T], height: int, width: int) -> npt.NDArray[T]:
    _require(
        rows.ndim == 2 and rows.shape[1] == C0 and rows.shape[0] % (height * width) == 0,
        "image",
        rows.shape,
        f"[C1*{height}*{width}, {C0}]",
    )
    return rows.reshape(-1, height, width, C0)
