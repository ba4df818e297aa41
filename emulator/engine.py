"""Walks a typed program on a soc: it checks and counts everything, and in a run it also computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from emulator import vreq8
from emulator.counts import Counts, Estimate, estimate, pair
from emulator.elements import PADDING, Elements, Numbers
from emulator.errors import AccessError
from emulator.image import tap_rows, window_of
from emulator.memory import MemoryMap, place
from emulator.program import (
    Bind,
    Call,
    For,
    Function,
    If,
    Invoke,
    Operand,
    Program,
    Ref,
    Statement,
    TileType,
    evaluate,
    valued,
)
from emulator.soc import FRACTAL_COLUMNS, FRACTAL_DEPTH, FRACTAL_ROWS, POSITION_LIMIT, Soc, Space
from emulator.tile import Array, Tensor, Tile


@dataclass(frozen=True)
class Report:
    """The result of a walk: a memory map for each InCore function, counts, estimate (None: unavailable)."""

    program: Program
    soc: Soc
    memory: Mapping[str, MemoryMap]
    counts: Counts
    estimate: Estimate | None


def compile_program(program: Program, soc: Soc) -> Report:
    """Walk over shapes, index ranges and addresses only.

    Raises:
        CapacityError: a memory is over its capacity.
        AccessError: a read or write is outside its tile, tensor or image; a read is of bytes never written;
            an output is left partly unwritten.
    """
    tensors = [
        Tensor(param.name, param.type, None, _mask(param.type.shape, param.type.out))
        for param in program.main.params
    ]
    return _walk(program, soc, tensors)


def run_program(program: Program, soc: Soc, arrays: Mapping[str, Array], variant: str = "vreq8") -> Report:
    """Walk and compute. Outputs are written in place, as a device would.

    Args:
        program: the typed program.
        soc: the soc whose capacities apply.
        arrays: one C-contiguous array for each parameter of `main`, by name, of its shape and dtype.
        variant: how requantisation reads tables and rounds, a key of `emulator.vreq8.READINGS`.

    Raises:
        ValueError: an array is missing or does not fit its parameter, or the variant is unknown.
        CapacityError, AccessError: as `compile_program`.
    """
    if variant not in vreq8.READINGS:
        raise ValueError(f"unknown variant {variant!r}: known are {', '.join(vreq8.READINGS)}")
    for param in program.main.params:
        array = arrays.get(param.name)
        if array is None:
            raise ValueError(f"no array for parameter {param.name}")
        if array.shape != param.type.shape or array.dtype != param.type.dtype.numpy:
            wanted = f"{list(param.type.shape)} {param.type.dtype.value}"
            raise ValueError(f"{param.name} is {list(array.shape)} {array.dtype}: must be {wanted}")
    return walk_program(program, soc, arrays, Numbers(vreq8.READINGS[variant]))


def walk_program(program: Program, soc: Soc, arrays: Mapping[str, Array], elements: Elements) -> Report:
    """Walk with elements of any kind. Outputs are written in place.

    Args:
        program: the typed program.
        soc: the soc whose capacities apply.
        arrays: one array of elements for each parameter of `main`, by name, of its shape.
        elements: what an element is.

    Raises:
        CapacityError, AccessError: as `compile_program`.
    """
    tensors = [
        Tensor(param.name, param.type, arrays[param.name], _mask(param.type.shape, param.type.out))
        for param in program.main.params
    ]
    return _walk(program, soc, tensors, elements)


def _mask(shape: tuple[int, ...], out: bool) -> npt.NDArray[np.bool_] | None:
    return np.zeros(shape, bool) if out else None


def _walk(program: Program, soc: Soc, tensors: Sequence[Tensor], elements: Elements | None = None) -> Report:
    counts = Counts()
    memory = {
        name: place(function, soc.capacity)
        for name, function in program.functions.items()
        if not function.orchestration
    }
    held = {tensor.name: tensor for tensor in tensors}
    for statement in program.main.body:
        if isinstance(statement, Invoke):
            function = program.functions[statement.function]
            arguments = [held[name] for name in statement.arguments]
            _Core(function, memory[function.name], soc, counts, elements).run(arguments)
            outputs = [
                tensor for param, tensor in zip(function.params, arguments, strict=True) if param.type.out
            ]
            held.update(zip(statement.targets, outputs, strict=True))
    for tensor in tensors:
        strict = elements is None or elements.strict
        if strict and tensor.written is not None and not tensor.written.all():
            missing = int(tensor.written.size - tensor.written.sum())
            first = [int(index) for index in np.argwhere(~tensor.written)[0]]
            raise AccessError(
                program.main.position,
                f"output {tensor.name}",
                f"{missing} of {tensor.written.size} elements never written, the first at {first}",
            )
    return Report(program, soc, memory, counts, estimate(counts, soc))


def _flat(statements: Sequence[Statement], loops: dict[str, int]) -> Iterator[Statement]:
    """The statements as they run: loops unrolled, branches decided; `loops` holds the current indices."""
    for statement in statements:
        if isinstance(statement, For):
            for index in range(evaluate(statement.start, loops), evaluate(statement.stop, loops)):
                loops[statement.variable] = index
                yield from _flat(statement.body, loops)
            loops.pop(statement.variable, None)
        elif isinstance(statement, If):
            yield from _flat(
                statement.then if evaluate(statement.condition, loops) else statement.orelse, loops
            )
        else:
            yield statement


class _Core:
    """One InCore function on one core: its memories, the tiles alive in them, the loop it is in."""

    def __init__(
        self, function: Function, memory: MemoryMap, soc: Soc, counts: Counts, elements: Elements | None
    ) -> None:
        self._function = function
        self._memory = memory
        self._counts = counts
        self._elements = elements
        self._cells = (
            {space: elements.memory(size) for space, size in soc.capacity.items()} if elements else {}
        )
        self._names: dict[str, Tile | Tensor] = {}
        self._loops: dict[str, int] = {}
        self._lives: dict[int, Tile] = {}
        self._call: Call

    def run(self, arguments: Sequence[Tensor]) -> None:
        self._names.update(zip((param.name for param in self._function.params), arguments, strict=True))
        for statement in _flat(self._function.body, self._loops):
            if isinstance(statement, Call):
                self._call = statement
                if self._elements is not None:
                    self._elements.reach(statement, self._loops, self._names)
                result = _STEPS[statement.operator](self, statement.operands)
                self._names[statement.target] = result
                if statement.spoil is not None and self._elements is not None:
                    values = {name: self._value(operand) for name, operand in statement.operands.items()}
                    self._elements.spoil(statement.spoil, values, result)
                self._counts.operations[statement.operator] += 1
            elif isinstance(statement, Bind):
                self._names[statement.target] = self._names[statement.source]

    # -- operands

    def _refuse(self, problem: str) -> NoReturn:
        raise AccessError(self._call.position, f"pl.{self._call.operator}", problem)

    def _unwritten(self, problem: str) -> None:
        """Refuse what was never written, unless a walk is to go on."""
        if self._elements is None or self._elements.strict:
            self._refuse(problem)

    def _held(self, ref: Any) -> Any:
        assert isinstance(ref, Ref)
        if ref.name not in self._names:
            self._refuse(f"{ref.name} is read before anything was assigned to it")
        held = self._names[ref.name]
        if isinstance(held, Tile) and held.ended:
            tile = held.resident
            self._refuse(
                f"{ref.name} is the tile that {tile.position} made in an earlier round: "
                f"the present round's lies at the same address, {tile.address} of {tile.type.space.name}"
            )
        return held

    def _number(self, expr: Any) -> int:
        return evaluate(expr, self._loops)

    def _numbers(self, exprs: Any) -> tuple[int, int]:
        row, column = exprs
        return evaluate(row, self._loops), evaluate(column, self._loops)

    def _value(self, operand: Operand) -> Any:
        return self._held(operand) if isinstance(operand, Ref) else valued(operand, self._loops)

    def _new(self, *, full: bool = True) -> Tile:
        earlier = self._lives.get(id(self._call))
        if earlier is None:
            resident = self._memory.at(self._call)
            data = None
            if self._elements is not None:
                data = self._elements.view(resident, self._cells[resident.type.space])
            tile = Tile(resident, data, full=full)
        else:
            earlier.ended = True
            tile = Tile(earlier.resident, earlier.data, full=full)
        self._lives[id(self._call)] = tile
        return tile

    def _inside(
        self, what: str, offset: tuple[int, int], shape: tuple[int, ...], bounds: tuple[int, ...]
    ) -> None:
        for start, size, bound in zip(offset, shape, bounds, strict=True):
            if start < 0 or start + size > bound:
                self._refuse(f"{list(shape)} at {list(offset)} is outside {what} of shape {list(bounds)}")

    def _aligned(self, what: str, value: int, unit: int) -> None:
        if value % unit:
            self._refuse(f"{what} is {value}: must be a multiple of {unit}")

    def _nz_position(self, tile: Tile, offset: tuple[int, int]) -> None:
        """Refuse a position in an L1 tile of fractals that is not a fractal's."""
        if tile.resident.type.fractal:
            self._aligned("row position in the L1 tile", offset[0], FRACTAL_ROWS)
            self._aligned("column position in the L1 tile", offset[1], FRACTAL_DEPTH)

    # -- memories

    def _source(self, tile: Tile, offset: tuple[int, int], shape: tuple[int, int]) -> None:
        name = tile.resident.name
        self._inside(f"tile {name}", offset, shape, tile.resident.type.shape)
        if not tile.holds(*offset, shape):
            self._unwritten(f"{list(shape)} at {list(offset)} of tile {name} holds bytes never written")

    def _read_gm(self, tensor: Tensor, offset: tuple[int, int], shape: tuple[int, int]) -> Array | None:
        self._inside(f"tensor {tensor.name}", offset, shape, tensor.type.shape)
        where = tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))
        if tensor.written is not None and not tensor.written[where].all():
            self._unwritten(
                f"{list(shape)} at {list(offset)} of output {tensor.name} is read before it is written"
            )
        self._counts.read[tensor.name] += shape[0] * shape[1] * tensor.type.dtype.size
        return None if tensor.data is None else tensor.data[where]

    def _write_gm(self, tensor: Tensor, offset: tuple[int, int], shape: tuple[int, int]) -> Array | None:
        """Record the write; when computing, return the rectangle to write to."""
        self._inside(f"tensor {tensor.name}", offset, shape, tensor.type.shape)
        assert tensor.written is not None  # the reader refuses writes to inputs
        where = tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))
        tensor.written[where] = True
        self._counts.written[tensor.name] += shape[0] * shape[1] * tensor.type.dtype.size
        return None if tensor.data is None else tensor.data[where]

    def _move(self, source: Space | str, target: Space | str, size: int) -> None:
        self._counts.moved[pair(source, target)] += size

    def _fill(self, tile: Tile, offset: tuple[int, int], shape: tuple[int, int], block: Array | None) -> Tile:
        """Bring a GM block into a tile at an offset."""
        self._inside(f"tile {tile.resident.name}", offset, shape, tile.resident.type.shape)
        self._nz_position(tile, offset)
        self._move("GM", tile.resident.type.space, shape[0] * shape[1] * tile.resident.type.dtype.size)
        tile.mark(*offset, shape)
        if block is not None:
            tile.put(*offset, block)
        return tile

    # -- operators

    def _load(self, operands: Mapping[str, Any]) -> Tile:
        offset, shape = self._numbers(operands["offsets"]), operands["shape"]
        block = self._read_gm(self._held(operands["tensor"]), offset, shape)
        return self._fill(self._new(full=False), (0, 0), shape, block)

    def _create(self, operands: Mapping[str, Any]) -> Tile:
        return self._new(full=False)

    def _gather_row(self, operands: Mapping[str, Any]) -> Tile:
        shape = operands["shapes"]
        block = self._read_gm(self._held(operands["tensor"]), self._numbers(operands["src_offset"]), shape)
        return self._fill(self._held(operands["tile"]), self._numbers(operands["dst_offset"]), shape, block)

    def _set_validshape(self, operands: Mapping[str, Any]) -> Tile:
        tile: Tile = self._held(operands["tile"])
        rows, columns = tile.resident.type.shape
        valid = self._number(operands["valid_rows"])
        if not 0 < valid <= rows or self._number(operands["valid_cols"]) != columns:
            asked = [valid, self._number(operands["valid_cols"])]
            self._refuse(f"{asked} of a tile of shape {[rows, columns]}: must be 1..{rows} rows, all columns")
        tile.valid = valid
        return tile

    def _fillpad_inplace(self, operands: Mapping[str, Any]) -> Tile:
        tile: Tile = self._held(operands["tile"])
        rows, columns = tile.resident.type.shape
        rest = (rows - tile.valid, columns)
        if rest[0]:
            tile.mark(tile.valid, 0, rest)
            if tile.data is not None:
                tile.put(tile.valid, 0, np.full(rest, PADDING, tile.data.dtype))
        tile.valid = rows
        return tile

    def _cut(self, tile: Tile, offset: tuple[int, int], shape: tuple[int, int]) -> Tile:
        """Copy part of an L1 tile into a new tile of another memory."""
        self._source(tile, offset, shape)
        result = self._new()
        self._move(tile.resident.type.space, result.resident.type.space, result.resident.type.size)
        if result.data is not None:
            result.data[:] = tile.get(*offset, shape)
        return result

    def _move_tile(self, operands: Mapping[str, Any]) -> Tile:
        tile = self._held(operands["tile"])
        return self._cut(tile, (0, 0), tile.resident.type.shape)

    def _extract(self, operands: Mapping[str, Any]) -> Tile:
        offset = (self._number(operands["row"]), self._number(operands["col"]))
        left = operands["target_memory"] is Space.Left
        self._aligned("row position", offset[0], FRACTAL_ROWS if left else FRACTAL_DEPTH)
        self._aligned("column position", offset[1], FRACTAL_DEPTH if left else FRACTAL_COLUMNS)
        return self._cut(self._held(operands["tile"]), offset, operands["shape"])

    def _img2col(self, operands: Mapping[str, Any]) -> Tile:
        image: Tile = self._held(operands["tile"])
        pos_m, pos_k = self._number(operands["pos_m"]), self._number(operands["pos_k"])
        window = window_of(
            operands["image_shape"], operands["kernel_size"], operands["stride"], operands["padding"]
        )
        count, depth = operands["shape"]
        rows, columns = window.out
        taps = window.kernel[0] * window.kernel[1]
        self._aligned("pos_k", pos_k, FRACTAL_DEPTH)
        bounds = (rows * columns, taps * image.resident.type.shape[1])
        self._inside("the unfolded image", (pos_m, pos_k), (count, depth), bounds)
        if pos_m >= POSITION_LIMIT or pos_k >= POSITION_LIMIT:
            self._refuse(f"position [{pos_m}, {pos_k}]: positions are 16-bit")
        result = self._new()
        self._move(Space.Mat, Space.Left, count * depth)
        if image.written is None and result.data is None:
            return result
        for group in range(depth // FRACTAL_DEPTH):
            plane, tap = divmod(pos_k // FRACTAL_DEPTH + group, taps)
            index, outside = tap_rows(window, pos_m, count, divmod(tap, window.kernel[1]))
            if image.written is not None:
                read = index if outside is None else index[~outside]
                if not image.written[read, plane * FRACTAL_DEPTH].all():
                    self._unwritten(
                        f"window tap {divmod(tap, window.kernel[1])} of C1 plane {plane} reads bytes of "
                        f"{image.resident.name} never written"
                    )
            if result.data is not None:
                assert image.data is not None
                unfolded = image.data[plane].take(index, axis=0)
                if outside is not None:
                    unfolded[outside] = PADDING
                result.data[:, group * FRACTAL_DEPTH : (group + 1) * FRACTAL_DEPTH] = unfolded
        return result

    def _operands(self, operands: Mapping[str, Any]) -> tuple[Tile, Tile]:
        """The operands of a product, which is counted."""
        a, b = self._held(operands["a"]), self._held(operands["b"])
        (m, k), n = a.resident.type.shape, b.resident.type.shape[1]
        self._counts.matmul(m, k, n)
        return a, b

    def _matmul(self, operands: Mapping[str, Any]) -> Tile:
        a, b = self._operands(operands)
        bias = self._held(operands["bias"]) if "bias" in operands else None
        result = self._new()
        if self._elements is not None:
            self._elements.multiply(result, a, b, bias)
        return result

    def _matmul_acc(self, operands: Mapping[str, Any]) -> Tile:
        a, b = self._operands(operands)
        acc: Tile = self._held(operands["acc"])
        if self._elements is not None:
            self._elements.accumulate(acc, a, b)
        return acc

    def _leaving(self, operand: Any) -> tuple[int, int]:
        """The rows and columns of an accumulator that leave it: those that are valid."""
        acc: Tile = self._held(operand)
        return acc.valid, acc.resident.type.shape[1]

    def _requantised(self, operands: Mapping[str, Any]) -> Array | None:
        acc, scale = self._held(operands["acc"]), self._held(operands["scale"])
        if self._elements is None:
            return None
        try:
            return self._elements.requantise(acc, scale)
        except vreq8.ScaleError as error:
            self._refuse(str(error))

    def _fixpipe_requant(self, operands: Mapping[str, Any]) -> Tile:
        tile: Tile = self._held(operands["tile"])
        shape, offset = self._leaving(operands["acc"]), self._numbers(operands["offsets"])
        self._inside(f"tile {tile.resident.name}", offset, shape, tile.resident.type.shape)
        self._nz_position(tile, offset)
        self._move(Space.Acc, Space.Mat, shape[0] * shape[1])
        tile.mark(*offset, shape)
        block = self._requantised(operands)
        if block is not None:
            tile.put(*offset, block)
        return tile

    def _fixpipe_store(self, operands: Mapping[str, Any]) -> Tensor:
        tensor: Tensor = self._held(operands["tensor"])
        shape = self._leaving(operands["acc"])
        target = self._write_gm(tensor, self._numbers(operands["offsets"]), shape)
        self._move(Space.Acc, "GM", shape[0] * shape[1])
        if target is not None:
            target[:] = self._requantised(operands)
        return tensor

    def _store(self, operands: Mapping[str, Any]) -> Tensor:
        tensor: Tensor = self._held(operands["tensor"])
        tile: Tile = self._held(operands["tile"])
        typed: TileType = tile.resident.type
        shape = (tile.valid, typed.shape[1])
        self._source(tile, (0, 0), shape)
        target = self._write_gm(tensor, self._numbers(operands["offsets"]), shape)
        self._move(typed.space, "GM", shape[0] * shape[1] * typed.dtype.size)
        if target is not None:
            if self._elements is not None and typed.space is Space.Acc:
                self._elements.settle(tile)
            target[:] = tile.get(0, 0, shape)
        return tensor


_STEPS: Mapping[str, Callable[[_Core, Mapping[str, Any]], Tile | Tensor]] = {
    "load": _Core._load,
    "store": _Core._store,
    "move": _Core._move_tile,
    "tile.create": _Core._create,
    "tile.gather_row": _Core._gather_row,
    "tile.set_validshape": _Core._set_validshape,
    "tile.fillpad_inplace": _Core._fillpad_inplace,
    "tile.extract": _Core._extract,
    "tile.img2col": _Core._img2col,
    "tile.matmul": _Core._matmul,
    "tile.matmul_bias": _Core._matmul,
    "tile.matmul_acc": _Core._matmul_acc,
    "tile.fixpipe_requant": _Core._fixpipe_requant,
    "tile.fixpipe_store": _Core._fixpipe_store,
}
