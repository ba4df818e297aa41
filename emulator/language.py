"""The DSL handle that a kernel factory is given as `pl`, to run on the emulator.

Kernels are read from source (`emulator.reader`), never run as Python; the names here exist so that a
factory's decorators can be applied, and so that `hasattr(pl.tile, name)` tells which operators there are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from types import FunctionType as PythonFunction
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

from emulator.definitions import Inline, read_inline
from emulator.operands import DType
from emulator.operators import OPERATORS
from emulator.program import Program
from emulator.reader import read_program
from emulator.soc import Space

INT8, INT32, UINT64, FP32 = DType.INT8, DType.INT32, DType.UINT64, DType.FP32
MemorySpace = Space

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class FunctionType(Enum):
    """Kinds of function in a program."""

    InCore = "InCore"
    Orchestration = "Orchestration"


class Tensor:
    """`pl.Tensor[[rows, columns], dtype]` in a signature; read from source."""

    def __class_getitem__(cls, item: Any) -> type[Tensor]:
        return cls


class Out:
    """`pl.Out[pl.Tensor[...]]` in a signature; read from source."""

    def __class_getitem__(cls, item: Any) -> type[Out]:
        return cls


def function(*, type: FunctionType) -> Callable[[Decorated], Decorated]:
    """Mark a method of a program; its type is read from source."""
    return lambda method: method


def program(cls: type) -> Program:
    """Read the decorated class from its source file into a `Program`.

    Raises:
        SourceError, TypeMismatchError: the class is not in the language; the message has file and line.
    """
    caller = sys._getframe(1)
    return read_program(cls, {**caller.f_globals, **caller.f_locals})


def inline(helper: PythonFunction) -> Inline:
    """Keep a helper's source, to be expanded at each call in a program."""
    caller = sys._getframe(1)
    return read_inline(helper, {**caller.f_globals, **caller.f_locals})


def _operator(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"pl.{name} stands for an operator inside a @pl.program class: it cannot be called")

    return refuse


load, store, move = (_operator(name) for name in ("load", "store", "move"))
range = _operator("range")
tile = SimpleNamespace(
    **{name.removeprefix("tile."): _operator(name) for name in OPERATORS if name.startswith("tile.")}
)
