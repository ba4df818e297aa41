"""What the operands of a typed program are: indices, tiles and tensors by name, memories, element types."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.soc import Space


@dataclass(frozen=True)
class Position:
    """A line of kernel source; in an inline helper, also the line that called it."""

    file: str
    line: int
    caller: Position | None = None

    def __str__(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"


class DType(Enum):
    """Element types of tiles and tensors."""

    INT8 = "int8"
    INT32 = "int32"
    UINT64 = "uint64"
    FP32 = "float32"

    @property
    def numpy(self) -> npt.DTypeLike:
        """The NumPy dtype."""
        return np.dtype(self.value)

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.value).itemsize


@dataclass(frozen=True)
class LoopVar:
    """The value of a loop variable."""

    name: str


@dataclass(frozen=True)
class Binary:
    """Integer arithmetic or a comparison, on the operator's Python spelling."""

    op: str
    left: Expr
    right: Expr


Expr = int | LoopVar | Binary
"""An index: a constant, a loop variable, or arithmetic on them."""


_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expr: Expr, loops: Mapping[str, int]) -> int:
    """The value of an index expression, given the loop variables' values."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, LoopVar):
        return loops[expr.name]
    left, right = expr.left, expr.right
    return _OPERATIONS[expr.op](
        left if type(left) is int else evaluate(left, loops),
        right if type(right) is int else evaluate(right, loops),
    )


def variables(expr: Operand) -> frozenset[str]:
    """The loop variables that an index, or a pair of them, depends on."""
    if isinstance(expr, tuple):
        return frozenset().union(*map(variables, expr))
    if isinstance(expr, Binary):
        return variables(expr.left) | variables(expr.right)
    return frozenset({expr.name}) if isinstance(expr, LoopVar) else frozenset()


def fold(expr: Binary) -> Expr:
    """An operation, computed if both of its sides are constants."""
    return evaluate(expr, {}) if isinstance(expr.left, int) and isinstance(expr.right, int) else expr


@dataclass(frozen=True)
class Ref:
    """A tile or tensor, by the name that holds it."""

    name: str


Operand = Ref | Expr | tuple[Expr, ...] | Space | DType


def valued(operand: Operand, loops: Mapping[str, int]) -> Any:
    """The value of an operand in a round of the loops: a number or numbers, or else the operand itself."""
    if isinstance(operand, tuple):
        return tuple(evaluate(index, loops) for index in operand)
    return operand if isinstance(operand, Ref | Space | DType) else evaluate(operand, loops)
