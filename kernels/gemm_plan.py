"""How a matrix product is tiled: blocks of b's columns and bands of a's rows in L1, ACC tiles within them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from golden.geometry import C0, FRACTAL_ROWS, GemmGeometry
from kernels.choice import Use, check_memories
from kernels.plan import Limits, PlanError

_STORE_COLUMNS = 4095
"""Most columns that one store from L0C takes."""


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


def make_gemm_plan(geometry: GemmGeometry, limits: Limits) -> GemmPlan:
    """Tile a product.

    The plan takes the ACC tile that moves the fewest bytes into L0, among those that the memories allow, then
    the widest block of b (a is read once for each block), the highest band of a and the longest step of K.

    Raises:
        PlanError: not even the smallest tile fits; the message gives the memory and the bytes.
    """
    m, k, n = geometry.m, geometry.k, geometry.n
    refused = ""
    fitting: list[tuple[int, int]] = []
    for tile_m in _divisors(m, FRACTAL_ROWS, m):
        for tile_n in _divisors(n, C0, _STORE_COLUMNS):
            try:
                check_memories(f"tiles of {tile_m} x {tile_n}", _uses(tile_m, tile_n, k, limits))
            except PlanError as error:
                refused = refused or str(error)
                break  # a wider tile needs more of every memory
            fitting.append((tile_m, tile_n))
    if not fitting:
        raise PlanError(refused)
    # Each row of a is moved to L0A n / tile_n times, each column of b to L0B m / tile_m times. If several
    # tiles move as much, the highest is taken: L0B is filled at half the rate of L0A.
    tile_m, tile_n = min(fitting, key=lambda tile: (1 / tile[0] + 1 / tile[1], -tile[0]))
    block_columns = max(_divisors(n, tile_n, limits.l1 // k - tile_m))
    band_rows = max(_divisors(m, tile_m, limits.l1 // k - block_columns))
    step = max(_divisors(k, C0, min(limits.l0a // tile_m, limits.l0b // tile_n)))
    return GemmPlan(geometry, tile_m, tile_n, step, band_rows, block_columns)


def _uses(tile_m: int, tile_n: int, k: int, limits: Limits) -> list[Use]:
    """The least that a tile needs: its rows of a and columns of b in L1, and the shortest step of K in L0."""
    return [
        Use("L1", (("rows of a", tile_m * k), ("columns of b", tile_n * k)), limits.l1),
        Use("L0A", (("rows of a", tile_m * C0),), limits.l0a),
        Use("L0B", (("columns of b", C0 * tile_n),), limits.l0b),
        Use("L0C", (("sums", 4 * tile_m * tile_n),), limits.l0c),
    ]


def _divisors(size: int, unit: int, limit: int) -> Iterator[int]:
    """Divisors of a size that are multiples of a unit, ascending, up to a limit."""
    return (number for number in range(unit, min(size, limit) + 1, unit) if size % number == 0)
