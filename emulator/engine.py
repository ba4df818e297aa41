"""Walks a typed program on a soc: it checks and counts everything, and finds out what there is to compute.

Nothing that is found depends on data. So one walk serves all runs of a program: its actions are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from emulator import vreq8
from emulator.actions import Accumulate, Action, Cut, Fill, Multiply, Pad, Requantise, Spoiled, Store, Unfold
from emulator.counts import Counts, Estimate, estimate, pair
from emulator.elements import Elements, Memories, Numbers
from emulator.errors import AccessError
from emulator.image import Window, groups, window_in
from emulator.memory import MemoryMap, place
from emulator.operands import Operand, Ref, evaluate, valued
from emulator.program import Bind, Block, Call, For, Function, If, Invoke, Program, TileType
from emulator.schedule import Schedule
from emulator.soc import FRACTAL_COLUMNS, FRACTAL_DEPTH, FRACTAL_ROWS, POSITION_LIMIT, Soc, Space
from emulator.tile import Array, Tensor, Tile

_KEPT = 4
"""Walked programs that are kept."""


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
    return walked(program, soc).report


def run_program(program: Program, soc: Soc, arrays: Mapping[str, Array], variant: str = "vreq8") -> Report:
    """Walk and compute. Outputs are written in place, as a device would.

    The walk is that of an earlier run of the same program, or of its compilation, if it is still kept.

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
    numbers = Numbers(vreq8.READINGS[variant])
    if not program.spoiled:
        try:
            walked(program, soc)
        except AccessError:  # what comes before it is computed, and may be refused for its data
            numbers.by_steps = True
    return walk_program(program, soc, arrays, numbers)


def walk_program(program: Program, soc: Soc, arrays: Mapping[str, Array], elements: Elements) -> Report:
    """Walk with elements of any kind. Outputs are written in place.

    What there is to do is done after the walk, or step by step if the elements ask for it, or if faults are
    injected: they may read and change what no operator does.

    Args:
        program: the typed program.
        soc: the soc whose capacities apply.
        arrays: one array of elements for each parameter of `main`, by name, of its shape.
        elements: what an element is.

    Raises:
        CapacityError, AccessError: as `compile_program`.
    """
    if elements.by_steps or program.spoiled:
        return _Walk(program, soc, arrays, elements, lambda action: action.do(elements)).run()
    found = walked(program, soc)
    found.run(arrays, elements)
    return found.report


@dataclass(frozen=True)
class Walked:
    """A program that was walked without elements: its actions, and where they find elements in a run."""

    report: Report
    tensors: Sequence[Tensor]
    memories: Sequence[Memories]
    schedule: Schedule

    def run(self, arrays: Mapping[str, Array], elements: Elements) -> None:
        """Compute. Outputs are written in place; nothing of the run is kept."""
        try:
            for tensor in self.tensors:
                tensor.data = arrays[tensor.name]
            for memories in self.memories:
                memories.hold(elements)
            self.schedule.do(elements)
        finally:
            for tensor in self.tensors:
                tensor.data = None
            for memories in self.memories:
                memories.hold(None)


_walks: dict[tuple[int, int], Walked] = {}
"""The last walks, by the identities of program and soc: both live as long as their walk, which has them."""


def walked(program: Program, soc: Soc) -> Walked:
    """The walk without data, which may be an earlier one. Raises as `compile_program`."""
    key = id(program), id(soc)
    if key not in _walks:
        schedule = Schedule()
        walk = _Walk(program, soc, {}, None, schedule.add)
        report = walk.run()
        keep(Walked(report, walk.tensors, walk.memories, schedule))
    return _walks[key]


def keep(found: Walked) -> None:
    """Let a walk serve what is done with its program and soc from now on, as the last ones do."""
    if len(_walks) == _KEPT:
        del _walks[next(iter(_walks))]
    _walks[id(found.report.program), id(found.report.soc)] = found


Perform = Callable[[Action], None]
"""What becomes of an action that the walk comes to: it is done, or kept."""


class _Walk:
    """A walk through the functions of a program; `elements` is None if nothing is computed on the way."""

    def __init__(
        self,
        program: Program,
        soc: Soc,
        arrays: Mapping[str, Array],
        elements: Elements | None,
        perform: Perform,
    ) -> None:
        self.program = program
        self.soc = soc
        self.elements = elements
        self.perform = perform
        self.counts = Counts()
        self.memories: list[Memories] = []
        self.tensors = [
            Tensor(
                param.name,
                param.type,
                arrays.get(param.name),
                np.zeros(param.type.shape, bool) if param.type.out else None,
            )
            for param in program.main.params
        ]

    @property
    def strict(self) -> bool:
        """Whether what was never written is refused."""
        return self.elements is None or self.elements.strict

    def run(self) -> Report:
        """Walk. Raises as `compile_program`."""
        program = self.program
        memory = {
            name: place(function, self.soc.capacity)
            for name, function in program.functions.items()
            if not function.orchestration
        }
        held = {tensor.name: tensor for tensor in self.tensors}
        for statement in program.main.body:
            if isinstance(statement, Invoke):
                function = program.functions[statement.function]
                arguments = [held[name] for name in statement.arguments]
                _Core(self, function, memory[function.name]).run(arguments)
                outputs = [
                    tensor for param, tensor in zip(function.params, arguments, strict=True) if param.type.out
                ]
                held.update(zip(statement.targets, outputs, strict=True))
        for tensor in self.tensors:
            if self.strict and tensor.written is not None and not tensor.written.all():
                missing = int(tensor.written.size - tensor.written.sum())
                first = [int(index) for index in np.argwhere(~tensor.written)[0]]
                raise AccessError(
                    program.main.position,
                    f"output {tensor.name}",
                    f"{missing} of {tensor.written.size} elements never written, the first at {first}",
                )
        return Report(program, self.soc, memory, self.counts, estimate(self.counts, self.soc))


class _Core:
    """One InCore function on one core: its memories, the tiles alive in them, the loop it is in."""

    def __init__(self, walk: _Walk, function: Function, memory: MemoryMap) -> None:
        self._walk = walk
        self._function = function
        self._memory = memory
        self._memories = Memories(walk.soc.capacity)
        self._memories.hold(walk.elements)
        walk.memories.append(self._memories)
        self._counts = walk.counts
        self._perform = walk.perform
        self._names: dict[str, Tile | Tensor] = {}
        self._loops: dict[str, int] = {}
        self._lives: dict[int, Tile] = {}
        self._call: Call

    def run(self, arguments: Sequence[Tensor]) -> None:
        self._names.update(zip((param.name for param in self._function.params), arguments, strict=True))
        self._block(self._function.body)

    def _block(self, block: Block) -> None:
        """Walk statements as they run: every round of a loop, and the branches that are taken."""
        for statement in block:
            if isinstance(statement, Call):
                self._operator(statement)
            elif isinstance(statement, For):
                for index in range(self._number(statement.start), self._number(statement.stop)):
                    self._loops[statement.variable] = index
                    self._block(statement.body)
                self._loops.pop(statement.variable, None)
            elif isinstance(statement, If):
                self._block(statement.then if self._number(statement.condition) else statement.orelse)
            elif isinstance(statement, Bind):
                self._names[statement.target] = self._names[statement.source]

    def _operator(self, call: Call) -> None:
        self._call = call
        elements = self._walk.elements
        if elements is not None:
            elements.reach(call, self._loops, self._names)
        result = self._names[call.target] = _STEPS[call.operator](self, call.operands)
        if call.spoil is not None and elements is not None:
            values = {name: self._value(operand) for name, operand in call.operands.items()}
            self._perform(Spoiled(call.spoil, values, result))
        self._counts.operations[call.operator] += 1

    # -- operands

    def _refuse(self, problem: str) -> NoReturn:
        raise AccessError(self._call.position, f"pl.{self._call.operator}", problem)

    def _unwritten(self, problem: str) -> None:
        """Refuse what was never written, unless a walk is to go on."""
        if self._walk.strict:
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
        return expr if type(expr) is int else evaluate(expr, self._loops)

    def _numbers(self, exprs: Any) -> tuple[int, int]:
        row, column = exprs
        return self._number(row), self._number(column)

    def _value(self, operand: Operand) -> Any:
        return self._held(operand) if isinstance(operand, Ref) else valued(operand, self._loops)

    def _new(self, *, full: bool = True) -> Tile:
        earlier = self._lives.get(id(self._call))
        if earlier is None:
            where = self._memories.place(self._memory.at(self._call))
        else:
            where, earlier.ended = earlier.place, True
        tile = Tile(where, full=full)
        self._lives[id(self._call)] = tile
        return tile

    def _inside(
        self, what: str, offset: tuple[int, int], shape: tuple[int, ...], bounds: tuple[int, ...]
    ) -> None:
        (row, column), (rows, columns), (height, width) = offset, shape, bounds
        if row < 0 or row + rows > height or column < 0 or column + columns > width:
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

    def _read_gm(self, tensor: Tensor, offset: tuple[int, int], shape: tuple[int, int]) -> None:
        self._inside(f"tensor {tensor.name}", offset, shape, tensor.type.shape)
        where = tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))
        if tensor.written is not None and not tensor.written[where].all():
            self._unwritten(
                f"{list(shape)} at {list(offset)} of output {tensor.name} is read before it is written"
            )
        self._counts.read[tensor.name] += shape[0] * shape[1] * tensor.type.dtype.size

    def _write_gm(self, tensor: Tensor, offset: tuple[int, int], shape: tuple[int, int]) -> None:
        self._inside(f"tensor {tensor.name}", offset, shape, tensor.type.shape)
        assert tensor.written is not None  # the reader refuses writes to inputs
        where = tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))
        tensor.written[where] = True
        self._counts.written[tensor.name] += shape[0] * shape[1] * tensor.type.dtype.size

    def _move(self, source: Space | str, target: Space | str, size: int) -> None:
        self._counts.moved[pair(source, target)] += size

    def _fill(
        self,
        tile: Tile,
        target: tuple[int, int],
        tensor: Tensor,
        source: tuple[int, int],
        shape: tuple[int, int],
    ) -> Tile:
        """Bring a GM block into a tile at an offset."""
        self._inside(f"tile {tile.resident.name}", target, shape, tile.resident.type.shape)
        self._nz_position(tile, target)
        self._move("GM", tile.resident.type.space, shape[0] * shape[1] * tile.resident.type.dtype.size)
        tile.mark(*target, shape)
        self._perform(Fill(tile, target, tensor, source, shape))
        return tile

    # -- operators

    def _load(self, operands: Mapping[str, Any]) -> Tile:
        tensor: Tensor = self._held(operands["tensor"])
        offset, shape = self._numbers(operands["offsets"]), operands["shape"]
        self._read_gm(tensor, offset, shape)
        return self._fill(self._new(full=False), (0, 0), tensor, offset, shape)

    def _create(self, operands: Mapping[str, Any]) -> Tile:
        return self._new(full=False)

    def _gather_row(self, operands: Mapping[str, Any]) -> Tile:
        tensor: Tensor = self._held(operands["tensor"])
        source, shape = self._numbers(operands["src_offset"]), operands["shapes"]
        self._read_gm(tensor, source, shape)
        tile: Tile = self._held(operands["tile"])
        return self._fill(tile, self._numbers(operands["dst_offset"]), tensor, source, shape)

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
            self._perform(Pad(tile, tile.valid, rest[0]))
        tile.valid = rows
        return tile

    def _cut(self, tile: Tile, offset: tuple[int, int], shape: tuple[int, int]) -> Tile:
        """Copy part of an L1 tile into a new tile of another memory."""
        self._source(tile, offset, shape)
        result = self._new()
        self._move(tile.resident.type.space, result.resident.type.space, result.resident.type.size)
        self._perform(Cut(result, tile, *offset, *shape))
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
        window = window_in(operands)
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
        if image.written is not None:
            self._taps_written(image, window, (pos_m, pos_k), (count, depth))
        self._perform(Unfold(result, image, window, pos_m, pos_k, count, depth))
        return result

    def _taps_written(self, image: Tile, window: Window, at: tuple[int, int], shape: tuple[int, int]) -> None:
        """Refuse a part of an unfolded image that reads what was never written."""
        for plane, tap, rows, outside in groups(window, at[0], shape[0], at[1], shape[1]):
            read = rows if outside is None else rows[~outside]
            if not image.holds_at(read, plane * FRACTAL_DEPTH):
                self._unwritten(
                    f"window tap {tap} of C1 plane {plane} reads bytes of {image.resident.name} never written"
                )

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
        self._perform(Multiply(result, a, b, bias))
        return result

    def _matmul_acc(self, operands: Mapping[str, Any]) -> Tile:
        a, b = self._operands(operands)
        acc: Tile = self._held(operands["acc"])
        self._perform(Accumulate(acc, a, b))
        return acc

    def _leaving(self, operand: Any) -> tuple[int, int]:
        """The rows and columns of an accumulator that leave it: those that are valid."""
        acc: Tile = self._held(operand)
        return acc.valid, acc.resident.type.shape[1]

    def _requantise(
        self, operands: Mapping[str, Any], rows: int, target: Tile | Tensor, offset: tuple[int, int]
    ) -> None:
        acc, scale = self._held(operands["acc"]), self._held(operands["scale"])
        self._perform(Requantise(self._call, acc, rows, scale, target, offset))

    def _fixpipe_requant(self, operands: Mapping[str, Any]) -> Tile:
        tile: Tile = self._held(operands["tile"])
        shape, offset = self._leaving(operands["acc"]), self._numbers(operands["offsets"])
        self._inside(f"tile {tile.resident.name}", offset, shape, tile.resident.type.shape)
        self._nz_position(tile, offset)
        self._move(Space.Acc, Space.Mat, shape[0] * shape[1])
        tile.mark(*offset, shape)
        self._requantise(operands, shape[0], tile, offset)
        return tile

    def _fixpipe_store(self, operands: Mapping[str, Any]) -> Tensor:
        tensor: Tensor = self._held(operands["tensor"])
        shape, offset = self._leaving(operands["acc"]), self._numbers(operands["offsets"])
        self._write_gm(tensor, offset, shape)
        self._move(Space.Acc, "GM", shape[0] * shape[1])
        self._requantise(operands, shape[0], tensor, offset)
        return tensor

    def _store(self, operands: Mapping[str, Any]) -> Tensor:
        tensor: Tensor = self._held(operands["tensor"])
        tile: Tile = self._held(operands["tile"])
        typed: TileType = tile.resident.type
        shape, offset = (tile.valid, typed.shape[1]), self._numbers(operands["offsets"])
        self._source(tile, (0, 0), shape)
        self._write_gm(tensor, offset, shape)
        self._move(typed.space, "GM", shape[0] * shape[1] * typed.dtype.size)
        self._perform(Store(tile, shape[0], tensor, offset))
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
