"""What the source of a program says for each operand: constants by their names, and arithmetic as it stands.

The typed program holds 448 where the source says `band_mid_start`. The reader keeps where the source of each
operand stands, and what names mean there; the trees here are made from that when they are asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

from emulator.program import (
    Binary,
    Call,
    DType,
    Expr,
    For,
    LoopVar,
    Operand,
    Position,
    Ref,
    TileType,
    evaluate,
    fold,
)
from emulator.soc import Space

ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


# -- where source stands


@dataclass(frozen=True)
class Definition:
    """A class or helper: its file, what the file says, its node in it, the Python names around it."""

    file: str
    module: ast.Module
    node: ast.FunctionDef | ast.ClassDef
    names: Mapping[str, Any]


@dataclass(frozen=True)
class Context:
    """What names mean where a class or helper is read.

    `constants` are those of the definition and of all that expand it, `indices` what loop variables and
    parameters stand for. `around` is the context of the `caller`'s line.
    """

    definition: Definition
    constants: Mapping[str, Any]
    indices: Mapping[str, Index] = field(default_factory=dict)
    caller: Position | None = None
    around: Context | None = None

    def at(self, node: ast.AST) -> Position:
        """The place of a node of the definition."""
        return Position(self.definition.file, getattr(node, "lineno", 0), self.caller)


@dataclass(frozen=True)
class Text:
    """An expression of the source, and where it stands."""

    node: ast.expr
    context: Context


@dataclass(frozen=True)
class Index:
    """What a name in the indices stands for, and the argument that says so; None for a loop variable."""

    value: Expr
    text: Text | None = None


# -- what it says


@dataclass(frozen=True)
class Origin:
    """The right side of the assignment that gave a constant its value, as it is written, and its line."""

    text: str
    position: Position


@dataclass(frozen=True)
class Leaf:
    """A constant as the source writes it; for a tile or tensor the value is its `Ref`.

    An argument of a helper stands in the caller's line. `column` counts from 0.
    """

    text: str
    value: int | tuple[int, ...] | Ref | Space | DType
    position: Position
    column: int
    source: Text | None = field(default=None, compare=False, repr=False)

    @cached_property
    def origin(self) -> Origin | None:
        """The assignment around the class or helper that gave it its value; None if that is not certain."""
        return None


@dataclass(frozen=True)
class Operation:
    """Arithmetic or a comparison as it is written, nothing computed; without a `left` a negation."""

    op: str
    left: Written | None
    right: Written


Written = Leaf | LoopVar | Operation | tuple["Written", ...]
"""What the source says for an operand; a tuple for a list of expressions."""


class Operands(Mapping[str, Written]):
    """What the source says for each operand of a call; each is read once it is asked for."""

    def __init__(self, texts: Mapping[str, Text], operands: Mapping[str, Operand]) -> None:
        self._texts, self._operands = texts, operands
        self._written: dict[str, Written] = {}

    def __getitem__(self, name: str) -> Written:
        if name not in self._written:
            self._written[name] = written(self._texts[name], self._operands[name])
        return self._written[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def written(text: Text, value: Operand) -> Written:
    """What an expression says that the reader has accepted and found to be `value`."""
    node, context = text.node, text.context
    if isinstance(value, (Ref, Space, DType)):
        return _leaf(text, value)
    if isinstance(node, (ast.List, ast.Tuple)):
        assert isinstance(value, tuple)
        return tuple(
            written(Text(element, context), item) for element, item in zip(node.elts, value, strict=True)
        )
    if isinstance(value, tuple):
        return _leaf(text, cast(tuple[int, ...], value))
    return _tree(text)


def _leaf(text: Text, value: int | tuple[int, ...] | Ref | Space | DType) -> Leaf:
    node = text.node
    return Leaf(ast.unparse(node), value, text.context.at(node), node.col_offset, text)


def _tree(text: Text) -> Written:
    """An index or a condition."""
    node, context = text.node, text.context
    if isinstance(node, ast.Name) and node.id in context.indices:
        index = context.indices[node.id]
        return _tree(index.text) if index.text else cast(LoopVar, index.value)
    if isinstance(node, ast.UnaryOp):
        return Operation("-", None, _tree(Text(node.operand, context)))
    if isinstance(node, ast.BinOp):
        left, right = _tree(Text(node.left, context)), _tree(Text(node.right, context))
        return Operation(ARITHMETIC[type(node.op)], left, right)
    if isinstance(node, ast.Compare):
        left, right = _tree(Text(node.left, context)), _tree(Text(node.comparators[0], context))
        return Operation(COMPARISONS[type(node.ops[0])], left, right)
    return _leaf(text, _constant(text))


def _constant(text: Text) -> int:
    """The value of a number, of a name, or of an element of a list of constants."""
    node, context = text.node, text.context
    if isinstance(node, ast.Subscript):
        assert isinstance(node.value, ast.Name)
        index = value_of(_tree(Text(node.slice, context)), {})
        return int(context.constants[node.value.id][index])
    if isinstance(node, ast.Name):
        return int(context.constants[node.id])
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return node.value


# -- what can be asked of it


def leaves(written: Written) -> Iterator[Leaf]:
    """All constants, as they follow each other in the source."""
    if isinstance(written, Leaf):
        yield written
    elif isinstance(written, tuple):
        for item in written:
            yield from leaves(item)
    elif isinstance(written, Operation):
        if written.left is not None:
            yield from leaves(written.left)
        yield from leaves(written.right)


_STRENGTH = {"*": 3, "//": 3, "%": 3, "+": 2, "-": 2}
"""How tightly an operator binds; comparisons bind least."""


def in_words(written: Written) -> str:
    """The expression, by the names that stand in the source, with as few parentheses as it needs."""
    if isinstance(written, tuple):
        return f"[{', '.join(map(in_words, written))}]"
    if isinstance(written, Operation):
        strength = _STRENGTH.get(written.op, 1)
        right = _grouped(written.right, strength + 1)
        if written.left is None:
            return f"-{right}"
        return f"{_grouped(written.left, strength)} {written.op} {right}"
    return written.name if isinstance(written, LoopVar) else written.text


def _grouped(written: Written, strength: int) -> str:
    """An operand, in parentheses if it binds less tightly."""
    words = in_words(written)
    weaker = isinstance(written, Operation) and _STRENGTH.get(written.op, 1) < strength
    return f"({words})" if weaker else words


def value_of(written: Written, loops: Mapping[str, int]) -> Any:
    """The value in a round of the loops: a number or a tuple of numbers; of another kind, what it holds."""
    operand = folded(written)
    if isinstance(operand, tuple):
        return tuple(evaluate(item, loops) for item in operand)
    return operand if isinstance(operand, (Ref, Space, DType)) else evaluate(operand, loops)


def folded(written: Written) -> Operand:
    """The operand that the typed program has for it."""
    if isinstance(written, Leaf):
        return written.value
    if isinstance(written, LoopVar):
        return written
    if isinstance(written, tuple):
        return tuple(cast(Expr, folded(item)) for item in written)
    left = 0 if written.left is None else folded(written.left)
    return fold(Binary(written.op, cast(Expr, left), cast(Expr, folded(written.right))))


Changed = TypeVar("Changed", Call, For)

_TYPED = {"shape": "shape", "target_memory": "space", "dtype": "dtype"}
"""The operands that say what type a new tile has, and what they say of it."""


def replaced(statement: Changed, operand: str, leaf: Leaf, value: Any) -> Changed:
    """A call or loop in which a constant of one operand has another value, wherever it stands in it.

    The operand of a loop is `start` or `stop`. Whether the new value fits the operator is not checked.
    """
    other = replace(leaf, value=value)
    if isinstance(statement, For):
        at = ("start", "stop").index(operand)
        bounds = list(statement.written)
        bounds[at] = _with(bounds[at], leaf, other)
        start, stop = (cast(Expr, folded(bound)) for bound in bounds)
        return replace(statement, start=start, stop=stop, written=tuple(bounds))
    tree = _with(statement.written[operand], leaf, other)
    typed: Any = folded(tree)
    result = statement.result
    if operand in _TYPED and isinstance(result, TileType):
        result = replace(result, **{_TYPED[operand]: typed})
    operands, trees = {**statement.operands, operand: typed}, {**statement.written, operand: tree}
    return replace(statement, operands=operands, result=result, written=trees)


def _with(written: Written, leaf: Leaf, other: Leaf) -> Written:
    if isinstance(written, tuple):
        return tuple(_with(item, leaf, other) for item in written)
    if isinstance(written, Operation):
        left = None if written.left is None else _with(written.left, leaf, other)
        return Operation(written.op, left, _with(written.right, leaf, other))
    return other if written == leaf else written
