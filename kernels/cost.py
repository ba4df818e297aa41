"""What a plan moves and multiplies, and the cycles that this is estimated to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import add


@dataclass(frozen=True)
class Rates:
    """Bytes a cycle of each transfer, counted on arrival, and the cycles with which a matmul begins.

    The defaults are those of a soc without a public cost model: each byte and each fractal counts the same.
    """

    gm_l1: float = 1
    l1_l0a: float = 1
    l1_l0b: float = 1
    l0c_l1: float = 1
    l0c_gm: float = 1
    l1_tables: float = 1
    matmul_start: float = 0


@dataclass(frozen=True)
class Work:
    """Bytes of each transfer, matmuls, and fractals of 16 x 32 x 16 products."""

    gm_l1: int = 0
    l1_l0a: int = 0
    l1_l0b: int = 0
    l0c_l1: int = 0
    l0c_gm: int = 0
    l1_tables: int = 0
    matmuls: int = 0
    fractals: int = 0

    def __add__(self, other: Work) -> Work:
        """The work of both."""
        return Work(*map(add, vars(self).values(), vars(other).values()))

    def __mul__(self, times: int) -> Work:
        """The work, so many times."""
        return Work(*(amount * times for amount in vars(self).values()))

    def units(self, rates: Rates) -> Mapping[str, float]:
        """Cycles of each unit."""
        return {
            "GM load": self.gm_l1 / rates.gm_l1,
            "L1 load": self.l1_l0a / rates.l1_l0a
            + self.l1_l0b / rates.l1_l0b
            + self.l1_tables / rates.l1_tables,
            "fixpipe": self.l0c_l1 / rates.l0c_l1 + self.l0c_gm / rates.l0c_gm,
            "cube": rates.matmul_start * self.matmuls + self.fractals,
        }

    def cycles(self, rates: Rates) -> float:
        """Cycles if no two units ever ran at the same time."""
        return sum(self.units(rates).values())
