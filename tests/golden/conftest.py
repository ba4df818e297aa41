"""What the golden's tests share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry

CHANNELS = st.sampled_from([32, 64, 96, 128])
SIZES = st.integers(1, 13)
KERNELS, STRIDES, INNER = st.integers(1, 5), st.integers(1, 3), st.integers(0, 4)
SQUARE = st.builds(
    lambda kernel, stride, inner: Conv(kernel, stride, inner % kernel), KERNELS, STRIDES, INNER
)
RECTANGULAR = st.builds(
    lambda rows, columns, stride, top, bottom, left, right: Conv(
        (rows, columns), stride, (top % rows, bottom % rows, left % columns, right % columns)
    ),
    KERNELS,
    KERNELS,
    st.tuples(STRIDES, STRIDES),
    *[INNER] * 4,
)
CONVS = SQUARE | RECTANGULAR


def _pair_fits(geometry: tuple[int, int, Conv, Conv]) -> bool:
    height, width, conv1, conv2 = geometry
    mid_height, mid_width = conv1.out_height(height), conv1.out_width(width)
    return _conv_fits((height, width, conv1)) and _conv_fits((mid_height, mid_width, conv2))


def _conv_fits(geometry: tuple[int, int, Conv]) -> bool:
    height, width, conv = geometry
    return conv.out_height(height) >= 1 and conv.out_width(width) >= 1


@pytest.fixture(scope="session")
def geometries() -> Mapping[str, st.SearchStrategy[Any]]:
    """Small geometries of every kind, by workload: any padding, kernels 1 to 5, strides 1 to 3."""
    pairs = st.tuples(SIZES, SIZES, CONVS, CONVS).filter(_pair_fits)
    convs = st.tuples(SIZES, SIZES, CONVS).filter(_conv_fits)
    blocks = st.integers(1, 4)
    return {
        "conv-pair": st.builds(
            lambda shape, cin, cmid, cout: Geometry(shape[0], shape[1], cin, cmid, cout, shape[2], shape[3]),
            pairs,
            CHANNELS,
            CHANNELS,
            CHANNELS,
        ),
        "conv": st.builds(
            lambda shape, cin, cout: ConvGeometry(shape[0], shape[1], cin, cout, shape[2]),
            convs,
            CHANNELS,
            CHANNELS,
        ),
        "gemm": st.builds(lambda m, k, n: GemmGeometry(16 * m, 32 * k, 32 * n), blocks, blocks, blocks),
    }
