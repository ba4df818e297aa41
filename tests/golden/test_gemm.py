"""The matrix product: its golden by definition, and for each of its profiles the proof of what it claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.gemm import DEFINITION, product, specs
from golden.geometry import GemmGeometry
from golden.vreq8 import VARIANTS

GEOMETRY = GemmGeometry(48, 64, 96)
SEEDS = st.integers(0, 10**6)
Geometries = Mapping[str, st.SearchStrategy[Any]]


def by_definition(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c[m, n] = sum over k of a[m, k] * b[k, n], in int64."""
    return (a[:, :, None].astype(np.int64) * b[None, :, :].astype(np.int64)).sum(axis=1)


@given(data=st.data(), seed=SEEDS, name=st.sampled_from(sorted(DEFINITION.profiles)))
def test_every_product_agrees_with_int64_arithmetic(
    data: st.DataObject, seed: int, name: str, geometries: Geometries
) -> None:
    geometry = data.draw(geometries["gemm"])
    tensors = DEFINITION.make(f"{name}@{seed}", geometry)
    outputs = DEFINITION.compute(geometry, tensors, data.draw(st.sampled_from(VARIANTS)))
    assert list(outputs) == ["c"]
    assert (outputs["c"].shape, outputs["c"].dtype) == ((geometry.m, geometry.n), np.int32)
    assert np.array_equal(outputs["c"], by_definition(tensors["a"], tensors["b"]))


@pytest.mark.parametrize("value", [-128, 127])
def test_the_largest_sums_that_a_geometry_allows_are_exact(value: int) -> None:
    """131040 is the deepest K of which no sum leaves int32; fp32 would hold hardly one of these sums."""
    depth = GemmGeometry(16, 131040, 32).k
    a = np.full((1, depth), -128, np.int8)
    b = np.full((depth, 2), value, np.int8)
    b[0, 1] = 1
    assert product(a, b).tolist() == [[-128 * value * depth, -128 * value * (depth - 1) - 128]]


def test_the_matrices_lie_as_they_are() -> None:
    assert [(spec.name, spec.shape, spec.dtype.name, spec.role.value) for spec in specs(GEOMETRY)] == [
        ("a", (48, 64), "int8", "matrix"),
        ("b", (64, 96), "int8", "matrix"),
        ("c", (48, 96), "int32", "output"),
    ]


def test_each_profile_has_its_proof_here() -> None:
    assert set(DEFINITION.profiles) == {"small", "full-range", "extremes", "impulse"}


def test_small_has_few_small_values() -> None:
    tensors = DEFINITION.make("small", GEOMETRY)
    assert set(np.unique(tensors["a"])) == set(range(-3, 4))
    assert set(np.unique(tensors["b"])) == set(range(-2, 3))


@given(data=st.data(), seed=SEEDS)
def test_full_range_has_all_int8_values_in_both_matrices(
    data: st.DataObject, seed: int, geometries: Geometries
) -> None:
    tensors = DEFINITION.make(f"full-range@{seed}", data.draw(geometries["gemm"]))
    for values in (tensors["a"], tensors["b"]):
        assert np.unique(values).size == 256


@given(data=st.data(), seed=SEEDS)
def test_extremes_reach_both_ends_of_what_the_depth_allows(
    data: st.DataObject, seed: int, geometries: Geometries
) -> None:
    geometry = data.draw(geometries["gemm"])
    tensors = DEFINITION.make(f"extremes@{seed}", geometry)
    for values in (tensors["a"], tensors["b"]):
        assert set(np.unique(values)) == {-128, 127}
    c = DEFINITION.compute(geometry, tensors, "vreq8")["c"]
    assert c.max() == geometry.k * 128 * 128
    assert c.min() == -geometry.k * 128 * 127


@given(data=st.data(), seed=SEEDS)
def test_impulse_makes_each_row_of_c_a_row_of_b(
    data: st.DataObject, seed: int, geometries: Geometries
) -> None:
    geometry = data.draw(geometries["gemm"])
    tensors = DEFINITION.make(f"impulse@{seed}", geometry)
    rows, places = np.nonzero(tensors["a"])
    assert rows.tolist() == list(range(geometry.m))
    assert set(tensors["a"][rows, places].tolist()) == {1}
    c = DEFINITION.compute(geometry, tensors, "vreq8")["c"]
    assert np.array_equal(c, tensors["b"][places])
    assert np.unique(places).size == min(geometry.m, geometry.k)


def test_impulses_reach_the_whole_depth_also_where_it_is_more_than_the_rows() -> None:
    geometry = GemmGeometry(16, 128, 32)
    met = {
        int(place)
        for seed in range(60)
        for place in np.nonzero(DEFINITION.make(f"impulse@{seed}", geometry)["a"])[1]
    }
    assert met == set(range(128))
