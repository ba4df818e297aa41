"""A walked program as bytes, so that other processes need neither read the program nor walk it.

The bytes are a pickle of the facts of a walk, with its index tables: nothing of any data, no mask of what was
written, and not what the source says for operands. Who looks for a mistake in a program reads it for that.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from emulator import actions
from emulator.counts import Counts, Estimate
from emulator.elements import Memories
from emulator.engine import Report, Walked, keep, walked
from emulator.image import Window, window_of
from emulator.memory import MemoryMap, Resident
from emulator.operands import Binary, DType, LoopVar, Position, Ref
from emulator.program import (
    Bind,
    Call,
    For,
    Function,
    If,
    Invoke,
    Param,
    Program,
    Return,
    TensorType,
    TileType,
)
from emulator.schedule import Products, Right, Schedule, Workspace
from emulator.soc import SOCS, Soc, Space
from emulator.tile import Array, Place, Tensor, Tile

_Made = tuple[Callable[..., Any], tuple[Any, ...]]
"""How something is made again: by a function of these arguments."""


def packed(program: Program, soc: str) -> bytes:
    """The walk of a program on one of `SOCS`, with the program. Raises as `compile_program`."""
    calls = {id(call): call for call in program.calls}

    def memory_map(placed: MemoryMap) -> _Made:
        return _placed, (placed.residents, [(calls[call], at) for call, at in placed.by_call.items()])

    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = {**_REDUCED, MemoryMap: memory_map}
    pickler.dump(walked(program, SOCS[soc]))
    return stream.getvalue()


def unpacked(data: bytes | memoryview) -> Program:
    """The program whose walk `packed` has written; that walk then serves all that is done with it.

    It is the program that the reader made, but for what the source says for operands.

    Raises:
        ValueError: the bytes are no such walk.
    """
    try:
        found = _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # whatever foreign bytes lead to
        raise ValueError(f"not the walk of a program: {error}") from error
    if not isinstance(found, Walked):
        raise ValueError(f"not the walk of a program, but {type(found).__name__}")
    keep(found)
    return found.report.program


# -- what is made again in another way than by its fields


def _soc(name: str) -> Soc:
    return SOCS[name]


def _window(*numbers: Any) -> Window:
    return window_of(*numbers)


def _placed(residents: tuple[Resident, ...], by_call: Sequence[tuple[Call, Resident]]) -> MemoryMap:
    return MemoryMap(residents, {id(call): resident for call, resident in by_call})


def _tile(place: Place, valid: int, ended: bool) -> Tile:
    tile = Tile(place, full=True)
    tile.valid, tile.ended = valid, ended
    return tile


def _scheduled(done: list[actions.Action], workspace: Workspace) -> Schedule:
    return Schedule.of(done, workspace)


def _array(dtype: str, shape: tuple[int, ...], data: bytes) -> Array:
    return np.frombuffer(data, dtype).reshape(shape)


_REDUCED: Mapping[type, Callable[[Any], _Made]] = {
    Soc: lambda soc: (_soc, (soc.name,)),
    Space: lambda space: (Space, (space.value,)),  # Pythons differ in how they do it
    DType: lambda dtype: (DType, (dtype.value,)),
    Window: lambda window: (_window, (window.image, window.kernel, window.stride, window.padding)),
    Tile: lambda tile: (_tile, (tile.place, tile.valid, tile.ended)),
    Tensor: lambda tensor: (Tensor, (tensor.name, tensor.type, None, None)),
    np.ndarray: lambda array: (_array, (array.dtype.str, array.shape, array.tobytes())),
    Workspace: lambda workspace: (Workspace, (workspace.tables,)),
    Schedule: lambda schedule: (_scheduled, schedule.content),
    Call: lambda call: (Call, (call.position, call.target, call.operator, call.operands, call.result)),
    For: lambda loop: (For, (loop.position, loop.variable, loop.start, loop.stop, loop.body)),
    If: lambda branch: (If, (branch.position, branch.condition, branch.then, branch.orelse)),
    Invoke: lambda call: (Invoke, (call.position, call.targets, call.function, call.arguments)),
    Function: lambda function: (
        Function,
        (function.position, function.name, function.orchestration, function.params, function.body),
    ),
}

_NAMED = {
    (each.__module__, each.__qualname__): each
    for each in (
        *(_soc, _window, _placed, _tile, _array, _scheduled),
        *(Walked, Report, Counts, Counter, Estimate, Resident, Position, DType, Space),
        *(Program, Function, Param, TensorType, TileType, Call, Bind, For, If, Invoke, Return),
        *(Binary, LoopVar, Ref, Place, Tensor, Memories, Products, Right, Workspace),
        *(actions.Fill, actions.Pad, actions.Cut, actions.Unfold, actions.Requantise, actions.Store),
    )
}
"""All that the bytes may name: a pickle can otherwise call any function."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMED:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a walk")
        return _NAMED[module, name]
