"""The terms of a definition, evaluated one by one, give what its golden computes by other means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import conv, conv_pair, gemm, vreq8
from golden.definition import Definition
from golden.term_check import checked_terms
from golden.terms import Index, Sums

DEFINITIONS = {module.DEFINITION.name: module.DEFINITION for module in (conv_pair, conv, gemm)}


def taken(flat: np.ndarray, index: Index) -> np.ndarray:
    """Elements by their numbers, int64; padding is 0."""
    return np.where(index < 0, 0, flat[np.maximum(index, 0)]).astype(np.int64)


def evaluated(sums: Sums, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
    """What a block's sums are, int64 [positions, columns]."""
    positions, depths, columns = map(np.arange, sums.shape)
    left, right = (
        taken(tensors[sums.left[0]], sums.left[1](positions, depths)),
        taken(tensors[sums.right[0]], sums.right[1](depths, columns)),
    )
    bias = taken(tensors[sums.bias[0]], sums.bias[1](columns)) if sums.bias else 0
    return left @ right + bias


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize("name", DEFINITIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_the_terms_are_those_that_the_golden_sums(
    name: str, data: st.DataObject, geometries: Mapping[str, st.SearchStrategy[Any]]
) -> None:
    definition: Definition = DEFINITIONS[name]
    geometry = data.draw(geometries[name])
    tensors = definition.make("full-range@3", geometry)
    wanted = definition.computed(geometry, tensors, "vreq8")
    assert definition.terms is not None
    checked_terms(definition.terms(geometry), definition.specs(geometry))  # as those of a user are
    flat = {key: array.reshape(-1) for key, array in (tensors.arrays("vreq8") | wanted).items()}
    reached = {key: np.zeros(array.size, int) for key, array in wanted.items()}
    for sums in definition.terms(geometry):
        positions, _, columns = map(np.arange, sums.shape)
        values = evaluated(sums, flat)
        if sums.table is not None:
            table = flat[sums.table[0]][sums.table[1](columns)]
            values = vreq8.requantise(values.astype(np.int32), table.reshape(1, -1))
        output, places = sums.result[0], sums.result[1](positions, columns)
        np.testing.assert_array_equal(values, taken(flat[output], places))
        np.add.at(reached[output], places, 1)
    for counts in reached.values():
        assert (counts == 1).all()
