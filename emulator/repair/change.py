"""Another value for a constant of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from emulator.operands import Expr, Ref
from emulator.program import Block, Call, For, Program, Statement, TileType, each_block, flat
from emulator.sources import Leaf, Operation, Written, folded, leaves


@dataclass(frozen=True)
class Change:
    """Another value for a constant, in an operand of an operator or a bound of a loop.

    Attributes:
        operand: the operand of the operator, or `start` or `stop` of a loop.
        leaf: the constant as the source writes it.
        value: the other value.
        parts: if only some numbers of a list change, these, in each list that the same text stands for.
        text: how the source names the other value, if it is a tile or tensor.
    """

    operand: str
    leaf: Leaf
    value: Any
    parts: Mapping[int, int] = field(default_factory=dict)
    text: str = ""

    def applied(self, program: Program) -> Program:
        """The program with the value wherever this text is read."""
        functions = {
            name: replace(function, body=each_block(function.body, self._block))
            for name, function in program.functions.items()
        }
        return replace(program, functions=functions)

    def alike(self, other: Change) -> bool:
        """Whether both give one constant the same value."""
        return bool(self.value == other.value) and same_constant(self.leaf, other.leaf)

    def everywhere(self, program: Program) -> bool:
        """Whether the text stands for one number or list, wherever a helper with it is expanded."""
        alike = [
            leaf
            for function in program.functions.values()
            for statement in flat(function.body)
            if isinstance(statement, Call)
            for leaf in leaves(statement.written.get(self.operand, ()))
            if same_constant(leaf, self.leaf)
        ]
        if isinstance(self.value, Ref):  # the name of a helper's parameter is another tile in another band
            return all(map(self.meets, alike))
        return len({self.value_for(leaf) if self.meets(leaf) else leaf.value for leaf in alike}) < 2

    def _block(self, block: Block) -> Block:
        return tuple(map(self._statement, block))

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Call):
            for operand, tree in statement.written.items():
                for leaf in leaves(tree):
                    if self.meets(leaf):
                        statement = replaced(statement, operand, leaf, self.value_for(leaf))
        elif isinstance(statement, For):
            for operand, tree in zip(("start", "stop"), statement.written, strict=False):
                for leaf in leaves(tree):
                    if self.meets(leaf):
                        statement = replaced(statement, operand, leaf, self.value)
        return statement

    def meets(self, leaf: Leaf) -> bool:
        """Whether it changes a constant: it is the same one, with the value that changes."""
        return same_constant(leaf, self.leaf) and (bool(self.parts) or leaf.value == self.leaf.value)

    def value_for(self, leaf: Leaf) -> Any:
        """The value that a constant then has."""
        if not self.parts or not isinstance(leaf.value, tuple):
            return self.value
        return tuple(self.parts.get(at, number) for at, number in enumerate(leaf.value))


def same_constant(one: Leaf, other: Leaf) -> bool:
    """Whether two texts are one, or one name that one assignment gave its value."""
    if one.text != other.text or one.position.file != other.position.file:
        return False
    if (one.position.line, one.column) == (other.position.line, other.column):
        return True
    return one.origin is not None and one.origin == other.origin


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
