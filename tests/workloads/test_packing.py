"""What the host packs: the device's convolution of packed arrays is the user's, and zeros beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import chain, conv, conv_pair
from golden.geometry import MC62, Conv, ConvGeometry, Geometry
from workloads.conv import WORKLOAD as CONV
from workloads.conv_pair import WORKLOAD as PAIR
from workloads.gemm import WORKLOAD as GEMM

CONVS = st.builds(
    lambda kernel, stride, inner, dilation: Conv(kernel, stride, inner % kernel, dilation),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 2),
    st.integers(1, 2),
)
CHANNELS = st.integers(1, 100)


@st.composite
def convs(draw: st.DrawFn) -> ConvGeometry:
    groups = draw(st.sampled_from([1, 1, 2, 5, 33]))
    cin, cout = (-(-draw(CHANNELS) // groups) * groups for _ in range(2))
    return ConvGeometry(draw(st.integers(5, 9)), draw(st.integers(5, 9)), cin, cout, draw(CONVS), groups)


PAIRS = st.builds(Geometry, st.just(13), st.just(14), CHANNELS, CHANNELS, CHANNELS, CONVS, CONVS)


def check(workload: Any, module: Any, geometry: Any) -> None:
    """The golden of the packed tensors, by the device's geometry, is that of the user's, and zeros."""
    packing = workload.packing(geometry)
    tensors = module.DEFINITION.make("full-range", geometry)
    outputs = chain.compute(module.layers(geometry), tensors).outputs
    packed = chain.compute(module.layers(packing.device), packing.tensors(tensors)).outputs
    wanted = packing.packed(outputs)
    for name, output in outputs.items():
        assert np.array_equal(packing.cut(name, packed[name]), output)
        assert np.array_equal(packed[name], wanted[name])
        assert not packed[name][:, output.shape[1] :].any()


@pytest.mark.usefixtures("torch_installed")
@settings(max_examples=15)
@given(geometry=convs())
def test_a_packed_convolution_is_the_users(geometry: ConvGeometry) -> None:
    check(CONV, conv, geometry)


@pytest.mark.usefixtures("torch_installed")
@settings(max_examples=8)
@given(geometry=PAIRS)
def test_a_packed_pair_is_the_users(geometry: Geometry) -> None:
    check(PAIR, conv_pair, geometry)


def test_each_tap_of_a_depthwise_filter_stands_on_the_diagonal() -> None:
    packing = CONV.packing(ConvGeometry(5, 5, 40, 40, Conv(3, 1, 1), 40))
    taps = np.arange(1, 9 * 40 + 1).reshape(9, 40)
    filter_ = packing.packed({"filter": taps}, rest=-1)["filter"].reshape(2, 9, 32, 64)
    for tap in range(9):
        for channel in range(64):
            column = filter_[:, tap, :, channel].reshape(64)  # by input channel
            wanted = np.full(64, -1)
            if channel < 40:
                wanted[channel] = taps[tap, channel]
            assert np.array_equal(column, wanted)


def test_what_the_user_does_not_have_is_filled_and_cut() -> None:
    packing = CONV.packing(ConvGeometry(2, 3, 40, 3, Conv(1, 1, 0)))
    rows: Mapping[str, Any] = {"bias": np.ones((1, 3), int), "scales": np.full(3, 0.5), "y": np.ones((6, 3))}
    packed = packing.packed(rows, rest=7)
    assert packed["bias"].tolist() == [[1] * 3 + [7] * 29]
    assert packed["scales"].tolist() == [0.5] * 3 + [1] * 29
    assert packing.cut("y", packed["y"]).tolist() == rows["y"].tolist()
    assert packing.cut("y", packed["y"][:4]).shape == (4, 3)


@pytest.mark.parametrize(("workload", "geometry"), [(PAIR, MC62), (CONV, CONV.example), (GEMM, GEMM.example)])
def test_where_nothing_is_packed_nothing_is_copied(workload: Any, geometry: Any) -> None:
    packing = workload.packing(geometry)
    tensors = workload.definition.make("small", workload.example)
    arrays = {"y": np.zeros((1, 64), np.int8)}
    assert packing.device is geometry
    assert packing.tensors(tensors) is tensors
    assert packing.packed(arrays) is arrays
    if workload is not GEMM:
        assert packing.cut("y", arrays["y"][:, : geometry.cout]).base is arrays["y"]
    assert packing.words == ""


@pytest.mark.parametrize(
    ("workload", "geometry", "words"),
    [
        (
            CONV,
            ConvGeometry(5, 5, 3, 24, Conv(1, 1, 0)),
            "cin 3 -> 32, cout 24 -> 32; 14.2 times the products",
        ),
        (
            CONV,
            ConvGeometry(5, 5, 32, 32, Conv(3, 1, 1), 32),
            "32 groups as a block-diagonal filter; 32 times the products",
        ),
        (
            PAIR,
            Geometry(9, 9, 32, 64, 32, Conv(3, 1, 2, 2), Conv(3, 1, 1)),
            "conv1, which is dilated, as a kernel of 5 x 5 with zeros between its taps; "
            "1.89 times the products",
        ),
    ],
)
def test_the_packing_is_told_with_what_it_costs(workload: Any, geometry: Any, words: str) -> None:
    assert workload.packing(geometry).words == words
