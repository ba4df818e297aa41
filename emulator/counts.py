"""The counts of a walk, and the estimate that the cost model makes from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from emulator.soc import FRACTAL_COLUMNS, FRACTAL_DEPTH, FRACTAL_ROWS, Soc, Space

_UNITS = {
    "GM load": [("GM", "L1")],
    "L1 load": [("L1", "L0A"), ("L1", "L0B"), ("L1", "bias table"), ("L1", "fixpipe table")],
    "fixpipe": [("L0C", "L1"), ("L0C", "GM")],
}


@dataclass
class Counts:
    """Bytes per memory pair (counted on arrival) and per GM tensor, operations per kind, matmul work.

    `fractals` are 16x32x16 int8 products; `macs` multiply-accumulates, padding of tiles included.
    """

    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    fractals: int = 0
    macs: int = 0

    def matmul(self, m: int, k: int, n: int) -> None:
        """Count one [m, k] x [k, n] product."""
        self.macs += m * k * n
        self.fractals += -(-m // FRACTAL_ROWS) * -(-k // FRACTAL_DEPTH) * -(-n // FRACTAL_COLUMNS)

    @property
    def matmuls(self) -> int:
        """Matrix products of any kind."""
        return sum(count for name, count in self.operations.items() if name.startswith("tile.matmul"))


@dataclass(frozen=True)
class Estimate:
    """Estimated cycles by unit, with a serial sum and an ideal-overlap bound; neither is a measurement."""

    units: dict[str, float]

    @property
    def serial(self) -> float:
        """Cycles if no two units ever ran at the same time."""
        return sum(self.units.values())

    @property
    def overlap(self) -> float:
        """Cycles of the busiest unit: the total if overlap were ideal."""
        return max(self.units.values(), default=0.0)


def estimate(counts: Counts, soc: Soc) -> Estimate | None:
    """The cost model's estimate; None where the soc, or a transfer that was used, has no public rates."""
    rates = soc.rates
    if rates is None or any(pair not in rates.transfers for pair in counts.moved):
        return None
    units = {
        unit: sum(counts.moved[pair] / rates.transfers[pair] for pair in pairs)
        for unit, pairs in _UNITS.items()
    }
    units["cube"] = float(rates.matmul_start * counts.matmuls + counts.fractals)
    return Estimate(units)


def pair(source: Space | str, target: Space | str) -> tuple[str, str]:
    """The key of a memory pair; global memory is `GM`."""
    # `_value_` is `value`, without the detour that enumerations make.
    return (
        source if isinstance(source, str) else source._value_,
        target if isinstance(target, str) else target._value_,
    )
