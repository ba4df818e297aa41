"""The sizes of a soc's memories, in the form that the kernels' planners use."""

from __future__ import annotations

from functools import cache

from emulator.soc import SOCS, Space
from kernels.plan import Limits


@cache
def limits_of(soc: str) -> Limits:
    """The capacities of a soc, in bytes."""
    capacity = SOCS[soc].capacity
    return Limits(
        l1=capacity[Space.Mat],
        l0a=capacity[Space.Left],
        l0b=capacity[Space.Right],
        l0c=capacity[Space.Acc],
        bias=capacity[Space.Bias],
        fixpipe=capacity[Space.LeftScale],
    )
