from __future__ import annotations

import numpy as np
import pytest

from emulator.elements import Numbers
from emulator.memory import Resident
from emulator.operands import DType, Position
from emulator.program import TileType
from emulator.soc import Space
from emulator.tile import Place, Tile
from emulator.vreq8 import Reading


def resident(rows: int, columns: int, dtype: DType, space: Space, address: int = 96) -> Resident:
    here = Position("kernel.py", 1)
    return Resident("t", TileType((rows, columns), dtype, space), "pl.load", here, 0, 0, here, address)


def nz_bytes(matrix: np.ndarray) -> bytes:
    """The bytes of an int8 matrix in fractals [C/32][R/16][16][32], element by element."""
    rows, columns = matrix.shape
    out = bytearray(rows * columns)
    for row in range(rows):
        for column in range(columns):
            fractal = (column // 32) * (rows // 16) + row // 16
            out[fractal * 512 + row % 16 * 32 + column % 32] = int(matrix[row, column]) & 0xFF
    return bytes(out)


@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (48, 32), (16, 96), (64, 64)])
def test_an_l1_tile_lies_in_nz_fractals(rows: int, columns: int) -> None:
    matrix = np.random.default_rng(rows + columns).integers(-128, 128, (rows, columns)).astype(np.int8)
    memory = np.zeros(8192, np.uint8)
    placed = resident(rows, columns, DType.INT8, Space.Mat)
    tile = Tile(Place(placed, Numbers(Reading()).view(placed, memory)), full=False)
    for row in range(0, rows, 16):
        for column in range(0, columns, 32):
            tile.put(row, column, matrix[row : row + 16, column : column + 32])
    assert memory[96 : 96 + rows * columns].tobytes() == nz_bytes(matrix)
    assert not memory[:96].any()
    assert not memory[96 + rows * columns :].any()
    np.testing.assert_array_equal(tile.get(0, 0, (rows, columns)), matrix)
    np.testing.assert_array_equal(tile.get(8, 16, (8, columns - 16)), matrix[8:16, 16:])


@pytest.mark.parametrize(
    ("rows", "dtype", "space"),
    [(1, DType.UINT64, Space.Mat), (3, DType.INT32, Space.Vec), (16, DType.INT8, Space.Left)],
)
def test_other_tiles_lie_in_rows(rows: int, dtype: DType, space: Space) -> None:
    matrix = np.arange(rows * 32).reshape(rows, 32).astype(dtype.numpy)
    memory = np.zeros(8192, np.uint8)
    placed = resident(rows, 32, dtype, space)
    tile = Tile(Place(placed, Numbers(Reading()).view(placed, memory)), full=False)
    tile.put(0, 0, matrix)
    assert memory[96 : placed.end].tobytes() == matrix.tobytes()
    np.testing.assert_array_equal(tile.get(0, 8, (rows, 16)), matrix[:, 8:24])


def test_what_is_written_is_known_to_the_element() -> None:
    tile = Tile(Place(resident(32, 64, DType.INT8, Space.Mat)), full=False)
    tile.mark(0, 0, (32, 32))
    assert tile.holds(0, 0, (32, 32))
    assert not tile.holds(0, 0, (16, 33))
    tile.mark(0, 32, (31, 32))
    assert not tile.holds(16, 32, (16, 32))
    assert tile.written is not None
    tile.mark(31, 32, (1, 32))
    assert tile.written is None
    assert tile.holds(0, 0, (32, 64))
