"""A flawed sum is known by its left elements."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.meant import meant
from emulator.sums import Accumulator, Product
from emulator.terms import Ids, Numbering
from tests.emulator.dense import DENSE, SHAPES

NUMBERING = Numbering(SHAPES, [DENSE])
X, W = NUMBERING.ids("x"), NUMBERING.ids("w")


def accumulator(left: Ids, right: Ids) -> Accumulator:
    return Accumulator(None, [Product(left, right)])


@pytest.mark.parametrize("rows", [slice(0, 64), slice(16, 48)])
@pytest.mark.parametrize(
    "order", [np.arange(64), np.roll(np.arange(64), 32)], ids=["in order", "groups of channels swapped"]
)
def test_sums_are_those_whose_left_elements_they_have(rows: slice, order: Ids) -> None:
    known = meant(NUMBERING, accumulator(X[rows][:, order], W))
    assert known is not None
    block, positions, columns = known
    assert block is NUMBERING.blocks[0]
    assert positions.tolist() == list(range(rows.start, rows.stop))
    assert columns.tolist() == list(range(64))


def test_foreign_right_elements_do_not_hide_it() -> None:
    known = meant(NUMBERING, accumulator(X[:16], NUMBERING.ids("z")))
    assert known is not None
    assert known[1].tolist() == list(range(16))


def test_left_elements_of_many_sums_leave_it_open() -> None:
    assert meant(NUMBERING, accumulator(X.T.copy(), W)) is None


def test_padding_alone_leaves_it_open() -> None:
    assert meant(NUMBERING, accumulator(np.zeros_like(X), W)) is None
