"""The one table of hardware limits and published cost constants (Huawei's public ISA headers)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

_KIB = 1024


class Space(Enum):
    """On-chip memories, by the name the DSL gives them."""

    Mat = "L1"
    Left = "L0A"
    Right = "L0B"
    Acc = "L0C"
    Bias = "bias table"
    LeftScale = "fixpipe table"
    Vec = "UB"


@dataclass(frozen=True)
class Rates:
    """Published cost constants of one soc: transfers in bytes per cycle, counted on arrival."""

    transfers: Mapping[tuple[str, str], float]
    matmul_start: int


@dataclass(frozen=True)
class Soc:
    """Capacities in bytes by memory; `rates` is None where no cost model is public."""

    name: str
    capacity: Mapping[Space, int]
    rates: Rates | None


def _capacity(ub: int, l1: int, l0a: int, l0b: int, l0c: int, bias: int, fixpipe: int) -> dict[Space, int]:
    spaces = (Space.Vec, Space.Mat, Space.Left, Space.Right, Space.Acc, Space.Bias, Space.LeftScale)
    return {
        space: size * _KIB for space, size in zip(spaces, (ub, l1, l0a, l0b, l0c, bias, fixpipe), strict=True)
    }


_A2A3_RATES = Rates(
    transfers={
        ("GM", "L1"): 78,
        ("L1", "L0A"): 256,
        ("L1", "L0B"): 128,
        ("L0C", "L1"): 74,
        ("L0C", "GM"): 41,
        ("L1", "bias table"): 19,
        ("L1", "fixpipe table"): 19,
    },
    matmul_start=6,
)

SOCS: Mapping[str, Soc] = {
    # Ascend 910B and 910C
    "a2a3": Soc("a2a3", _capacity(192, 512, 64, 64, 128, 1, 2), _A2A3_RATES),
    # Ascend 950
    "a5": Soc("a5", _capacity(256, 512, 64, 64, 256, 4, 4), None),
}

FRACTAL_ROWS = 16
"""Rows of an A, C or L1 fractal: the alignment of M and of L1 row positions."""

FRACTAL_DEPTH = 32
"""int8 elements along K of an A or B fractal, and columns of an L1 fractal (C0)."""

FRACTAL_COLUMNS = 16
"""Columns of a B or C fractal: the alignment of N."""

BIAS_ROW = 64
"""Bytes that a bias row must be a multiple of."""

SCALE_ROW = 128
"""Bytes that a scale row must be a multiple of."""

STORE_COLUMNS = 4095
"""Most columns of one store from L0C."""

POSITION_LIMIT = 2**16
"""img2col positions and image sizes are 16-bit."""

PADDING_LIMIT = 2**8
"""img2col paddings are 8-bit."""
