"""What each sum of a workload must hold: which elements are multiplied and added, and where it goes.

It is said as functions of a position, a depth and a column, so that nothing has the size of all terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Index: TypeAlias = "npt.NDArray[np.signedinteger]"
"""Positions, depths or columns; or elements of a tensor, counted row by row, negative for padding."""


@dataclass(frozen=True)
class Sums:
    """A block of sums: one for each position and column, each over the same depths.

    `sum(position, column) = bias(column) + sum over depth of left(position, depth) * right(depth, column)`

    Each operand is the name of a tensor and a function that says which of its elements is meant. A left
    operand may be the result of another block. A left element that is padding makes its term 0. No two
    positions have the same left elements, none has padding alone, and no right element is used twice.

    Attributes:
        shape: positions, depth, columns.
        left: from positions [m] and depths [k] to elements [m, k].
        right: from depths [k] and columns [n] to elements [k, n].
        result: where the sums go: from positions [m] and columns [n] to elements [m, n].
        bias: from columns [n] to elements [n]; None if nothing is added.
        table: the entries that requantise the sums, likewise; None if they stay as they are.
    """

    shape: tuple[int, int, int]
    left: tuple[str, Callable[[Index, Index], Index]]
    right: tuple[str, Callable[[Index, Index], Index]]
    result: tuple[str, Callable[[Index, Index], Index]]
    bias: tuple[str, Callable[[Index], Index]] | None = None
    table: tuple[str, Callable[[Index], Index]] | None = None


def matrix(width: int, first: int = 0) -> Callable[[Index, Index], Index]:
    """The elements of a matrix of `width` columns, from rows [m] and columns [n], counted from a `first`."""
    return lambda rows, columns: rows[:, None] * width + (columns + first)


def row(columns: Index, first: int = 0) -> Index:
    """The elements of a matrix of one row, from columns [n], counted from a `first`."""
    return columns + first
