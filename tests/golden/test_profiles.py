"""Names and seeds of profiles, and for each profile the proof of what it claims."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golden import layout, vreq8
from golden.geometry import MC62, Conv, Geometry
from golden.profiles import PROFILES, ProfileError, make, parse, resolve
from golden.specs import Tensors, pair_specs

pytest.importorskip("torch", reason="torch is not installed")

from golden.reference import Reference, reference

PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
IMPULSES = [name for name in PROFILES if name.startswith("impulse-")]
SEEDS = st.integers(0, 10**6)
MANY = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def image(geometry: Geometry, tensors: Tensors) -> np.ndarray:
    """x as [C, H, W]."""
    rows = layout.nc1hwc0_to_nhwc(tensors.x, geometry.height, geometry.width)
    return rows.T.reshape(-1, geometry.height, geometry.width)


def before_rounding(acc: np.ndarray, scales: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """What the default variant rounds, in double (exact for the sums met here)."""
    return acc * vreq8.unpack(vreq8.pack(scales, offsets)).scale.astype(np.float64) + offsets


def both_convolutions(tensors: Tensors, pair: Reference) -> list[np.ndarray]:
    return [
        before_rounding(pair.acc1, tensors.scales1, tensors.offsets1),
        before_rounding(pair.acc2, tensors.scales2, tensors.offsets2),
    ]


def test_the_names_the_specification_asks_for_are_there() -> None:
    assert set(PROFILES) == {"small", "full-range", "ties", "edges", "channels", *IMPULSES}
    assert len(IMPULSES) == 4


@pytest.mark.parametrize("name", PROFILES)
def test_a_name_always_gives_the_same_values_and_another_seed_gives_others(name: str) -> None:
    def values(full_name: str) -> list[bytes]:
        return [array.tobytes() for array in make(full_name, PAIR).arrays("vreq8").values()]

    assert values(name) == values(f"{name}@0")
    assert len({tuple(values(f"{name}@{seed}")) for seed in range(5)}) > 1


def test_nightly_is_drawn_from_the_date_handed_in_and_can_be_replayed() -> None:
    assert resolve("full-range@nightly", date(2026, 3, 9)) == "full-range@20260309"
    assert resolve("full-range@20260309", date(2030, 1, 1)) == "full-range@20260309"
    assert resolve("small", date(2026, 3, 9)) == "small"
    assert parse("full-range@20260309") == ("full-range", 20260309)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smal", "unknown profile 'smal': did you mean 'small'"),
        ("impulse", "unknown profile 'impulse'.*known are .*impulse-even-even"),
        ("", "unknown profile ''"),
        ("Small", "unknown profile 'Small'"),
        ("noise@nightly", "unknown profile 'noise'"),
        ("small@", "profile 'small@': the seed must be a plain number, as in small@7"),
        ("small@-1", "plain number"),
        ("small@07", "plain number"),
        ("small@1_0", "plain number"),
        ("small@1e3", "plain number"),
        ("small@7 ", "plain number"),
        ("small@7\n", "plain number"),
        ("small@٣", "plain number"),
        ("small@7@8", "plain number"),
        ("small@" + "9" * 400, "plain number"),
    ],
)
def test_names_that_are_not_understood_are_refused(name: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        resolve(name, date(2026, 3, 9))


def test_nightly_must_be_resolved_before_data_is_made() -> None:
    with pytest.raises(ProfileError, match="'small@nightly': the seed must be a plain number"):
        make("small@nightly", PAIR)


@MANY
@given(data=st.data())
def test_every_profile_gives_tensors_as_specified(
    data: st.DataObject, geometries: st.SearchStrategy[Geometry]
) -> None:
    geometry = data.draw(geometries)
    arrays = make(data.draw(st.sampled_from(PROFILES)), geometry).arrays("vreq8")
    specs = [spec for spec in pair_specs(geometry) if spec.role == "in"]
    assert list(arrays) == [spec.name for spec in specs]
    for spec in specs:
        assert (arrays[spec.name].shape, arrays[spec.name].dtype) == (spec.shape, spec.dtype)
        assert arrays[spec.name].flags.c_contiguous


def test_small_has_the_values_of_its_description() -> None:
    tensors = make("small", PAIR)
    assert set(np.unique(tensors.x)) == set(range(-3, 4))
    assert set(np.unique(tensors.filter1)) == set(np.unique(tensors.filter2)) == set(range(-2, 3))
    assert set(tensors.scales1) == {1 / 16}
    assert set(tensors.scales2) == {1 / 32}
    assert tensors.offsets1[:6].tolist() == [-1, 0, 1, -1, 0, 1]
    assert tensors.offsets2[:6].tolist() == [1, 0, -1, 1, 0, -1]
    assert tensors.bias1[0, :14].tolist() == [-3, -2, -1, 0, 1, 2, 3] * 2
    assert tensors.bias2[0, :10].tolist() == [-2, -1, 0, 1, 2] * 2


def check_full_range(geometry: Geometry, seed: int) -> None:
    tensors = make(f"full-range@{seed}", geometry)
    for values in (tensors.x, tensors.filter1, tensors.filter2):
        assert np.unique(values).size == 256 or values.size < 256
    pair = reference(geometry, tensors)
    for values in both_convolutions(tensors, pair):
        assert values.max() > 127.5
        assert values.min() < -128.5
    for output in (pair.mid, pair.y):
        assert np.mean((output > -128) & (output < 127)) > 0.4


def check_ties(geometry: Geometry, seed: int) -> None:
    tensors = make(f"ties@{seed}", geometry)
    for values in both_convolutions(tensors, reference(geometry, tensors)):
        tied = (values - np.floor(values) == 0.5) & (values > -128.5) & (values < 127.5)
        assert tied.mean() >= 0.25


def check_edges(geometry: Geometry, seed: int) -> None:
    tensors = make(f"edges@{seed}", geometry)
    rows, columns = np.indices((geometry.height, geometry.width))
    border = (rows == 0) | (rows == geometry.height - 1) | (columns == 0) | (columns == geometry.width - 1)
    for plane in image(geometry, tensors):
        assert np.array_equal(plane != 0, border)
    for values in both_convolutions(tensors, reference(geometry, tensors)):
        assert np.mean((values > -128) & (values < 127)) > 0.75


def check_channels(geometry: Geometry, seed: int) -> None:
    tensors = make(f"channels@{seed}", geometry)
    for scales, offsets in ((tensors.scales1, tensors.offsets1), (tensors.scales2, tensors.offsets2)):
        packed = vreq8.unpack(vreq8.pack(scales, offsets))
        assert np.unique(packed.scale).size == scales.size
        assert np.unique(offsets).size == offsets.size
        assert (offsets.min(), offsets.max()) == (-256, 255)
    for values in both_convolutions(tensors, reference(geometry, tensors)):
        nearest_to_the_middle = np.abs(values).min(axis=0)
        assert (nearest_to_the_middle < 100).all()


CHECKS = [check_full_range, check_ties, check_edges, check_channels]


@pytest.mark.parametrize("check", CHECKS)
@MANY
@given(data=st.data())
def test_claims_hold_for_every_geometry_and_seed(
    check: Callable[[Geometry, int], None], data: st.DataObject, geometries: st.SearchStrategy[Geometry]
) -> None:
    check(data.draw(geometries), data.draw(SEEDS))


@pytest.mark.parametrize("check", CHECKS)
def test_claims_hold_where_there_is_a_single_output_pixel(check: Callable[[Geometry, int], None]) -> None:
    geometry = Geometry(3, 3, 32, 32, 32, Conv(3, 1, 0), Conv(1, 1, 0))
    for seed in range(60):
        check(geometry, seed)


@pytest.mark.parametrize("geometry", [PAIR, MC62], ids=["24x16", "mc62"])
def test_full_range_spreads_the_output_over_the_whole_range(geometry: Geometry) -> None:
    y = reference(geometry, make("full-range", geometry)).y
    counts = np.bincount(y.reshape(-1).astype(int) + 128, minlength=256)
    assert (counts > 0).all()
    quarters = counts.reshape(4, 64).sum(axis=1) / y.size
    assert (quarters > 0.15).all()


@pytest.mark.parametrize("name", IMPULSES)
@MANY
@given(data=st.data())
def test_impulse_is_one_pixel_whose_taps_are_distinct(
    name: str, data: st.DataObject, geometries: st.SearchStrategy[Geometry]
) -> None:
    geometry = data.draw(geometries)
    tensors = make(f"{name}@{data.draw(SEEDS)}", geometry)
    x = image(geometry, tensors)
    assert np.count_nonzero(x) == 1
    channel = int(np.argwhere(x)[0][0])
    for constant in (tensors.bias1, tensors.bias2, tensors.offsets1, tensors.offsets2):
        assert not constant.any()
    met = layout.matrix_to_filter(tensors.filter1, geometry.conv1.kernel)[:, channel]
    for taps in met.reshape(geometry.cmid, -1):
        assert taps.all()
        assert np.unique(taps).size == taps.size
    weights = layout.matrix_to_filter(tensors.filter2, geometry.conv2.kernel)
    assert (weights != 0).any(axis=(0, 2, 3)).all(), "a channel of mid that no output channel looks at"
    for taps in weights.reshape(geometry.cout, -1):
        used = taps[taps != 0]
        assert np.unique(used).size == used.size >= geometry.conv2.kernel**2
    pair = reference(geometry, tensors)
    assert pair.y.any()
    assert np.array_equal(pair.mid, pair.acc1), "mid is the taps themselves"


@pytest.mark.parametrize("geometry", [PAIR, MC62], ids=["24x16", "mc62"])
@pytest.mark.parametrize("row", ["even", "odd"])
@pytest.mark.parametrize("column", ["even", "odd"])
def test_impulse_shows_where_every_tap_lands(geometry: Geometry, row: str, column: str) -> None:
    tensors = make(f"impulse-{row}-{column}", geometry)
    channel, top, left = (int(place) for place in np.argwhere(image(geometry, tensors))[0])
    assert ("odd" if top % 2 else "even", "odd" if left % 2 else "even") == (row, column)
    pair = reference(geometry, tensors)

    weights = layout.matrix_to_filter(tensors.filter1, 3)[:, channel]
    wanted = np.zeros((geometry.mid_height, geometry.mid_width, geometry.cmid), int)
    for i, j in np.ndindex(3, 3):
        at = top + 1 - i, left + 1 - j  # stride 2, padding 1: output row r meets input row 2 * r - 1 + i
        if at[0] % 2 == 0 and at[1] % 2 == 0:
            wanted[at[0] // 2, at[1] // 2] = weights[:, i, j]
    assert np.array_equal(pair.mid.reshape(wanted.shape), wanted)
    assert np.array_equal(pair.y, pair.acc2), "with kernels of 3 and equal channels nothing is scaled away"


def test_the_four_impulses_together_meet_every_tap() -> None:
    met = np.zeros((64, 3, 3), bool)
    for name in IMPULSES:
        tensors = make(name, PAIR)
        mid = reference(PAIR, tensors).mid
        channel = int(np.argwhere(image(PAIR, tensors))[0][0])
        weights = layout.matrix_to_filter(tensors.filter1, 3)[:, channel]
        for out_channel in range(64):
            met[out_channel] |= np.isin(weights[out_channel], mid[:, out_channel])
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
    assert reference(geometry, make(name, geometry)).y.any()
