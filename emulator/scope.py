"""What source names and expressions mean at one place of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from emulator.definitions import Inline
from emulator.errors import SourceError
from emulator.names import Held
from emulator.operands import Binary, DType, Expr, Position, fold
from emulator.soc import Space
from emulator.sources import ARITHMETIC, COMPARISONS, Context, Index

_DTYPES = {"INT8": DType.INT8, "INT32": DType.INT32, "UINT64": DType.UINT64, "FP32": DType.FP32}


@dataclass
class Scope:
    """What source names mean at one place: held tiles and tensors, indices, and Python constants around.

    The methods that read an expression take `what` it is, in the words of a refusal; what is not in the
    language raises `SourceError`.
    """

    here: Context
    held: dict[str, Held] = field(default_factory=dict)

    def at(self, node: ast.AST) -> Position:
        """The place of a node in the source being read."""
        return self.here.at(node)

    def constant(self, name: str) -> Any:
        """The Python constant of a name; None where there is none, or a tile, tensor or index hides it."""
        hidden = name in self.held or name in self.here.indices
        return None if hidden else self.here.constants.get(name)

    def bind(self, indices: Mapping[str, Index]) -> None:
        """Give the indices other values, from here on."""
        self.here = replace(self.here, indices=indices)

    def refuse(self, node: ast.AST, construct: str, problem: str) -> NoReturn:
        """Raise `SourceError` at a node: what is written there, and what is wrong with it."""
        raise SourceError(self.at(node), construct, problem)

    def tile_or_tensor(self, node: ast.expr, what: str) -> Held:
        """The tile or tensor that an operand names."""
        if not isinstance(node, ast.Name):
            self.refuse(node, what, f"{ast.unparse(node)}: must be the name of a tile or tensor")
        if node.id not in self.held:
            self.refuse(node, what, f"{node.id} is not a tile or tensor here")
        held = self.held[node.id]
        if held.old:
            self.refuse(node, what, held.why_old(node.id))
        return held

    def space(self, node: ast.expr, what: str) -> Space:
        """The memory that an operand names."""
        name = dotted(node)
        prefix = "pl.MemorySpace."
        if name.startswith(prefix) and name.removeprefix(prefix) in Space.__members__:
            return Space[name.removeprefix(prefix)]
        self.refuse(node, what, f"{ast.unparse(node)}: must be {prefix}" + " / ".join(Space.__members__))

    def dtype(self, node: ast.expr) -> DType:
        """The element type that an operand names."""
        name = dotted(node)
        if name.startswith("pl.") and name.removeprefix("pl.") in _DTYPES:
            return _DTYPES[name.removeprefix("pl.")]
        self.refuse(node, "dtype", f"{ast.unparse(node)}: must be pl." + " / pl.".join(_DTYPES))

    def constants(self, node: ast.expr, what: str) -> tuple[int, ...]:
        """The numbers of a list, written out or named."""
        if isinstance(node, ast.Name):
            value = self.constant(node.id)
            if isinstance(value, (list, tuple)) and all(type(item) is int for item in value):
                return tuple(value)
            self.refuse(node, what, f"{node.id} is not a list or tuple of Python ints of the factory")
        if isinstance(node, ast.Attribute):
            self.refuse(node, what, f"{ast.unparse(node)}: bind it to a name in the factory first")
        if not isinstance(node, (ast.List, ast.Tuple)):
            self.refuse(node, what, f"{ast.unparse(node)}: must be a list of constants")
        values = [self.expr(element, what) for element in node.elts]
        if not all(isinstance(value, int) for value in values):
            self.refuse(node, what, f"{ast.unparse(node)}: must be constant")
        return tuple(value for value in values if isinstance(value, int))

    def expr(self, node: ast.expr, what: str) -> Expr:
        """An index: a constant, a loop variable, or arithmetic on them."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            return self._index_name(node, what)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            sizes = self.constants(node.value, what)
            index = self.expr(node.slice, what)
            if not isinstance(index, int) or not -len(sizes) <= index < len(sizes):
                self.refuse(node, what, f"{ast.unparse(node)}: the index must be a constant inside the list")
            return sizes[index]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return fold(Binary("-", 0, self.expr(node.operand, what)))
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            left, right = self.expr(node.left, what), self.expr(node.right, what)
            if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and not (isinstance(right, int) and right > 0):
                self.refuse(node, what, f"{ast.unparse(node)}: the divisor must be a positive constant")
            return fold(Binary(ARITHMETIC[type(node.op)], left, right))
        if isinstance(node, ast.Attribute):
            self.refuse(node, what, f"{ast.unparse(node)}: bind it to a name in the factory first")
        self.refuse(node, what, f"{ast.unparse(node)}: not an index expression of the language")

    def _index_name(self, node: ast.Name, what: str) -> Expr:
        if node.id in self.here.indices:
            return self.here.indices[node.id].value
        if node.id in self.held:
            self.refuse(node, what, f"{node.id} is a tile or tensor: an index is needed")
        if node.id not in self.here.constants:
            self.refuse(node, what, f"{node.id} is not defined here")
        value = self.here.constants[node.id]
        if type(value) is not int:
            self.refuse(node, what, f"{node.id} is {shown(value)}: must be a plain Python int")
        return value

    def condition(self, node: ast.expr) -> Expr:
        """The condition of a branch; a number where it is known."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            left, right = self.expr(node.left, "if"), self.expr(node.comparators[0], "if")
            return fold(Binary(COMPARISONS[type(node.ops[0])], left, right))
        if isinstance(node, ast.Name) and isinstance(flag := self.constant(node.id), bool):
            return int(flag)
        self.refuse(node, "if", f"{ast.unparse(node)}: must be a comparison of indices or a Python bool")


def dotted(node: ast.expr) -> str:
    """`pl.tile.x` of an attribute chain; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def shown(constant: Any) -> str:
    """A Python constant as a message shows it: numbers and text as they are, anything else by its kind."""
    if isinstance(constant, Inline):
        return f"the helper {constant.node.name} of line {constant.node.lineno}"
    if isinstance(constant, (list, tuple)):
        return "[" + ", ".join(map(shown, constant)) + "]"
    if isinstance(constant, (DType, Space)):
        return f"pl.{'MemorySpace.' * isinstance(constant, Space)}{constant.name}"
    if constant is None or type(constant) in (bool, int, float, str):
        return repr(constant)
    kind = type(constant).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
