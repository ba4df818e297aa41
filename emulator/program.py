"""The typed program: the reader makes it from a kernel's source, and all other modules work on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

from emulator.operands import DType, Expr, Operand, Position
from emulator.soc import Space
from emulator.sources import Leaf, Written


@dataclass(frozen=True)
class TensorType:
    """A tensor in global memory."""

    shape: tuple[int, ...]
    dtype: DType
    out: bool = False

    def __str__(self) -> str:
        return f"tensor {list(self.shape)} {self.dtype.value}"


@dataclass(frozen=True)
class TileType:
    """A tile on chip: rows, columns, element type, memory."""

    shape: tuple[int, int]
    dtype: DType
    space: Space

    def __str__(self) -> str:
        return f"{self.space.name} tile {list(self.shape)} {self.dtype.value}"

    @cached_property
    def size(self) -> int:
        """Bytes it occupies."""
        return prod(self.shape) * self.dtype.size

    @cached_property
    def fractal(self) -> bool:
        """Whether it is stored in NZ fractals, as every L1 tile of several rows is."""
        return self.space is Space.Mat and self.shape[0] > 1


Spoil = Callable[[Mapping[str, Any], Any], None]
"""Changes what an operator computed; called with the operands' values and the result, a tile or tensor."""


@dataclass(frozen=True)
class Call:
    """`target = pl.<operator>(...)`. `result` is the type the target then has.

    Only fault injection sets `spoil`; a run calls it after the operator has computed. `written` is what the
    source says for each operand; here and in other statements it is empty in programs made by hand.
    """

    position: Position
    target: str
    operator: str
    operands: Mapping[str, Operand]
    result: TileType | TensorType
    spoil: Spoil | None = None
    written: Mapping[str, Written] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Bind:
    """`target = source`: a second name for a tile or tensor (an inlined helper's parameter or result)."""

    position: Position
    target: str
    source: str


@dataclass(frozen=True)
class For:
    """`for variable in pl.range(start, stop)`; `written` is what the source says for both bounds."""

    position: Position
    variable: str
    start: Expr
    stop: Expr
    body: tuple[Statement, ...]
    written: tuple[Written, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class If:
    """A branch on loop variables or constants; a non-zero condition takes `then`."""

    position: Position
    condition: Expr
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...]
    written: Written = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Invoke:
    """An orchestration's call of an InCore function: tensors by position, results to `targets`."""

    position: Position
    targets: tuple[str, ...]
    function: str
    arguments: tuple[str, ...]
    written: tuple[Leaf, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Return:
    """The outputs that a function returns, by name."""

    position: Position
    names: tuple[str, ...]


Statement = Call | Bind | For | If | Invoke | Return
Block = tuple[Statement, ...]


def flat(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement as it is written, and after a loop or branch those in it, at any depth."""
    for statement in statements:
        yield statement
        if isinstance(statement, For):
            yield from flat(statement.body)
        elif isinstance(statement, If):
            yield from flat((*statement.then, *statement.orelse))


def each_block(block: Block, change: Callable[[Block], Block]) -> Block:
    """The block, and every body of a loop or branch in it, replaced by what `change` gives."""

    def inside(statement: Statement) -> Statement:
        if isinstance(statement, For):
            return replace(statement, body=each_block(statement.body, change))
        if isinstance(statement, If):
            then, orelse = (each_block(each, change) for each in (statement.then, statement.orelse))
            return replace(statement, then=then, orelse=orelse)
        return statement

    return change(tuple(map(inside, block)))


@dataclass(frozen=True)
class Param:
    """A tensor parameter; `type.out` says whether it is written."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class Function:
    """An InCore kernel or the orchestration that calls it; `decided` are the branches on constants."""

    position: Position
    name: str
    orchestration: bool
    params: tuple[Param, ...]
    body: tuple[Statement, ...]
    decided: tuple[If, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Program:
    """A `@pl.program` class, read and checked. `main` is its orchestration."""

    position: Position
    name: str
    functions: Mapping[str, Function]

    @property
    def main(self) -> Function:
        """The orchestration function."""
        return self.functions["main"]

    def function_of(self, call: Call) -> Function:
        """The function that a call of this program stands in."""
        return next(
            function
            for function in self.functions.values()
            if any(statement is call for statement in flat(function.body))
        )

    @property
    def calls(self) -> Iterator[Call]:
        """The calls of operators in its functions, as they are written."""
        statements = flat(statement for function in self.functions.values() for statement in function.body)
        return (statement for statement in statements if isinstance(statement, Call))

    @property
    def operators(self) -> frozenset[str]:
        """The operators that it calls, such as `tile.img2col`."""
        return frozenset(call.operator for call in self.calls)

    @property
    def spoiled(self) -> bool:
        """Whether an injected fault changes what an operator gives."""
        return any(call.spoil is not None for call in self.calls)
