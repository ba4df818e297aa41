from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import layout, profiles, vreq8
from golden.draw import Draw
from golden.geometry import Conv, Geometry
from golden.inputs import load_inputs

pytest.importorskip("torch", reason="torch is not installed")

from golden.reference import convolve, reference

GIVEN = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))


@pytest.mark.parametrize("name", ["full-range", "ties"])
def test_given_pairs_match_exactly(cases: Path, name: str) -> None:
    path = cases / f"conv-pair-24x16-{name}.npz"
    pair = reference(GIVEN, load_inputs(path, GIVEN))
    with np.load(path) as wanted:
        assert np.array_equal(pair.mid, wanted["mid"])
        assert np.array_equal(pair.y, wanted["y"])


def in_int64(rows: np.ndarray, height: int, width: int, matrix: np.ndarray, conv: Conv) -> np.ndarray:
    planes = layout.nchw_to_nc1hwc0(rows.T.reshape(1, -1, height, width))
    windows = layout.img2col(planes, height, width, conv)
    return windows.astype(np.int64) @ matrix.astype(np.int64)


def alternating(shape: tuple[int, ...]) -> np.ndarray:
    """-128 and 127 in turn: large sums that nearly cancel, so what fp32 drops on the way stays visible."""
    return np.where(np.arange(np.prod(shape)) % 2, 127, -128).astype(np.int8).reshape(shape)


@pytest.mark.parametrize(
    ("channels", "kernel"), [(96, 3), (128, 3), (256, 3), (1152, 1), (64, 5), (32, 32), (32, 33), (32, 61)]
)
@pytest.mark.parametrize("values", ["lowest", "alternating", "lowest against alternating", "large"])
def test_sums_are_exact_beyond_what_fp32_holds(channels: int, kernel: int, values: str) -> None:
    size = kernel + 1
    shape, taps_shape = (size * size, channels), (kernel * kernel * channels, 32)
    rows = np.full(shape, -128, np.int8) if values.startswith("lowest") else alternating(shape)
    taps = alternating(taps_shape) if values.endswith("alternating") else np.full(taps_shape, -128, np.int8)
    if values == "large":  # sums of either parity: above 2**24 fp32 has no odd ones
        rows, taps = np.full(shape, 127, np.int8), Draw(0).integers(125, 127, taps_shape).astype(np.int8)
    conv = Conv(kernel, 1, min(1, kernel - 1))
    sums = convolve(rows, size, size, taps, conv)
    assert sums.dtype == np.int32
    assert np.array_equal(sums, in_int64(rows, size, size, taps, conv))


@settings(max_examples=60)
@given(data=st.data())
def test_every_geometry_agrees_with_int64_arithmetic(
    data: st.DataObject, geometries: st.SearchStrategy[Geometry]
) -> None:
    geometry = data.draw(geometries)
    variant = data.draw(st.sampled_from(vreq8.VARIANTS))
    tensors = profiles.make("full-range", geometry)
    pair = reference(geometry, tensors, variant)
    image = layout.nc1hwc0_to_nhwc(tensors.x, geometry.height, geometry.width)
    acc1 = in_int64(image, geometry.height, geometry.width, tensors.filter1, geometry.conv1) + tensors.bias1
    acc2 = (
        in_int64(pair.mid, geometry.mid_height, geometry.mid_width, tensors.filter2, geometry.conv2)
        + tensors.bias2
    )
    assert np.array_equal(pair.acc1, acc1)
    assert np.array_equal(pair.acc2, acc2)
    scale1, scale2 = tensors.tables(variant)
    assert np.array_equal(pair.mid, vreq8.requantise(pair.acc1, scale1, variant))
    assert np.array_equal(pair.y, vreq8.requantise(pair.acc2, scale2, variant))
    assert pair.mid.dtype == pair.y.dtype == np.int8


@pytest.mark.parametrize("variant", vreq8.VARIANTS[1:])
def test_variants_differ_where_the_data_tells_them_apart(variant: str) -> None:
    name = "ties" if variant in {"round-then-add", "half-away"} else "full-range"
    tensors = profiles.make(name, GIVEN)
    assert not np.array_equal(reference(GIVEN, tensors, variant).y, reference(GIVEN, tensors).y)


def test_torch_is_not_imported_before_a_pair_is_computed() -> None:
    code = "import sys, golden.cache, golden.inputs, golden.profiles; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
