"""How a matrix product is tiled: blocks of b's columns and bands of a's rows in L1, ACC tiles within them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from golden.geometry import C0, FRACTAL_ROWS, GemmGeometry
from kernels.choice import Account, Use, check_memories
from kernels.cost import Work
from kernels.plan import Limits, PlanError
from kernels.tiles import STORE_COLUMNS

_SUM = 4
"""Bytes of an int32 sum."""


@dataclass(frozen=True)
class GemmPlan:
    """A tiled product. Every size divides the one it cuts, so that all tiles are equal.

    Attributes:
        tile_m, tile_n: rows and columns of an ACC tile.
        step: K of one matmul.
        band_rows: rows of a that are in L1 at once, over the whole of K; a multiple of `tile_m`.
        block_columns: columns of b that are in L1 at once, likewise; a multiple of `tile_n`.
    """

    geometry: GemmGeometry
    tile_m: int
    tile_n: int
    step: int
    band_rows: int
    block_columns: int

    def __str__(self) -> str:
        return _in_words(self.tile_m, self.tile_n)

    @property
    def steps(self) -> int:
        """Steps of the K loop."""
        return self.geometry.k // self.step

    @property
    def bands(self) -> int:
        """Bands of a's rows."""
        return self.geometry.m // self.band_rows

    @property
    def blocks(self) -> int:
        """Blocks of b's columns."""
        return self.geometry.n // self.block_columns

    @property
    def work(self) -> Work:
        """What the program moves and multiplies."""
        m, k, n = self.geometry.m, self.geometry.k, self.geometry.n
        matmuls = m // self.tile_m * (n // self.tile_n) * self.steps
        return Work(
            gm_l1=k * n + self.blocks * m * k,
            l1_l0a=matmuls * self.tile_m * self.step,
            l1_l0b=matmuls * self.step * self.tile_n,
            l0c_gm=_SUM * m * n,
            matmuls=matmuls,
            fractals=m // FRACTAL_ROWS * (k // C0) * (n // FRACTAL_ROWS),
        )


def make_gemm_plan(geometry: GemmGeometry, limits: Limits) -> GemmPlan:
    """Tile a product.

    The plan takes the ACC tile that moves the fewest bytes into L0, among those that the memories allow, then
    the widest block of b (a is read once for each block), the highest band of a and the longest step of K.

    Raises:
        PlanError: not even the smallest tile fits; the message gives the memory and the bytes.
    """
    return _best(geometry, limits, *_tried(geometry, limits))


def account(geometry: GemmGeometry, limits: Limits) -> Account:
    """The plan of a product in words and numbers; arguments and errors as of `make_gemm_plan`."""
    fitting, refused = _tried(geometry, limits)
    plan = _best(geometry, limits, fitting, refused)
    facts = {
        "bands": f"{plan.bands} of {plan.band_rows} rows of a",
        "blocks": f"{plan.blocks} of {plan.block_columns} columns of b, for each of which a comes in",
        "tiles": f"ACC tiles of {plan.tile_m} x {plan.tile_n}, {plan.steps} K steps of {plan.step}",
    }
    tiles = (_tiled(geometry, limits, *tile) for tile in fitting)
    others = [(str(other), other.work.cycles(limits.rates)) for other in tiles if other != plan]
    uses = _uses(plan.band_rows, plan.block_columns, plan.tile_m, plan.tile_n, plan.step, geometry.k, limits)
    nearest = min(refused, key=lambda error: error.ratio, default="")
    return Account(
        facts,
        tuple(uses),
        {"gemm": plan.work},
        tuple(sorted(others, key=lambda other: other[1])),
        str(nearest),
    )


def _in_words(tile_m: int, tile_n: int) -> str:
    """A plan in short, by its ACC tile."""
    return f"tiles of {tile_m} x {tile_n}"


def _tried(geometry: GemmGeometry, limits: Limits) -> tuple[list[tuple[int, int]], list[PlanError]]:
    """The ACC tiles that fit, and why others do not; for each height no wider one than the first of those."""
    fitting: list[tuple[int, int]] = []
    refused: list[PlanError] = []
    for tile_m in _divisors(geometry.m, FRACTAL_ROWS, max(FRACTAL_ROWS, limits.l0a // C0)):
        for tile_n in _divisors(geometry.n, C0, STORE_COLUMNS):
            try:
                needs = _uses(tile_m, tile_n, tile_m, tile_n, C0, geometry.k, limits)
                check_memories(_in_words(tile_m, tile_n), needs)
            except PlanError as error:
                refused.append(error)
                break  # a wider tile needs more of every memory
            fitting.append((tile_m, tile_n))
    return fitting, refused


def _best(
    geometry: GemmGeometry, limits: Limits, fitting: list[tuple[int, int]], refused: list[PlanError]
) -> GemmPlan:
    """The plan of `make_gemm_plan`, of what `_tried` found."""
    if not fitting:
        raise refused[0]
    # Each row of a is moved to L0A n / tile_n times, each column of b to L0B m / tile_m times. If several
    # tiles move as much, the highest is taken: L0B is filled at half the rate of L0A.
    return _tiled(geometry, limits, *min(fitting, key=lambda tile: (1 / tile[0] + 1 / tile[1], -tile[0])))


def _tiled(geometry: GemmGeometry, limits: Limits, tile_m: int, tile_n: int) -> GemmPlan:
    """The plan with an ACC tile that fits."""
    m, k, n = geometry.m, geometry.k, geometry.n
    block_columns = max(_divisors(n, tile_n, limits.l1 // k - tile_m))
    band_rows = max(_divisors(m, tile_m, limits.l1 // k - block_columns))
    step = max(_divisors(k, C0, min(limits.l0a // tile_m, limits.l0b // tile_n)))
    return GemmPlan(geometry, tile_m, tile_n, step, band_rows, block_columns)


def _uses(rows: int, columns: int, tile_m: int, tile_n: int, step: int, k: int, limits: Limits) -> list[Use]:
    """What L1 needs for rows of a and columns of b over the whole of K, and L0 for a tile and a step of K."""
    return [
        Use("L1", (("rows of a", rows * k), ("columns of b", columns * k)), limits.l1),
        Use("L0A", (("rows of a", tile_m * step),), limits.l0a),
        Use("L0B", (("columns of b", step * tile_n),), limits.l0b),
        Use("L0C", (("sums", _SUM * tile_m * tile_n),), limits.l0c),
    ]


def _divisors(size: int, unit: int, limit: int) -> Iterator[int]:
    """Divisors of a size that are multiples of a unit, ascending, up to a limit."""
    return (number for number in range(unit, min(size, limit) + 1, unit) if size % number == 0)
