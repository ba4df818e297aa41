"""The operators of the DSL: their parameters, the tile that each returns, and why operands do not fit.

Only what is known when the class is defined is checked here (types, shapes, alignments, memory spaces);
positions and addresses are checked on the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emulator import soc
from emulator.operands import DType
from emulator.program import TensorType, TileType
from emulator.soc import Space


class MisfitError(Exception):
    """An operand does not fit its operator; the reader adds the place."""


@dataclass(frozen=True)
class Operator:
    """One operator: its parameters' kinds by name, in call order, and the rule for its result.

    Parameters are `positional` or `keyword` as they are in PyPTO. Kinds: `tile`, `tensor`;
    `offsets` (two indices) and `index`; `shape` and `ints` (constants); `space`, `dtype`. `destination` names
    the operand that is written in place and returned.
    """

    name: str
    positional: Mapping[str, str]
    keyword: Mapping[str, str]
    infer: Callable[..., TileType | TensorType]
    destination: str = ""


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise MisfitError(problem)


def _aligned(what: str, value: int, unit: int) -> None:
    _require(value > 0 and value % unit == 0, f"{what} is {value}: must be a positive multiple of {unit}")


def _in_space(what: str, tile: TileType, *spaces: Space) -> None:
    names = " or ".join(space.name for space in spaces)
    _require(tile.space in spaces, f"{what} is in {tile.space.name} ({tile.space.value}): must be in {names}")


def _of_dtype(what: str, typed: TileType | TensorType, dtype: DType) -> None:
    _require(typed.dtype is dtype, f"{what} is {typed.dtype.value}: must be {dtype.value}")


def _new_tile(shape: tuple[int, ...], dtype: DType, space: Space) -> TileType:
    _require(len(shape) == 2, f"shape {list(shape)}: a tile has two dimensions")
    tile = TileType((shape[0], shape[1]), dtype, space)
    _require(min(shape) > 0, f"shape {list(shape)}: must be positive")
    if tile.fractal:
        _of_dtype("an L1 tile of several rows", tile, DType.INT8)
        _aligned("rows of an L1 tile", shape[0], soc.FRACTAL_ROWS)
        _aligned("columns of an L1 tile", shape[1], soc.FRACTAL_DEPTH)
    return tile


def _buffer(shape: tuple[int, ...], dtype: DType, space: Space) -> TileType:
    _require(space in (Space.Mat, Space.Vec), f"target_memory is {space.name}: must be Mat or Vec")
    return _new_tile(shape, dtype, space)


def _matrix_of(tensor: TensorType) -> None:
    _require(len(tensor.shape) == 2, f"the tensor has shape {list(tensor.shape)}: must have two dimensions")


def _load(tensor: TensorType, offsets: Any, shape: tuple[int, ...], target_memory: Space) -> TileType:
    _matrix_of(tensor)
    return _buffer(shape, tensor.dtype, target_memory)


def _create(shape: tuple[int, ...], dtype: DType, target_memory: Space) -> TileType:
    return _buffer(shape, dtype, target_memory)


def _gather_row(
    tile: TileType, tensor: TensorType, dst_offset: Any, src_offset: Any, shapes: tuple[int, ...]
) -> TileType:
    _matrix_of(tensor)
    _in_space("the destination", tile, Space.Mat, Space.Vec)
    _require(tile.dtype is tensor.dtype, f"tile is {tile.dtype.value}, tensor {tensor.dtype.value}")
    _require(len(shapes) == 2 and min(shapes) > 0, f"shapes {list(shapes)}: must be two positive sizes")
    if tile.fractal:
        _aligned("gathered columns", shapes[1], soc.FRACTAL_DEPTH)
    return tile


def _operand_tile(shape: tuple[int, ...], tile: TileType, target: Space) -> TileType:
    """Check the L0 alignment of a matmul operand cut from an L1 matrix."""
    _in_space("the source", tile, Space.Mat)
    _of_dtype("the source", tile, DType.INT8)
    _require(target in (Space.Left, Space.Right), f"target_memory is {target.name}: must be Left or Right")
    left = target is Space.Left
    _require(len(shape) == 2, f"shape {list(shape)}: a tile has two dimensions")
    _aligned("M" if left else "K", shape[0], soc.FRACTAL_ROWS if left else soc.FRACTAL_DEPTH)
    _aligned("K" if left else "N", shape[1], soc.FRACTAL_DEPTH if left else soc.FRACTAL_COLUMNS)
    return _new_tile(shape, tile.dtype, target)


def _move(tile: TileType, target_memory: Space) -> TileType:
    _in_space("the source", tile, Space.Mat)
    row = {Space.Bias: (DType.INT32, soc.BIAS_ROW), Space.LeftScale: (DType.UINT64, soc.SCALE_ROW)}
    if target_memory not in row:
        _require(
            target_memory in (Space.Left, Space.Right),
            f"target_memory is {target_memory.name}: must be Left, Right, Bias or LeftScale",
        )
        return _operand_tile(tile.shape, tile, target_memory)
    dtype, unit = row[target_memory]
    _of_dtype("the row", tile, dtype)
    _require(tile.shape[0] == 1, f"the row has shape {list(tile.shape)}: must be [1, C]")
    _aligned("bytes of the row", tile.size, unit)
    return _new_tile(tile.shape, tile.dtype, target_memory)


def _extract(tile: TileType, row: Any, col: Any, shape: tuple[int, ...], target_memory: Space) -> TileType:
    return _operand_tile(shape, tile, target_memory)


def _set_validshape(tile: TileType, valid_rows: Any, valid_cols: Any) -> TileType:
    _in_space("the tile", tile, Space.Acc, Space.Mat)
    return tile


def _fillpad_inplace(tile: TileType) -> TileType:
    _in_space("the tile", tile, Space.Mat)
    _of_dtype("the tile", tile, DType.INT8)
    return tile


def _img2col(
    tile: TileType,
    pos_m: Any,
    pos_k: Any,
    shape: tuple[int, ...],
    image_shape: tuple[int, ...],
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
) -> TileType:
    for name, values, length in (
        ("image_shape", image_shape, 2),
        ("kernel_size", kernel_size, 2),
        ("stride", stride, 2),
        ("padding", padding, 4),
    ):
        _require(len(values) == length, f"{name} {list(values)}: must be {length} numbers")
    height, width = image_shape
    _require(
        0 < height < soc.POSITION_LIMIT and 0 < width < soc.POSITION_LIMIT,
        f"image_shape {list(image_shape)}: sizes are 16-bit",
    )
    _require(
        all(0 <= pad < soc.PADDING_LIMIT for pad in padding), f"padding {list(padding)}: sizes are 8-bit"
    )
    _require(min(*kernel_size, *stride) > 0, "kernel_size and stride must be positive")
    padded = (height + padding[0] + padding[1], width + padding[2] + padding[3])
    _require(
        kernel_size[0] <= padded[0] and kernel_size[1] <= padded[1],
        f"kernel_size {list(kernel_size)}: must be at most the padded image {list(padded)}",
    )
    _aligned("image rows x columns", height * width, soc.FRACTAL_ROWS)
    _require(
        tile.shape[0] == height * width,
        f"the feature map has {tile.shape[0]} rows: image_shape {list(image_shape)} needs {height * width}",
    )
    return _operand_tile(shape, tile, Space.Left)


def _product(a: TileType, b: TileType) -> TileType:
    _in_space("the left operand", a, Space.Left)
    _in_space("the right operand", b, Space.Right)
    _require(a.shape[1] == b.shape[0], f"K differs: left is {list(a.shape)}, right is {list(b.shape)}")
    return _new_tile((a.shape[0], b.shape[1]), DType.INT32, Space.Acc)


def _matmul_bias(a: TileType, b: TileType, bias: TileType) -> TileType:
    result = _product(a, b)
    _in_space("the bias", bias, Space.Bias)
    _require(
        bias.shape[1] == result.shape[1],
        f"the bias has {bias.shape[1]} columns, the product {result.shape[1]}",
    )
    return result


def _matmul_acc(acc: TileType, a: TileType, b: TileType) -> TileType:
    result = _product(a, b)
    _in_space("the accumulator", acc, Space.Acc)
    _require(
        acc.shape == result.shape,
        f"the accumulator is {list(acc.shape)}, the product {list(result.shape)}",
    )
    return result


def _requantised(acc: TileType, scale: TileType) -> None:
    _in_space("the accumulator", acc, Space.Acc)
    _in_space("the scale", scale, Space.LeftScale)
    _require(
        scale.shape[1] == acc.shape[1],
        f"the scale has {scale.shape[1]} columns, the accumulator {acc.shape[1]}",
    )


def _fixpipe_requant(tile: TileType, acc: TileType, scale: TileType, offsets: Any) -> TileType:
    _requantised(acc, scale)
    _in_space("the destination", tile, Space.Mat)
    _of_dtype("the destination", tile, DType.INT8)
    _aligned("columns going back to int8 NZ", acc.shape[1], soc.FRACTAL_DEPTH)
    return tile


def _from_accumulator(acc: TileType, tensor: TensorType) -> None:
    _matrix_of(tensor)
    _require(
        acc.shape[1] <= soc.STORE_COLUMNS,
        f"{acc.shape[1]} columns: a store from L0C takes 1..{soc.STORE_COLUMNS}",
    )


def _fixpipe_store(acc: TileType, scale: TileType, tensor: TensorType, offsets: Any) -> TensorType:
    _requantised(acc, scale)
    _from_accumulator(acc, tensor)
    _of_dtype("the tensor", tensor, DType.INT8)
    return tensor


def _store(tile: TileType, offsets: Any, tensor: TensorType) -> TensorType:
    _in_space("the tile", tile, Space.Vec, Space.Mat, Space.Acc)
    _matrix_of(tensor)
    if tile.space is Space.Acc:
        _from_accumulator(tile, tensor)
    _require(
        tile.dtype is tensor.dtype,
        f"tile is {tile.dtype.value}, tensor {tensor.dtype.value}: a plain store does not convert",
    )
    return tensor


_TARGET = {"target_memory": "space"}
_GATHER = {"dst_offset": "offsets", "src_offset": "offsets", "shapes": "shape"}
_WINDOW = {"image_shape": "ints", "kernel_size": "ints", "stride": "ints", "padding": "ints"}

OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator("load", {"tensor": "tensor", "offsets": "offsets", "shape": "shape"}, _TARGET, _load),
        Operator("store", {"tile": "tile", "offsets": "offsets", "tensor": "tensor"}, {}, _store, "tensor"),
        Operator("move", {"tile": "tile"}, _TARGET, _move),
        Operator("tile.create", {"shape": "shape", "dtype": "dtype"}, _TARGET, _create),
        Operator("tile.gather_row", {"tile": "tile", "tensor": "tensor"}, _GATHER, _gather_row, "tile"),
        Operator(
            "tile.set_validshape",
            {"tile": "tile", "valid_rows": "index", "valid_cols": "index"},
            {},
            _set_validshape,
            "tile",
        ),
        Operator("tile.fillpad_inplace", {"tile": "tile"}, {}, _fillpad_inplace, "tile"),
        Operator(
            "tile.extract",
            {"tile": "tile", "row": "index", "col": "index"},
            {"shape": "shape", **_TARGET},
            _extract,
        ),
        Operator(
            "tile.img2col",
            {"tile": "tile", "pos_m": "index", "pos_k": "index", "shape": "shape"},
            _WINDOW,
            _img2col,
        ),
        Operator("tile.matmul", {"a": "tile", "b": "tile"}, {}, _product),
        Operator("tile.matmul_bias", {"a": "tile", "b": "tile", "bias": "tile"}, {}, _matmul_bias),
        Operator("tile.matmul_acc", {"acc": "tile", "a": "tile", "b": "tile"}, {}, _matmul_acc, "acc"),
        Operator(
            "tile.fixpipe_requant",
            {"tile": "tile", "acc": "tile", "scale": "tile", "offsets": "offsets"},
            {},
            _fixpipe_requant,
            "tile",
        ),
        Operator(
            "tile.fixpipe_store",
            {"acc": "tile", "scale": "tile", "tensor": "tensor", "offsets": "offsets"},
            {},
            _fixpipe_store,
            "tensor",
        ),
    )
}
"""By the name after `pl.`."""
