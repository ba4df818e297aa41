"""What the source of a program says for each operand: constants by their names, and arithmetic as it stands.

The typed program holds 448 where the source says `band_mid_start`. The reader keeps where the source of each
operand stands, and what names mean there; the trees here are made from that when they are asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from emulator.operands import Binary, DType, Expr, LoopVar, Operand, Position, Ref, fold, valued
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
        """The assignment around the class or helper that gave it its value; None if that is not certain.

        That of `dims[0]` is the first element of the list that is assigned to `dims`, where it is written
        out. A tile or tensor has none.
        """
        return None if self.source is None or isinstance(self.value, Ref) else _origin(self.source)


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


# -- where constants come from


def _origin(text: Text) -> Origin | None:
    """Of a constant that is a name, or an element of a list with a name."""
    node = text.node
    name = node.value if isinstance(node, ast.Subscript) else node
    definition = _definition_of(name.id, text.context) if isinstance(name, ast.Name) else None
    if definition is None:
        return None
    assert isinstance(name, ast.Name)
    given = _assigned(name.id, definition)
    if isinstance(node, ast.Subscript) and isinstance(given, (ast.List, ast.Tuple)):
        if any(isinstance(element, ast.Starred) for element in given.elts):
            return None
        given = given.elts[value_of(_tree(Text(node.slice, text.context)), {})]
    return Origin(ast.unparse(given), Position(definition.file, given.lineno)) if given else None


def _definition_of(name: str, context: Context | None) -> Definition | None:
    """The innermost helper, or else the class, that has a name around it."""
    while context is not None and name not in context.definition.names:
        context = context.around
    return context.definition if context else None


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
_IN_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def _assigned(name: str, definition: Definition) -> ast.expr | None:
    """What a name around a definition was last assigned before it; None if that is not certain.

    A function around the factory, or the module, may have gone on before the factory ran: it must assign the
    name once only.
    """
    in_factory = True
    for owner, before in reversed(_way(definition.module, definition.node)):
        scope = isinstance(owner, _SCOPES)
        if in_factory or scope:
            block = before if in_factory else tuple(ast.iter_child_nodes(owner))
            binding = [node for node in block if _binds(node, name)]
            if binding:
                return _right_side(binding[-1], name) if in_factory or len(binding) == 1 else None
            if any(_binds(node, name) for node in _beside(owner)):
                return None
        in_factory = in_factory and not scope
    return None


def _way(owner: ast.AST, node: ast.AST) -> tuple[tuple[ast.AST, tuple[ast.AST, ...]], ...]:
    """The nodes with blocks around a node, the outermost first, and what stands before it in each block."""
    for _, block in ast.iter_fields(owner):
        if isinstance(block, list) and block and isinstance(block[0], _IN_BLOCKS):
            for at, statement in enumerate(block):
                inner = _way(statement, node)
                if inner or statement is node:
                    return ((owner, tuple(block[:at])), *inner)
    return ()


def _beside(owner: ast.AST) -> Iterator[ast.AST]:
    """Where a name may be assigned too, besides the statements that stand before a definition in a block.

    What stands after it in a loop may have run before; the other branch of an `if` did not.
    """
    if isinstance(owner, ast.If):
        yield owner.test
    elif isinstance(owner, _SCOPES):
        yield from ast.iter_child_nodes(owner)
    else:
        yield owner


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a node may assign a name of the scope that it stands in."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        declared = [inner for inner in ast.walk(node) if isinstance(inner, (ast.Nonlocal, ast.Global))]
        return node.name == name or any(name in inner.names for inner in declared)
    if isinstance(node, (ast.Lambda, ast.comprehension)):
        return False
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return False
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.arg):
        return node.arg == name
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) == name
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name == name:
        return True
    return any(_binds(child, name) for child in ast.iter_child_nodes(node))


def _right_side(statement: ast.AST, name: str) -> ast.expr | None:
    """What a plain assignment assigns to a name; None of any other statement."""
    if isinstance(statement, ast.AnnAssign):
        return _matching(statement.target, statement.value, name)
    if isinstance(statement, ast.Assign):
        found = [_matching(target, statement.value, name) for target in statement.targets]
        return next((value for value in reversed(found) if value), None)
    return None


def _matching(target: ast.expr, value: ast.expr | None, name: str) -> ast.expr | None:
    """The part of the right side that a name of a target gets; the whole where it is not written out."""
    if isinstance(target, ast.Name):
        return value if target.id == name else None
    if not isinstance(target, (ast.Tuple, ast.List)) or not _binds(target, name):
        return None
    parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    if len(parts) != len(target.elts) or any(
        isinstance(part, ast.Starred) for part in (*target.elts, *parts)
    ):
        return value
    found = [_matching(one, part, name) for one, part in zip(target.elts, parts, strict=True)]
    return next((part for part in reversed(found) if part), None)


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
        if written.left is None:
            return f"-{_grouped(written.right, max(_STRENGTH.values()) + 1)}"
        return f"{_grouped(written.left, strength)} {written.op} {_grouped(written.right, strength + 1)}"
    return written.name if isinstance(written, LoopVar) else written.text


def _grouped(written: Written, strength: int) -> str:
    """An operand, in parentheses if it binds less tightly."""
    words = in_words(written)
    weaker = isinstance(written, Operation) and _STRENGTH.get(written.op, 1) < strength
    return f"({words})" if weaker else words


def value_of(written: Written, loops: Mapping[str, int]) -> Any:
    """The value in a round of the loops: a number or a tuple of numbers; of another kind, what it holds."""
    return valued(folded(written), loops)


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
