"""Finds program classes and inline helpers in their source files."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

from emulator.errors import SourceError
from emulator.operands import Position
from emulator.sources import Definition


@dataclass(frozen=True)
class Inline(Definition):
    """A helper to be expanded where it is called."""

    node: ast.FunctionDef


def class_source(cls: type, names: Mapping[str, Any]) -> Definition:
    """Where a program class stands in its source file; `names` are the Python names around it.

    Raises:
        SourceError: its source cannot be read, or another class of its factory has its name.
    """
    methods = [value for value in vars(cls).values() if isinstance(value, FunctionType)]
    if not methods:
        raise SourceError(Position(cls.__module__, 0), f"class {cls.__name__}", "has no @pl.function method")
    code = methods[0].__code__
    module = _module(code.co_filename)
    definitions = _definitions(module)
    node = _class_at(definitions, cls.__name__, code.co_firstlineno)
    if node is None:
        position = Position(code.co_filename, code.co_firstlineno)
        raise SourceError(position, f"class {cls.__name__}", "its source file cannot be read")
    _refuse_twin_classes(definitions, node, code.co_filename)
    return Definition(code.co_filename, module, node, names)


def read_inline(helper: FunctionType, names: Mapping[str, Any]) -> Inline:
    """Keep the source of an inline helper.

    Raises:
        SourceError: its source cannot be read.
    """
    code = helper.__code__
    module = _module(code.co_filename)
    for node in _definitions(module):
        if isinstance(node, ast.FunctionDef) and _first_line(node) == code.co_firstlineno:
            return Inline(code.co_filename, module, node, names)
    position = Position(code.co_filename, code.co_firstlineno)
    raise SourceError(position, helper.__name__, "its source file cannot be read")


def read_ahead(file: str) -> None:
    """Parse a source file now, for all kernels that are later read from it."""
    _definitions(_module(file))


_Definition = ast.FunctionDef | ast.ClassDef


def _module(file: str) -> ast.Module:
    return _parsed(file, "".join(linecache.getlines(file)))


@lru_cache(maxsize=32)
def _parsed(file: str, text: str) -> ast.Module:
    return ast.parse(text, file)


@lru_cache(maxsize=32)
def _definitions(module: ast.Module) -> tuple[_Definition, ...]:
    """All functions and classes of a source file, at whatever depth."""
    return tuple(node for node in ast.walk(module) if isinstance(node, (ast.FunctionDef, ast.ClassDef)))


def _first_line(node: _Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _class_at(definitions: Sequence[_Definition], name: str, method_line: int) -> ast.ClassDef | None:
    for node in definitions:
        if isinstance(node, ast.ClassDef) and node.name == name:
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            if method_line in map(_first_line, methods):
                return node
    return None


def _refuse_twin_classes(definitions: Sequence[_Definition], node: ast.ClassDef, file: str) -> None:
    """Refuse two classes of one name in a factory: before Python 3.13 PyPTO compiles the first for both."""
    twins = [
        other
        for other in definitions
        if isinstance(other, ast.ClassDef) and other.name == node.name and other is not node
    ]
    for factory in definitions:
        for twin in twins:
            if isinstance(factory, ast.FunctionDef) and _within(node, factory) and _within(twin, factory):
                problem = f"the same factory has another class of this name at line {twin.lineno}"
                raise SourceError(Position(file, node.lineno), f"class {node.name}", problem)


def _within(node: ast.ClassDef, factory: ast.FunctionDef) -> bool:
    return factory.lineno < node.lineno <= (factory.end_lineno or 0)
