"""Every profile's golden depends on every tensor, on stride and on padding: what it ignored went untested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from golden import layout
from golden.draw import Draw
from golden.geometry import Conv, Geometry
from golden.profiles import CATALOGUE, PROFILES, make
from golden.specs import Tensors

pytest.importorskip("torch", reason="torch is not installed")

from golden.reference import reference

GEOMETRIES = {
    "24x16": Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)),
    "stride 2 twice": Geometry(17, 13, 96, 64, 128, Conv(3, 2, 1), Conv(3, 2, 1)),
    "128 channels": Geometry(9, 8, 128, 128, 32, Conv(3, 1, 1), Conv(3, 1, 1)),
}
ELEMENTS = 6


def far_int8(values: np.ndarray, at: int, tensors: Tensors) -> None:
    values[at] = -128 if values[at] >= 0 else 127


def two_output_steps(number: str) -> Callable[[np.ndarray, int, Tensors], None]:
    def change(values: np.ndarray, at: int, tensors: Tensors) -> None:
        values[at] += np.ceil(2 / getattr(tensors, f"scales{number}")[at])

    return change


def doubled(values: np.ndarray, at: int, tensors: Tensors) -> None:
    values[at] *= 2


def one_more(values: np.ndarray, at: int, tensors: Tensors) -> None:
    values[at] += 1 if values[at] < 255 else -1


CHANGES = {
    "x": far_int8,
    "filter1": far_int8,
    "bias1": two_output_steps("1"),
    "scales1": doubled,
    "offsets1": one_more,
    "filter2": far_int8,
    "bias2": two_output_steps("2"),
    "scales2": doubled,
    "offsets2": one_more,
}


def golden(geometry: Geometry, tensors: Tensors) -> np.ndarray:
    return reference(geometry, tensors).y.reshape(geometry.out_height, geometry.out_width, -1)


def changed(tensors: Tensors, name: str, at: int) -> Tensors:
    values = getattr(tensors, name).copy()
    CHANGES[name](values.reshape(-1), at, tensors)
    return replace(tensors, **{name: values})


def meeting_something(geometry: Geometry, tensors: Tensors, name: str) -> np.ndarray:
    """Elements of a filter that meet a non-zero value in some window."""
    if name == "filter1":
        windows = layout.img2col(tensors.x, geometry.height, geometry.width, geometry.conv1)
    else:
        rows = reference(geometry, tensors).mid
        mid = layout.nchw_to_nc1hwc0(rows.T.reshape(1, -1, geometry.mid_height, geometry.mid_width))
        windows = layout.img2col(mid, geometry.mid_height, geometry.mid_width, geometry.conv2)
    columns = getattr(tensors, name).shape[1]
    return np.flatnonzero(np.repeat((windows != 0).any(axis=0), columns))


@pytest.mark.parametrize("where", GEOMETRIES)
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("profile", PROFILES)
def test_changing_one_element_changes_the_golden(profile: str, name: str, where: str) -> None:
    geometry = GEOMETRIES[where]
    tensors = make(profile, geometry)
    plain = golden(geometry, tensors)
    elements = np.arange(getattr(tensors, name).size)
    if name in CATALOGUE[profile].exceptions:
        elements = meeting_something(geometry, tensors, name)
    picked = elements[Draw(3).integers(0, elements.size - 1, (ELEMENTS,))]
    without_effect = [
        int(at) for at in picked if np.array_equal(golden(geometry, changed(tensors, name, at)), plain)
    ]
    assert without_effect == []


@pytest.mark.parametrize(
    ("profile", "name"), [(name, tensor) for name, kind in CATALOGUE.items() for tensor in kind.exceptions]
)
def test_exceptions_are_honest(profile: str, name: str) -> None:
    """Where a profile says that some elements cannot reach the output, there are such, and others too."""
    geometry = Geometry(17, 13, 96, 64, 128, Conv(3, 2, 1), Conv(3, 3, 1))
    tensors = make(profile, geometry)
    elements = np.arange(getattr(tensors, name).size)
    meeting = meeting_something(geometry, tensors, name)
    others = np.setdiff1d(elements, meeting)
    assert meeting.size
    assert others.size
    plain = golden(geometry, tensors)
    for at in others[Draw(3).integers(0, others.size - 1, (ELEMENTS,))]:
        assert np.array_equal(golden(geometry, changed(tensors, name, at)), plain)


OTHERS = [
    (where, conv, field, value)
    for where, geometry in GEOMETRIES.items()
    for conv in ("conv1", "conv2")
    for field, values in {"stride": (1, 2, 3), "padding": (0, 1, 2)}.items()
    for value in values
    if getattr(getattr(geometry, conv), field) != value
]


@pytest.mark.parametrize(("where", "conv", "field", "value"), OTHERS)
@pytest.mark.parametrize("profile", PROFILES)
def test_another_stride_or_padding_changes_the_golden(
    profile: str, where: str, conv: str, field: str, value: int
) -> None:
    geometry = GEOMETRIES[where]
    other = replace(geometry, **{conv: replace(getattr(geometry, conv), **{field: value})})
    tensors = make(profile, geometry)
    one, two = golden(geometry, tensors), golden(other, tensors)
    height, width = (min(sizes) for sizes in zip(one.shape[:2], two.shape[:2], strict=True))
    assert not np.array_equal(one[:height, :width], two[:height, :width])
