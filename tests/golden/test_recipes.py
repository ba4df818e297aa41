"""The proof of what each profile of a chain of convolutions claims, for the pair and for one convolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golden import chain, conv, conv_pair, layout, vreq8
from golden.chain import Chain
from golden.geometry import MC62, Conv, ConvGeometry, Geometry
from golden.specs import Int8, Int32, Tensors

pytest.importorskip("torch", reason="torch is not installed")

PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
MODULES: Mapping[str, Any] = {"conv-pair": conv_pair, "conv": conv}
REFERENCES = [
    pytest.param("conv-pair", PAIR, id="24x16"),
    pytest.param("conv-pair", MC62, id="mc62"),
    pytest.param("conv", ConvGeometry(24, 16, 64, 64, Conv(3, 2, 1)), id="conv 24x16"),
    pytest.param("conv", ConvGeometry(288, 112, 64, 64, Conv(3, 2, 1)), id="conv 288x112"),
]
PROFILES = sorted(conv_pair.DEFINITION.profiles)
IMPULSES = [name for name in PROFILES if name.startswith("impulse-")]
SEEDS = st.integers(0, 10**6)
MANY = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
Geometries = Mapping[str, st.SearchStrategy[Any]]


@dataclass(frozen=True, eq=False)
class Made:
    """The tensors of a profile, the layers they are for, and the sums and outputs of each."""

    layers: Chain
    tensors: Tensors
    sums: tuple[Int32, ...]
    outputs: tuple[Int8, ...]

    @property
    def image(self) -> np.ndarray:
        """x as [C, H, W]."""
        first = self.layers[0]
        rows = layout.nc1hwc0_to_nhwc(self.tensors["x"], first.height, first.width)
        return rows.T.reshape(-1, first.height, first.width)[: first.cin]

    def before_rounding(self) -> Iterator[np.ndarray]:
        """What the default variant rounds in each layer, in double (exact for the sums met here)."""
        for layer, sums in zip(self.layers, self.sums, strict=True):
            scales, offsets = self.tensors[layer.scales], self.tensors[layer.offsets]
            yield sums * vreq8.unpack(vreq8.pack(scales, offsets)).scale.astype(np.float64) + offsets


def made(workload: str, name: str, geometry: Any) -> Made:
    module = MODULES[workload]
    layers, tensors = module.layers(geometry), module.DEFINITION.make(name, geometry)
    computed = chain.compute(layers, tensors)
    return Made(layers, tensors, tuple(computed.sums.values()), tuple(computed.outputs.values()))


def test_small_has_the_values_of_its_description() -> None:
    tensors = conv_pair.DEFINITION.make("small", PAIR)
    assert set(np.unique(tensors["x"])) == set(range(-3, 4))
    assert set(np.unique(tensors["filter1"])) == set(np.unique(tensors["filter2"])) == set(range(-2, 3))
    assert set(tensors["scales1"]) == {1 / 16}
    assert set(tensors["scales2"]) == {1 / 32}
    assert tensors["offsets1"][:6].tolist() == [-1, 0, 1, -1, 0, 1]
    assert tensors["offsets2"][:6].tolist() == [1, 0, -1, 1, 0, -1]
    assert tensors["bias1"][0, :14].tolist() == [-3, -2, -1, 0, 1, 2, 3] * 2
    assert tensors["bias2"][0, :10].tolist() == [-2, -1, 0, 1, 2] * 2


def test_small_of_one_convolution_is_that_of_a_pairs_first() -> None:
    tensors = conv.DEFINITION.make("small", ConvGeometry(24, 16, 64, 64, Conv(3, 2, 1)))
    assert set(np.unique(tensors["x"])) == set(range(-3, 4))
    assert set(np.unique(tensors["filter"])) == set(range(-2, 3))
    assert set(tensors["scales"]) == {1 / 16}
    assert tensors["offsets"][:6].tolist() == [-1, 0, 1, -1, 0, 1]
    assert tensors["bias"][0, :14].tolist() == [-3, -2, -1, 0, 1, 2, 3] * 2


def check_full_range(workload: str, geometry: Any, seed: int) -> None:
    found = made(workload, f"full-range@{seed}", geometry)
    for values in (found.tensors["x"], *(found.tensors[layer.filter] for layer in found.layers)):
        assert np.unique(values).size == 256 or values.size < 256
    for values in found.before_rounding():
        assert values.max() > 127.5
        assert values.min() < -128.5
    for output in found.outputs:
        assert np.mean((output > -128) & (output < 127)) > 0.4


def check_ties(workload: str, geometry: Any, seed: int) -> None:
    for values in made(workload, f"ties@{seed}", geometry).before_rounding():
        tied = (values - np.floor(values) == 0.5) & (values > -128.5) & (values < 127.5)
        assert tied.mean() >= 0.25


READINGS = ("vreq8", "fma", "exact", "half-away", "round-then-add")
"""Readings that differ in nothing but where and how they round."""


def rounded_apart(found: Made) -> Iterator[tuple[str, str, float]]:
    """Each two of `READINGS`, in each layer, with the share of the outputs in which they differ."""
    for layer, sums in zip(found.layers, found.sums, strict=True):
        table = found.tensors.table(layer.scale, "vreq8")
        outputs = {reading: vreq8.requantise(sums, table, reading) for reading in READINGS}
        for one, other in combinations(READINGS, 2):
            yield one, other, float(np.mean(outputs[one] != outputs[other]))


def check_near_ties(workload: str, geometry: Any, seed: int) -> None:
    found = made(workload, f"near-ties@{seed}", geometry)
    assert [pair for pair in rounded_apart(found) if not pair[2]] == []
    for values in found.before_rounding():
        assert np.mean(np.abs(values - np.floor(values) - 0.5) < 0.01) > 0.9


def check_edges(workload: str, geometry: Any, seed: int) -> None:
    found = made(workload, f"edges@{seed}", geometry)
    rows, columns = np.indices((geometry.height, geometry.width))
    border = (rows == 0) | (rows == geometry.height - 1) | (columns == 0) | (columns == geometry.width - 1)
    for plane in found.image:
        assert np.array_equal(plane != 0, border)
    for values in found.before_rounding():
        assert np.mean((values > -128) & (values < 127)) > 0.75


def check_channels(workload: str, geometry: Any, seed: int) -> None:
    found = made(workload, f"channels@{seed}", geometry)
    for layer in found.layers:
        scales, offsets = found.tensors[layer.scales], found.tensors[layer.offsets]
        packed = vreq8.unpack(vreq8.pack(scales, offsets))
        assert np.unique(packed.scale).size == scales.size
        assert np.unique(offsets).size == offsets.size
        assert (offsets.min(), offsets.max()) == (-256, 255)
    for values in found.before_rounding():
        nearest_to_the_middle = np.abs(values).min(axis=0)
        assert (nearest_to_the_middle < 100).all()


CHECKS = [check_full_range, check_ties, check_near_ties, check_edges, check_channels]


@pytest.mark.parametrize("workload", MODULES)
@pytest.mark.parametrize("check", CHECKS)
@MANY
@given(data=st.data())
def test_claims_hold_for_every_geometry_and_seed(
    check: Callable[[str, Any, int], None], workload: str, data: st.DataObject, geometries: Geometries
) -> None:
    check(workload, data.draw(geometries[workload]), data.draw(SEEDS))


@pytest.mark.parametrize(
    ("workload", "geometry"),
    [
        ("conv-pair", Geometry(3, 3, 32, 32, 32, Conv(3, 1, 0), Conv(1, 1, 0))),
        ("conv", ConvGeometry(3, 3, 32, 32, Conv(3, 1, 0))),
    ],
)
@pytest.mark.parametrize("check", CHECKS)
def test_claims_hold_where_there_is_a_single_output_pixel(
    check: Callable[[str, Any, int], None], workload: str, geometry: Any
) -> None:
    for seed in range(60):
        check(workload, geometry, seed)


@pytest.mark.parametrize(
    ("workload", "geometry"),
    [
        pytest.param("conv-pair", Geometry(24, 16, 3, 40, 33, Conv(3, 2, 1), Conv(3, 1, 2, 2)), id="pair"),
        pytest.param("conv", ConvGeometry(24, 16, 24, 4, Conv(3, 2, 1)), id="few channels"),
        pytest.param("conv", ConvGeometry(24, 16, 33, 66, Conv(3, 1, 1), 33), id="depthwise"),
        pytest.param("conv", ConvGeometry(24, 16, 40, 24, Conv(3, 1, 2, 2), 2), id="groups"),
        pytest.param("conv", ConvGeometry(5, 7, 40, 24, Conv(3, 1, 9, 9)), id="a small image"),
    ],
)
@pytest.mark.parametrize("check", CHECKS)
def test_claims_hold_for_channels_that_are_no_whole_blocks(
    check: Callable[[str, Any, int], None], workload: str, geometry: Any
) -> None:
    for seed in range(3):
        check(workload, geometry, seed)


@pytest.mark.parametrize(("workload", "geometry"), REFERENCES)
def test_full_range_spreads_the_output_over_the_whole_range(workload: str, geometry: Any) -> None:
    y = made(workload, "full-range", geometry).outputs[-1]
    counts = np.bincount(y.reshape(-1).astype(int) + 128, minlength=256)
    assert (counts > 0).all()
    quarters = counts.reshape(4, 64).sum(axis=1) / y.size
    assert (quarters > 0.15).all()


@pytest.mark.parametrize(("workload", "geometry"), REFERENCES)
def test_near_ties_many_outputs_depend_on_where_fp32_rounds(workload: str, geometry: Any) -> None:
    shares = list(rounded_apart(made(workload, "near-ties", geometry)))
    assert min(share for _, _, share in shares) > 0.05
    assert min(share for *pair, share in shares if pair == ["vreq8", "exact"]) > 0.15


@pytest.mark.parametrize("workload", MODULES)
@pytest.mark.parametrize("name", IMPULSES)
@MANY
@given(data=st.data())
def test_impulse_is_one_pixel_whose_taps_are_distinct(
    name: str, workload: str, data: st.DataObject, geometries: Geometries
) -> None:
    found = made(workload, f"{name}@{data.draw(SEEDS)}", data.draw(geometries[workload]))
    tensors, (first, *later) = found.tensors, found.layers
    assert np.count_nonzero(found.image) == 1
    channel = int(np.argwhere(found.image)[0][0])
    for layer in found.layers:
        assert not tensors[layer.bias].any()
        assert not tensors[layer.offsets].any()
    met = layout.matrix_to_filter(tensors[first.filter], first.conv)[:, channel]
    for taps in met.reshape(first.cout, -1):
        assert taps.all()
        assert np.unique(taps).size == taps.size
    for layer in later:
        weights = layout.matrix_to_filter(tensors[layer.filter], layer.conv)
        assert (weights != 0).any(axis=(0, 2, 3)).all(), "a channel of mid that no output channel looks at"
        for taps in weights.reshape(layer.cout, -1):
            used = taps[taps != 0]
            assert np.unique(used).size == used.size >= layer.conv.taps
    assert found.outputs[-1].any()
    assert np.array_equal(found.outputs[0], found.sums[0]), "the first output is the taps themselves"


@pytest.mark.parametrize(("workload", "geometry"), REFERENCES)
@pytest.mark.parametrize("row", ["even", "odd"])
@pytest.mark.parametrize("column", ["even", "odd"])
def test_impulse_shows_where_every_tap_lands(workload: str, geometry: Any, row: str, column: str) -> None:
    found = made(workload, f"impulse-{row}-{column}", geometry)
    first = found.layers[0]
    channel, top, left = (int(place) for place in np.argwhere(found.image)[0])
    assert ("odd" if top % 2 else "even", "odd" if left % 2 else "even") == (row, column)

    weights = layout.matrix_to_filter(found.tensors[first.filter], first.conv)[:, channel]
    wanted = np.zeros((first.out_height, first.out_width, first.cout), int)
    for i, j in np.ndindex(3, 3):
        at = top + 1 - i, left + 1 - j  # stride 2, padding 1: output row r meets input row 2 * r - 1 + i
        if at[0] % 2 == 0 and at[1] % 2 == 0:
            wanted[at[0] // 2, at[1] // 2] = weights[:, i, j]
    assert np.array_equal(found.outputs[0].reshape(wanted.shape), wanted)
    for output, sums in zip(found.outputs, found.sums, strict=True):
        assert np.array_equal(output, sums), "with kernels of 3 and equal channels nothing is scaled away"


@pytest.mark.parametrize(
    ("workload", "geometry"), [("conv-pair", PAIR), ("conv", ConvGeometry(24, 16, 64, 64, Conv(3, 2, 1)))]
)
def test_the_four_impulses_together_meet_every_tap(workload: str, geometry: Any) -> None:
    met = np.zeros((64, 3, 3), bool)
    for name in IMPULSES:
        found = made(workload, name, geometry)
        channel = int(np.argwhere(found.image)[0][0])
        weights = layout.matrix_to_filter(found.tensors[found.layers[0].filter], Conv(3))[:, channel]
        for out_channel in range(64):
            met[out_channel] |= np.isin(weights[out_channel], found.outputs[0][:, out_channel])
    assert met.all()


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(
    "geometry",
    [
        Geometry(1, 1, 32, 96, 64, Conv(1, 1, 0), Conv(1, 1, 0)),
        Geometry(20, 18, 32, 32, 32, Conv(17, 1, 0), Conv(2, 1, 1)),
        Geometry(36, 35, 32, 32, 32, Conv(34, 1, 1), Conv(3, 7, 2)),
        Geometry(5, 4, 2048, 32, 1024, Conv(1, 2, 0), Conv(1, 1, 0)),
        Geometry(3, 40, 96, 256, 32, Conv(3, 255, 2), Conv(1, 1, 0)),
    ],
    ids=["one pixel", "kernel 17", "kernel 34", "many channels", "stride 255"],
)
def test_unusual_geometries_get_data_that_reaches_the_output(name: str, geometry: Geometry) -> None:
    assert made("conv-pair", name, geometry).outputs[-1].any()


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(
    "geometry",
    [
        ConvGeometry(1, 1, 32, 96, Conv(1, 1, 0)),
        ConvGeometry(20, 18, 32, 32, Conv(17, 1, 0)),
        ConvGeometry(36, 35, 32, 32, Conv(34, 1, 1)),
        ConvGeometry(5, 4, 2048, 1024, Conv(1, 2, 0)),
        ConvGeometry(3, 40, 96, 256, Conv(3, 255, 2)),
    ],
    ids=["one pixel", "kernel 17", "kernel 34", "many channels", "stride 255"],
)
def test_unusual_convolutions_get_data_that_reaches_the_output(name: str, geometry: ConvGeometry) -> None:
    assert made("conv", name, geometry).outputs[-1].any()
