"""The one table of what each operator is in the vendor's ISA: its pipe, its accesses, its instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from emulator.operands import Binary, DType, Expr, LoopVar, Position, Ref
from emulator.program import Call, TensorType, TileType
from emulator.soc import FRACTAL_DEPTH, FRACTAL_ROWS, Space


class Pipe(Enum):
    """The pipes of a core that run beside each other, by their names in the headers."""

    MTE1 = "PIPE_MTE1"
    MTE2 = "PIPE_MTE2"
    MTE3 = "PIPE_MTE3"
    M = "PIPE_M"
    FIX = "PIPE_FIX"


class LoweringError(Exception):
    """A program that cannot be said in the vendor's instructions; the message begins with file and line."""

    def __init__(self, position: Position, problem: str) -> None:
        super().__init__(f"{position}: {problem}")


class Names(Protocol):
    """What the names of a program are in the text."""

    def tile(self, operand: Any) -> tuple[str, TileType]:
        """The variable of a tile, and its type. The variable with `_at` after it has its address."""
        ...

    def tensor(self, operand: Any) -> tuple[str, TensorType]:
        """The pointer to a tensor, and its type."""
        ...

    def ragged(self, operand: Any) -> bool:
        """Whether a tile may have fewer valid rows than it has rows; its variable then knows how many."""
        ...


Lines = Callable[[Call, Names, str], list[str]]
"""The C++ of a call; the last argument is the variable of the tile that it creates, if it creates one."""


@dataclass(frozen=True)
class Instruction:
    """What a call is: the pipe it runs on, by the space that decides it, what it reads, and its C++.

    `decides` names the operand whose space decides the pipe (empty: the space of what is written). Operators
    that create a tile write it; the others write the operand that `writes` names.
    """

    lines: Lines
    pipes: Mapping[Space, Pipe] | Pipe | None
    reads: tuple[str, ...] = ()
    writes: str = ""
    decides: str = ""

    @property
    def accesses(self) -> tuple[str, ...]:
        """The operands that are tiles or tensors."""
        return (*self.reads, self.writes) if self.writes else self.reads

    def pipe_in(self, space: str) -> Pipe | None:
        """The pipe, given the memory that decides it, by its name; None if nothing runs."""
        return self.pipes[Space(space)] if isinstance(self.pipes, Mapping) else self.pipes


_CTYPES = {
    DType.INT8: "int8_t",
    DType.INT32: "int32_t",
    DType.UINT64: "uint64_t",
    DType.FP32: "float",
}


def ctype(dtype: DType) -> str:
    """The C++ type of an element."""
    return _CTYPES[dtype]


def expression(expr: Expr) -> str:
    """An index in C++. Python rounds quotients down, C++ towards zero."""
    if isinstance(expr, Binary):
        left, right = expression(expr.left), expression(expr.right)
        named = {"//": "floor_quotient", "%": "floor_remainder"}.get(expr.op)
        return f"{named}({left}, {right})" if named else f"({left} {expr.op} {right})"
    return loop_variable(expr.name) if isinstance(expr, LoopVar) else str(expr)


def loop_variable(name: str) -> str:
    """The variable of a loop. Prefixes keep all names apart from the words of C++ and of the headers."""
    return f"i_{name}"


def tile_type(tile: TileType, *, ragged: bool = False) -> str:
    """The C++ type of a tile; of a `ragged` one the number of valid rows is a run-time value."""
    rows, columns = tile.shape
    if tile.fractal:
        return f"Fractals<{rows}, {columns}{f', {columns}, DYNAMIC' * ragged}>"
    if tile.space in (Space.Left, Space.Right, Space.Acc):
        valid = f", DYNAMIC, {columns}" * ragged
        return f"Tile{tile.space.name}<{ctype(tile.dtype)}, {rows}, {columns}{valid}>"
    return _in_rows(tile)


def _in_rows(tile: TileType) -> str:
    place = {Space.LeftScale: "Scaling"}.get(tile.space, tile.space.name)
    return f"Rows<TileType::{place}, {ctype(tile.dtype)}, {tile.shape[0]}, {tile.shape[1]}>"


def _at(tensor: tuple[str, TensorType], offsets: Any, shape: tuple[int, ...], extra: str = "") -> str:
    """A rectangle of a tensor, as the headers describe it."""
    pointer, typed = tensor
    row, column = map(expression, offsets)
    stride = typed.shape[1]
    return (
        f"Matrix<{ctype(typed.dtype)}, {shape[0]}, {shape[1]}, {stride}> "
        f"gm({pointer} + {row} * {stride} + {column}{extra});"
    )


def _leaving(call: Call, names: Names, operand: str) -> str:
    """Where the valid rows of a tile go in GM."""
    tensor, offsets = names.tensor(call.operands["tensor"]), call.operands["offsets"]
    name, tile = names.tile(call.operands[operand])
    if not names.ragged(call.operands[operand]):
        return _at(tensor, offsets, tile.shape)
    (pointer, typed), (row, column) = tensor, map(expression, _shape(offsets))
    stride = typed.shape[1]
    return (
        f"SomeRows<{ctype(typed.dtype)}, {tile.shape[1]}, {stride}> "
        f"gm({pointer} + {row} * {stride} + {column}, {{{name}.GetValidRow()}});"
    )


def _load(call: Call, names: Names, target: str) -> list[str]:
    operands = call.operands
    place = _at(names.tensor(operands["tensor"]), operands["offsets"], _shape(operands["shape"]))
    return [place, f"TLOAD({target}, gm);"]


def _shape(operand: Any) -> tuple[int, ...]:
    return tuple(operand)


def _create(call: Call, names: Names, target: str) -> list[str]:
    return []


def _gather(call: Call, names: Names, target: str) -> list[str]:
    """TLOAD into a tile of the rows' size, laid over one C0 plane after the other."""
    operands = call.operands
    name, tile = names.tile(operands["tile"])
    tensor, shape = names.tensor(operands["tensor"]), _shape(operands["shapes"])
    row, column = map(expression, _shape(operands["dst_offset"]))
    if not tile.fractal:
        if tile.shape[0] > 1 and shape[1] != tile.shape[1]:
            raise LoweringError(
                call.position, f"gathers {shape[1]} of {tile.shape[1]} columns of a tile in rows"
            )
        view = tile_type(TileType((shape[0], shape[1]), tile.dtype, tile.space))
        offset = f"({row} * {tile.shape[1]} + {column}) * {tile.dtype.size}"
        return [
            _at(tensor, operands["src_offset"], shape),
            f"{view} part;",
            f"TASSIGN(part, {name}_at + {offset});",
            "TLOAD(part, gm);",
        ]
    whole = shape[0] // FRACTAL_ROWS * FRACTAL_ROWS
    # Rows that do not fill a fractal are loaded as a tile in rows, which they are within a plane: under rows
    # that it loads into fractals the simulator writes zeros.
    return [
        *_planes(call, names, 0, TileType((whole, FRACTAL_DEPTH), tile.dtype, tile.space)),
        *_planes(call, names, whole, TileType((shape[0] - whole, FRACTAL_DEPTH), tile.dtype, tile.space)),
    ]


def _planes(call: Call, names: Names, first: int, part: TileType) -> list[str]:
    """TLOAD of gathered rows from `first` into a part of their size, laid over each C0 plane."""
    if not part.shape[0]:
        return []
    operands = call.operands
    name, tile = names.tile(operands["tile"])
    tensor = names.tensor(operands["tensor"])
    row, column = map(expression, _shape(operands["dst_offset"]))
    further, below = "", ""
    if first:
        further, below = f" + {first} * {tensor[1].shape[1]}", f" + {first} * {FRACTAL_DEPTH}"
    plane_size = tile.shape[0] * FRACTAL_DEPTH
    offset = f"({column} / {FRACTAL_DEPTH} + plane) * {plane_size} + {row} * {FRACTAL_DEPTH}{below}"
    source = _at(tensor, operands["src_offset"], part.shape, f" + plane * {FRACTAL_DEPTH}{further}")
    return [
        f"for (int plane = 0; plane < {_shape(operands['shapes'])[1] // FRACTAL_DEPTH}; ++plane) {{",
        f"    {source}",
        f"    {_in_rows(part) if part.shape[0] % FRACTAL_ROWS else tile_type(part)} part;",
        f"    TASSIGN(part, {name}_at + {offset});",
        "    TLOAD(part, gm);",
        "}",
    ]


def _move(call: Call, names: Names, target: str) -> list[str]:
    return [f"TMOV({target}, {names.tile(call.operands['tile'])[0]});"]


def _set_validshape(call: Call, names: Names, target: str) -> list[str]:
    tile = call.operands["tile"]
    rows = expression(_index(call.operands["valid_rows"]))
    return [f"{names.tile(tile)[0]}.SetValidRow({rows});"] if names.ragged(tile) else []


def _fillpad(call: Call, names: Names, target: str) -> list[str]:
    """TFILLPAD, of a tile in L1 with itself: zeros in the rows that are not valid, which then are."""
    name, tile = names.tile(call.operands["tile"])
    if not names.ragged(call.operands["tile"]):
        return []
    return [f"TFILLPAD({name}, {name});", f"{name}.SetValidRow({tile.shape[0]});"]


def _extract(call: Call, names: Names, target: str) -> list[str]:
    operands = call.operands
    row, column = expression(_index(operands["row"])), expression(_index(operands["col"]))
    return [f"TEXTRACT({target}, {names.tile(operands['tile'])[0]}, {row}, {column});"]


def _index(operand: Any) -> Expr:
    index: Expr = operand
    return index


def _img2col(call: Call, names: Names, target: str) -> list[str]:
    """SETFMATRIX, SET_IMG2COL_PADDING and TIMG2COL on a convolution's view of the same bytes."""
    operands = call.operands
    name, tile = names.tile(operands["tile"])
    height, width = _shape(operands["image_shape"])
    kernel, stride = (", ".join(map(str, _shape(operands[name]))) for name in ("kernel_size", "stride"))
    top, bottom, left, right = _shape(operands["padding"])
    position = f"{expression(_index(operands['pos_m']))}, {expression(_index(operands['pos_k']))}"
    return [
        f"Image<{tile.shape[1] // FRACTAL_DEPTH}, {height}, {width}> image;",
        f"TASSIGN(image, {name}_at);",
        f"describe(image, {{{kernel}}}, {{{stride}}}, {{{left}, {right}, {top}, {bottom}}});",
        "SETFMATRIX(image);",
        "SET_IMG2COL_PADDING(image);",
        f"TIMG2COL({target}, image, {position});",
    ]


def _matmul(call: Call, names: Names, target: str) -> list[str]:
    a, b = (names.tile(call.operands[name])[0] for name in "ab")
    if "bias" in call.operands:
        return [f"TMATMUL_BIAS({target}, {a}, {b}, {names.tile(call.operands['bias'])[0]});"]
    return [f"TMATMUL({target}, {a}, {b});"]


def _matmul_acc(call: Call, names: Names, target: str) -> list[str]:
    acc, a, b = (names.tile(call.operands[name])[0] for name in ("acc", "a", "b"))
    return [f"TMATMUL_ACC({acc}, {acc}, {a}, {b});"]


def _requant(call: Call, names: Names, target: str) -> list[str]:
    tile, acc, scale = (names.tile(call.operands[name])[0] for name in ("tile", "acc", "scale"))
    row, column = map(expression, _shape(call.operands["offsets"]))
    return [f"TINSERT_FP({tile}, {acc}, {scale}, {row}, {column});"]


def spare(acc: TileType) -> TileType:
    """The tile in UB through which the simulator stores what an accumulator is requantised to.

    Its rows are whole blocks of 32 bytes, as the headers demand.
    """
    rows, columns = acc.shape
    return TileType((rows, -(-columns // FRACTAL_DEPTH) * FRACTAL_DEPTH), DType.INT8, Space.Vec)


def _store_fp(call: Call, names: Names, target: str) -> list[str]:
    """On a card one instruction; the simulator's scales by row, so there it goes through UB."""
    operands = call.operands
    (acc, typed), (scale, _) = names.tile(operands["acc"]), names.tile(operands["scale"])
    (height, width), columns = spare(typed).shape, typed.shape[1]
    valid, rows = (", DYNAMIC", f"({acc}.GetValidRow())") if names.ragged(operands["acc"]) else ("", "")
    return [
        _leaving(call, names, "acc"),
        "#ifndef STORES_AS_A_CARD",
        f"Rows<TileType::Vec, int8_t, {height}, {width}, {columns}{valid}> spare{rows};",
        "TASSIGN(spare, SPARE);",
        f"TINSERT_FP(spare, {acc}, {scale}, 0, 0);",
        "TSTORE(gm, spare);",
        "#else",
        f"TSTORE_FP(gm, {acc}, {scale});",
        "#endif",
    ]


def _store(call: Call, names: Names, target: str) -> list[str]:
    return [_leaving(call, names, "tile"), f"TSTORE(gm, {names.tile(call.operands['tile'])[0]});"]


_MOVES = {Space.Left: Pipe.MTE1, Space.Right: Pipe.MTE1, Space.Bias: Pipe.MTE1, Space.LeftScale: Pipe.FIX}
_STORES = {Space.Acc: Pipe.FIX, Space.Mat: Pipe.MTE3, Space.Vec: Pipe.MTE3}

INSTRUCTIONS: Mapping[str, Instruction] = {
    "load": Instruction(_load, Pipe.MTE2, ("tensor",)),
    "store": Instruction(_store, _STORES, ("tile",), "tensor", "tile"),
    "move": Instruction(_move, _MOVES, ("tile",)),
    "tile.create": Instruction(_create, None),
    "tile.gather_row": Instruction(_gather, Pipe.MTE2, ("tensor",), "tile"),
    "tile.set_validshape": Instruction(_set_validshape, None, (), "tile"),
    "tile.fillpad_inplace": Instruction(_fillpad, Pipe.MTE2, (), "tile"),
    "tile.extract": Instruction(_extract, Pipe.MTE1, ("tile",)),
    "tile.img2col": Instruction(_img2col, Pipe.MTE1, ("tile",)),
    "tile.matmul": Instruction(_matmul, Pipe.M, ("a", "b")),
    "tile.matmul_bias": Instruction(_matmul, Pipe.M, ("a", "b", "bias")),
    "tile.matmul_acc": Instruction(_matmul_acc, Pipe.M, ("acc", "a", "b"), "acc"),
    "tile.fixpipe_requant": Instruction(_requant, Pipe.FIX, ("acc", "scale"), "tile"),
    "tile.fixpipe_store": Instruction(_store_fp, Pipe.FIX, ("acc", "scale"), "tensor"),
}
"""By the operator's name in the language."""


def reference(operand: Any) -> str:
    """The name that an operand refers to."""
    assert isinstance(operand, Ref)
    return operand.name
