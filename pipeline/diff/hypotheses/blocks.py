"""NZ and ND: one matrix of C0 blocks in two orders."""

from __future__ import annotations

import numpy as np

from golden.geometry import C0
from golden.specs import Int8


def reordered(matrix: Int8, rows: int, *, nz_as_nd: bool) -> Int8:
    """A matrix [R, C], every `rows` rows of which lie in NZ order and are read as ND, or the reverse.

    In NZ order the blocks of C0 elements of a matrix lie as [C/C0][rows], in ND as [rows][C/C0].
    """
    across = matrix.shape[1] // C0
    shape = (-1, rows, across, C0) if nz_as_nd else (-1, across, rows, C0)
    return np.ascontiguousarray(matrix.reshape(shape).swapaxes(1, 2)).reshape(matrix.shape)
