"""The memories of a device: their sizes, and what an output in them holds before a program runs.

It needs only the standard library and NumPy, because PyPTO's own interpreter imports it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator import soc
from emulator.soc import SOCS, Space
from kernels.cost import Rates
from kernels.plan import Limits

if TYPE_CHECKING:
    import numpy.typing as npt

_BYTE = 0xAA

SENTINEL = -86
"""What every element of an int8 output holds before a program runs."""


@cache
def limits_of(name: str) -> Limits:
    """The capacities of a soc, in bytes, and its rates if they are public."""
    capacity, rates = SOCS[name].capacity, SOCS[name].rates
    return Limits(
        l1=capacity[Space.Mat],
        l0a=capacity[Space.Left],
        l0b=capacity[Space.Right],
        l0c=capacity[Space.Acc],
        bias=capacity[Space.Bias],
        fixpipe=capacity[Space.LeftScale],
        rates=Rates() if rates is None else _rates(rates),
    )


def _rates(rates: soc.Rates) -> Rates:
    transfers = rates.transfers
    return Rates(
        gm_l1=transfers["GM", "L1"],
        l1_l0a=transfers["L1", "L0A"],
        l1_l0b=transfers["L1", "L0B"],
        l0c_l1=transfers["L0C", "L1"],
        l0c_gm=transfers["L0C", "GM"],
        l1_tables=transfers["L1", "fixpipe table"],
        matmul_start=rates.matmul_start,
    )


def sentinel_of(dtype: np.dtype[np.generic]) -> int:
    """The value of every element of an output of this dtype before a program runs: 0xAA in each byte."""
    return int(untouched_output((1,), dtype)[0])


def untouched_output(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
    """An output before a program runs: the sentinel in every element."""
    return np.frombuffer(bytes([_BYTE]) * (math.prod(shape) * dtype.itemsize), dtype).reshape(shape).copy()
