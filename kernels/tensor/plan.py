"""How the tensor-level kernels are cut: tiles of the matrix products and of the vector unit.

A geometry's tilings come from its plan file if a search has written one (`plans/`), else from a rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from golden.errors import UserError
from golden.geometry import C0, Conv, ConvGeometry, GemmGeometry, Geometry
from kernels.tensor.canvas import Canvas, canvas_of

PROGRAMS = ("fused", "pass1", "pass2")
"""The programs of the pair."""

PLANS = Path(__file__).parent / "plans"

CUBE_CORES = 24
"""Cube cores of the chip the compiler assumes (Ascend910B1 in its A2A3.ini); vector cores are twice that."""

_INT32 = _FP32 = 4
_L0_ROWS = 32
"""The compiler rounds the rows of a left tile up to 32."""

_FEWEST_ROWS = 96
"""Below this a task costs more to schedule than to run."""

_WIDEST_COLUMNS = 256
"""The most columns of a plain product's cube task; they leave room in L0C for enough rows."""

_VEC_TILES = 4
"""Fp32 tiles that a requantisation holds in UB at once: its value and three rows of constants, broadcast."""

_LARGEST_TENSOR = 2**31 - 1


class TilingError(UserError):
    """A geometry cannot be cut for these kernels; the message names the rule and the numbers."""


@dataclass(frozen=True)
class Capacities:
    """Bytes of the memories that tiles must fit."""

    l1: int
    l0a: int
    l0b: int
    l0c: int
    ub: int


@dataclass(frozen=True)
class Product:
    """Tiles of one matrix product [M, K] x [K, N] and of its requantisation; N is never cut.

    Attributes:
        cube_rows: rows of M in one cube task.
        k_step: K in one L0 tile, a multiple of 32.
        k_depth: K in one L1 tile, a multiple of `k_step`.
        vec_rows: rows in one vector tile.
    """

    cube_rows: int
    k_step: int
    k_depth: int
    vec_rows: int

    def describe(self) -> str:
        """The numbers in one line."""
        return f"{self.cube_rows}/{self.vec_rows}x{self.k_step}/{self.k_depth}"


@dataclass(frozen=True)
class GemmTiling:
    """Tiles of a plain matrix product [M, K] x [K, N], whose sums go to GM as they are.

    Attributes:
        cube_rows, cube_columns: rows of M and columns of N in one cube task.
        k_step: K in one L0 tile, a multiple of 32.
        k_depth: K in one L1 tile, a multiple of `k_step`.
    """

    cube_rows: int
    cube_columns: int
    k_step: int
    k_depth: int

    def describe(self) -> str:
        """The numbers in one line."""
        return f"{self.cube_rows}x{self.cube_columns}x{self.k_step}/{self.k_depth}"


@dataclass(frozen=True)
class Tiling:
    """Tiles of a program of the pair; fields that a program does not need (conv1 in pass2) are ignored.

    `spread_rows` is the rows of the canvas that one vector tile writes to conv2's windows.
    """

    conv1: Product
    conv2: Product
    spread_rows: int

    def canvas(self, geometry: Geometry) -> Canvas:
        """The canvas of a geometry, cut in whole tiles."""
        return canvas_of(geometry, self.spread_rows, self.conv2.vec_rows)

    def describe(self) -> str:
        """The numbers in one line."""
        return f"{self.conv1.describe()} {self.conv2.describe()} spread {self.spread_rows}"


def tiling_for(program: str, geometry: Geometry, capacities: Capacities) -> Tiling:
    """The tiling of a program: the searched one if the geometry has a plan file, else the one by rule.

    Raises:
        TilingError: the geometry cannot be cut, or is none that the programs compute.
    """
    path = plan_path(geometry)
    if path.is_file():
        return read_plan(path)[program]
    return tiling_by_rule(geometry, capacities)


def tiling_by_rule(geometry: Geometry, capacities: Capacities) -> Tiling:
    """A tiling whose tasks fit the memories: one cube task for each core, two vector tiles for each task.

    Raises:
        TilingError: a channel count fits no tile, or a tensor exceeds 2**31 - 1 bytes.
    """
    canvas = canvas_of(geometry)
    conv1 = _product("conv1", canvas.rows, geometry.depth1, geometry.cmid, capacities)
    conv2 = _product("conv2", canvas.out_rows, geometry.depth2, geometry.cout, capacities)
    tiling = Tiling(conv1, conv2, spread_rows=conv1.vec_rows)
    canvas = tiling.canvas(geometry)
    _check_tensor("columns of conv1", canvas.rows, geometry.depth1)
    _check_tensor("windows of conv2", canvas.reach + canvas.plane_rows, geometry.depth2)
    return tiling


def conv_tiling(geometry: ConvGeometry, capacities: Capacities) -> Product:
    """The tiling of one convolution, by the rule of `tiling_by_rule`.

    Raises:
        TilingError: the channel count fits no tile, or a tensor exceeds 2**31 - 1 bytes.
    """
    rows = geometry.out_height * geometry.out_width
    _check_tensor("columns of conv", rows, geometry.depth)
    return _product("conv", rows, geometry.depth, geometry.cout, capacities)


def gemm_tiling(geometry: GemmGeometry, capacities: Capacities) -> GemmTiling:
    """A tiling of a matrix product whose tasks fit the memories: about one cube task for each core.

    Raises:
        TilingError: the memories cannot hold the smallest tile, or the sums exceed 2**31 - 1 bytes.
    """
    _check_tensor("c of gemm", geometry.m, geometry.n * _INT32)
    # Half of L0A and L0B each: one tile is loaded while the other is used.
    operand, sums = 2 * _L0_ROWS * C0, _L0_ROWS * C0 * _INT32
    if min(capacities.l0a, capacities.l0b) < operand or capacities.l0c < sums:
        raise TilingError(
            f"gemm: the smallest tile needs {operand} B of L0A and L0B and {sums} of L0C, "
            f"which have {capacities.l0a}, {capacities.l0b} and {capacities.l0c}; only larger memories help"
        )
    widest = min(_WIDEST_COLUMNS, capacities.l0b // C0 // 2, capacities.l0c // _L0_ROWS // _INT32)
    columns = _largest_divisor(geometry.n, C0, widest)
    fitting = min(capacities.l0c // (columns * _INT32), capacities.l0a // C0 // 2)
    share = max(-(-geometry.m * geometry.n // columns // CUBE_CORES), _FEWEST_ROWS)
    rows = min(_round_up(share, _L0_ROWS), fitting // _L0_ROWS * _L0_ROWS)
    return GemmTiling(rows, columns, *_k_tiles(geometry.k, rows, columns, capacities))


def _check_tensor(name: str, rows: int, row_bytes: int) -> None:
    if rows * row_bytes > _LARGEST_TENSOR:
        raise TilingError(
            f"{name}: {rows} rows of {row_bytes} bytes: a tensor of CANN PyPTO holds {_LARGEST_TENSOR}; "
            "a smaller geometry helps"
        )


def _product(name: str, rows: int, depth: int, channels: int, capacities: Capacities) -> Product:
    fitting = capacities.l0c // (channels * _INT32) // _L0_ROWS * _L0_ROWS
    share = max(-(-rows // CUBE_CORES), _FEWEST_ROWS)
    vec_rows = min(-(-share // 2), capacities.ub // (channels * _FP32 * _VEC_TILES), fitting)
    # Half of a memory each: one tile is loaded while the other is used.
    if vec_rows < 1 or capacities.l0b // channels // 2 < C0:
        raise TilingError(
            f"{name}: {channels} output channels: no tile of them fits L0 and UB, and they are not cut; "
            "fewer output channels help"
        )
    cube_rows = min(-(-share // vec_rows), fitting // vec_rows) * vec_rows
    k_step, k_depth = _k_tiles(depth, cube_rows, channels, capacities)
    return Product(cube_rows, k_step, k_depth, vec_rows)


def _k_tiles(depth: int, rows: int, columns: int, capacities: Capacities) -> tuple[int, int]:
    """K in one L0 tile and in one L1 tile; each takes at most half of its memory."""
    left_rows = _round_up(rows, _L0_ROWS)
    k_step = _largest_divisor(
        depth, C0, min(capacities.l0b // columns // 2, capacities.l0a // left_rows // 2)
    )
    return k_step, _largest_divisor(depth, k_step, capacities.l1 // (left_rows + columns) // 2)


def may_fit(geometry: Geometry, tiling: Tiling, capacities: Capacities) -> bool:
    """Whether each tile alone fits its memory; only the compiler knows what else it puts there."""
    return all(
        product.k_step * max(_round_up(product.cube_rows, _L0_ROWS), columns)
        <= min(capacities.l0a, capacities.l0b)
        and _round_up(product.cube_rows, _L0_ROWS) * columns * _INT32 <= capacities.l0c
        and 2 * product.vec_rows * columns * _FP32 <= capacities.ub
        for product, columns in ((tiling.conv1, geometry.cmid), (tiling.conv2, geometry.cout))
    )


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _largest_divisor(number: int, multiple_of: int, limit: int) -> int:
    """The largest divisor of `number` up to `limit` that is a multiple of `multiple_of`, at least that."""
    candidates = range(multiple_of, min(number, limit) + 1, multiple_of)
    return max((candidate for candidate in candidates if number % candidate == 0), default=multiple_of)


def plan_path(geometry: Geometry) -> Path:
    """The plan file of a geometry, whether it exists or not; its name has all numbers of the geometry."""
    convs = "-".join(map(_named, (geometry.conv1, geometry.conv2)))
    channels = f"{geometry.cin}-{geometry.cmid}-{geometry.cout}"
    return PLANS / f"{geometry.height}x{geometry.width}-{channels}-{convs}.json"


def _named(conv: Conv) -> str:
    """The numbers of a convolution in the name of a plan file: `k3s2p1`, or `k1x7s1p0x0x3x3`."""

    def joined(value: int | tuple[int, ...]) -> str:
        return str(value) if isinstance(value, int) else "x".join(map(str, value))

    dilation = "" if conv.dilation == 1 else f"d{joined(conv.dilation)}"
    return f"k{joined(conv.kernel)}s{joined(conv.stride)}p{joined(conv.padding)}{dilation}"


def read_plan(path: Path) -> dict[str, Tiling]:
    """The tilings of a plan file, by program."""
    return {
        program: Tiling(Product(**entry["conv1"]), Product(**entry["conv2"]), entry["spread_rows"])
        for program, entry in json.loads(path.read_text()).items()
    }


def write_plan(path: Path, tilings: Mapping[str, Tiling]) -> None:
    """Write the tilings of all programs as a plan file."""
    entries = {program: asdict(tilings[program]) for program in PROGRAMS}
    path.write_text(json.dumps(entries, indent=1) + "\n")
