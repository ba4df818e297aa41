"""The kernels of one launch in NumPy: what they compute, and that they write each output element once.

A stand-in takes the framework's place and does each operation as its documentation says; that the real
compiler takes the kernels is tested with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import vreq8
from golden.geometry import Conv, ConvGeometry, GemmGeometry
from kernels.tensor.plan import Capacities, Product, conv_tiling, gemm_tiling
from kernels.tensor.programs import BUILD

KIB = 1024
A2A3 = Capacities(l1=512 * KIB, l0a=64 * KIB, l0b=64 * KIB, l0c=128 * KIB, ub=192 * KIB)
Array = npt.NDArray[Any]


@dataclass
class StandIn:
    """The operations that the kernels use, on NumPy arrays.

    `written` counts the writes to each element of the output.
    """

    DT_INT8: npt.DTypeLike = np.int8
    DT_INT32: npt.DTypeLike = np.int32
    DT_FP16: npt.DTypeLike = np.float16
    DT_FP32: npt.DTypeLike = np.float32
    CastMode: Any = field(default_factory=lambda: SimpleNamespace(CAST_RINT="to nearest, half to even"))
    frontend: Any = field(default_factory=lambda: SimpleNamespace(jit=lambda **_: lambda kernel: kernel))
    cube_tiles: list[Any] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    written: Any = None

    def Tensor(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> tuple[Any, Any]:  # noqa: N802
        return shape, np.dtype(dtype)

    def set_cube_tile_shapes(self, *shapes: Sequence[int]) -> None:
        self.cube_tiles.append(shapes)

    def set_vec_tile_shapes(self, rows: int, columns: int) -> None:
        assert rows > 0 < columns

    def set_pass_options(self, sg_set_scope: int) -> None:
        self.tasks.append(sg_set_scope)

    def matmul(self, left: Array, right: Array, dtype: npt.DTypeLike) -> Array:
        assert left.dtype == right.dtype == np.int8
        return (left.astype(np.int64) @ right.astype(np.int64)).astype(dtype)

    def view(self, tensor: Array, shape: Sequence[int], offsets: Sequence[int]) -> Array:
        (row, column), (rows, columns) = offsets, shape
        assert row + rows <= tensor.shape[0]
        assert column + columns <= tensor.shape[1]
        return tensor[row : row + rows, column : column + columns]

    def assemble(self, tile: Array, offsets: Sequence[int], output: Array) -> None:
        assert tile.dtype == output.dtype
        if self.written is None:
            self.written = np.zeros(output.shape, int)
        place = self.view(output, tile.shape, offsets)
        place[:] = tile
        self.view(self.written, tile.shape, offsets)[:] += 1

    def cast(self, tile: Array, dtype: npt.DTypeLike, mode: str = "") -> Array:
        if tile.dtype == np.float32 and dtype == np.int32:
            assert mode == self.CastMode.CAST_RINT
            return np.rint(tile).astype(np.int32)
        assert not (tile.dtype == np.int32 and dtype == np.int8), "the unit has no such cast"
        return tile.astype(dtype)

    def add(self, left: Array, right: Array) -> Array:
        assert left.dtype == right.dtype
        return left + right

    def mul(self, left: Array, right: Array) -> Array:
        assert left.dtype == right.dtype == np.float32
        return left * right

    def clip(self, tile: Array, low: float, high: float) -> Array:
        return np.clip(tile, np.float32(low), np.float32(high))


def launched(program: str, geometry: Any, tiling: Any, operands: dict[str, Array], output: str) -> Array:
    """The output of a kernel called with its operands by name; each element must be written once."""
    pypto = StandIn()
    kernel: Callable[..., None] = BUILD[program](pypto, geometry, tiling, {})
    shape, dtype = kernel.__annotations__[output]
    result = np.full(shape, 99, dtype)
    assert list(kernel.__annotations__) == [*operands, output]
    for name, operand in operands.items():
        assert kernel.__annotations__[name] == (operand.shape, operand.dtype)
    kernel(**operands, **{output: result})
    assert (pypto.written == 1).all()
    return result


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(3, 20), st.integers(3, 20)),
    cin=st.sampled_from([32, 64]),
    cout=st.sampled_from([32, 96]),
    conv=st.sampled_from([Conv(3, 1, 1), Conv(3, 2, 0), Conv(1, 1, 0), Conv(2, 3, 1)]),
    rows=st.integers(1, 40),
    seed=st.integers(0, 99),
)
def test_one_convolution_is_exact(
    size: tuple[int, int], cin: int, cout: int, conv: Conv, rows: int, seed: int
) -> None:
    geometry = ConvGeometry(*size, cin, cout, conv)
    random = np.random.default_rng(seed)
    pixels = geometry.out_height * geometry.out_width
    # Powers of two make ties.
    scales = np.where(np.arange(cout) % 2, 2.0**-9, random.uniform(-(2**-8), 2**-8, cout))
    table = vreq8.pack(scales, random.integers(-256, 256, cout))
    fields = vreq8.unpack(table)
    operands: dict[str, Array] = {
        "columns": random.integers(-128, 128, (pixels, geometry.depth)).astype(np.int8),
        "filter": random.integers(-128, 128, (geometry.depth, cout)).astype(np.int8),
        "bias": random.integers(-(2**15), 2**15, (1, cout)).astype(np.int32),
        "scale": fields.scale.reshape(1, -1),
        "offset": fields.offset.astype(np.float32).reshape(1, -1),
    }
    sums = operands["columns"].astype(np.int64) @ operands["filter"].astype(np.int64) + operands["bias"]
    expected = vreq8.requantise(sums.astype(np.int32), table)

    ruled = conv_tiling(geometry, A2A3)
    for tiling in (ruled, Product(rows, ruled.k_step, ruled.k_depth, rows)):
        assert np.array_equal(launched("conv", geometry, tiling, operands, "y"), expected)


@given(m=st.integers(1, 8), k=st.integers(1, 8), n=st.integers(1, 8), seed=st.integers(0, 99))
def test_a_matrix_product_is_exact(m: int, k: int, n: int, seed: int) -> None:
    geometry = GemmGeometry(16 * m, 32 * k, 32 * n)
    random = np.random.default_rng(seed)
    a = random.integers(-128, 128, (geometry.m, geometry.k)).astype(np.int8)
    b = random.integers(-128, 128, (geometry.k, geometry.n)).astype(np.int8)

    c = launched("gemm", geometry, gemm_tiling(geometry, A2A3), {"a": a, "b": b}, "c")

    assert c.dtype == np.int32
    assert np.array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("rows", [1, 7, 16, 40])
def test_every_band_of_rows_is_a_task_of_its_own(rows: int) -> None:
    geometry = ConvGeometry(4, 4, 32, 32, Conv(1, 1, 0))
    pypto = StandIn()
    kernel = BUILD["conv"](pypto, geometry, Product(rows, 32, 32, rows), {})
    kernel(*(np.zeros(shape, dtype) for shape, dtype in kernel.__annotations__.values()))

    assert pypto.tasks == list(range(0, 16, rows))
    assert pypto.cube_tiles == [([rows, rows], [32, 32], [32, 32])]


def test_the_product_s_tiles_are_those_of_the_tiling() -> None:
    geometry = GemmGeometry(16, 64, 1024)
    tiling = gemm_tiling(geometry, A2A3)
    pypto = StandIn()
    kernel = BUILD["gemm"](pypto, geometry, tiling, {})
    kernel(*(np.zeros(shape, dtype) for shape, dtype in kernel.__annotations__.values()))

    rows, columns = tiling.cube_rows, tiling.cube_columns
    assert pypto.cube_tiles == [([rows, rows], [tiling.k_step, tiling.k_depth], [columns, columns])]
