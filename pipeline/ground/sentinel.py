"""What an output holds before a program runs, so that elements left unwritten can be recognised.

It needs only the standard library and NumPy, because PyPTO's own interpreter imports it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

_BYTE = 0xAA

SENTINEL = -86
"""What every element of an int8 output holds before a program runs."""


def sentinel_of(dtype: np.dtype[np.generic]) -> int:
    """The value of every element of an output of this dtype before a program runs: 0xAA in each byte."""
    return int(untouched_output((1,), dtype)[0])


def untouched_output(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
    """An output before a program runs: the sentinel in every element."""
    return np.frombuffer(bytes([_BYTE]) * (math.prod(shape) * dtype.itemsize), dtype).reshape(shape).copy()
