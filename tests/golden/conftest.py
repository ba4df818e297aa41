"""What the golden's tests share."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from golden.geometry import Conv, Geometry

CHANNELS = st.sampled_from([32, 64, 96, 128])
CONVS = st.builds(
    lambda kernel, stride, inner: Conv(kernel, stride, inner % kernel),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(0, 4),
)


def _fits(geometry: tuple[int, int, Conv, Conv]) -> bool:
    height, width, conv1, conv2 = geometry
    return all(size >= conv1.kernel and conv1.out_size(size) >= conv2.kernel for size in (height, width))


@pytest.fixture(scope="session")
def geometries() -> st.SearchStrategy[Geometry]:
    """Small geometries of every kind: 32 to 128 channels, kernels 1 to 5, strides 1 to 3, any padding."""
    sizes = st.integers(1, 13)
    shapes = st.tuples(sizes, sizes, CONVS, CONVS).filter(_fits)
    return st.builds(
        lambda shape, cin, cmid, cout: Geometry(shape[0], shape[1], cin, cmid, cout, shape[2], shape[3]),
        shapes,
        CHANNELS,
        CHANNELS,
        CHANNELS,
    )
