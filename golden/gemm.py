"""What the workload `gemm` computes: the int32 product of two int8 matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from golden.definition import Definition
from golden.draw import Draw
from golden.geometry import GemmGeometry
from golden.profiles import Profile
from golden.specs import Array, Int8, Int32, Role, Tensors, TensorSpec
from golden.terms import Sums, matrix


def specs(geometry: GemmGeometry) -> tuple[TensorSpec, ...]:
    """`a` int8 [m, k] and `b` int8 [k, n] give `c` int32 [m, n]."""
    return (
        TensorSpec("a", (geometry.m, geometry.k), "int8", Role.MATRIX),
        TensorSpec("b", (geometry.k, geometry.n), "int8", Role.MATRIX),
        TensorSpec("c", (geometry.m, geometry.n), "int32", Role.OUTPUT),
    )


def compute(geometry: GemmGeometry, tensors: Tensors, variant: str) -> Mapping[str, Array]:
    """`c`, exact; no variant changes it."""
    return {"c": product(tensors["a"], tensors["b"])}


def terms(geometry: GemmGeometry) -> tuple[Sums, ...]:
    """One block: position and column are those of `c`, which keeps its sums as they are."""
    return (
        Sums(
            (geometry.m, geometry.k, geometry.n),
            left=("a", matrix(geometry.k)),
            right=("b", matrix(geometry.n)),
            result=("c", matrix(geometry.n)),
        ),
    )


def product(a: Int8, b: Int8) -> Int32:
    """The int32 product of int8 [m, k] and [k, n]; every sum is below 2**31, which doubles hold exactly."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32)


def _small(geometry: GemmGeometry, draw: Draw) -> Mapping[str, Array]:
    a, b = specs(geometry)[:2]
    return {"a": draw.int8(-3, 3, a.shape), "b": draw.int8(-2, 2, b.shape)}


def _full_range(geometry: GemmGeometry, draw: Draw) -> Mapping[str, Array]:
    a, b = specs(geometry)[:2]
    return {"a": draw.every_int8(a.shape), "b": draw.every_int8(b.shape)}


def _extremes(geometry: GemmGeometry, draw: Draw) -> Mapping[str, Array]:
    a, b = specs(geometry)[:2]
    ends = np.array([-128, 127], np.int8)
    # Each row of a and each column of b has one value, so the sums reach both ends of what a geometry allows.
    columns = np.broadcast_to(ends[draw.shuffled(geometry.n) % 2], b.shape)
    rows = np.broadcast_to(ends[draw.shuffled(geometry.m) % 2][:, None], a.shape)
    return {"a": np.ascontiguousarray(rows), "b": np.ascontiguousarray(columns)}


def _impulse(geometry: GemmGeometry, draw: Draw) -> Mapping[str, Array]:
    a, b = specs(geometry)[:2]
    rows = np.zeros(a.shape, np.int8)
    # One element in each row, spread over K: no k occurs twice if m <= k, and every k occurs if m >= k.
    places = draw.shuffled(max(geometry.m, geometry.k))[: geometry.m] % geometry.k
    rows[np.arange(geometry.m), places] = 1
    return {"a": rows, "b": draw.int8(-128, 127, b.shape)}


DEFINITION = Definition(
    "gemm",
    GemmGeometry,
    specs,
    {
        "small": Profile("few small values: sums that can be followed by hand", _small),
        "full-range": Profile("all int8 values in both matrices", _full_range),
        "extremes": Profile("-128 and 127 only: the largest and the smallest possible sums", _extremes),
        "impulse": Profile(
            "one non-zero element in each row of a: each row of c is a row of b",
            _impulse,
            {"b": "rows that no element of a selects meet zeros only"},
        ),
    },
    compute,
    terms=terms,
)
