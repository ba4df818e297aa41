"""`pypto.language`: decorators that read nothing, and operators that exist by name."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any, NoReturn

from pypto._orders import ORDERS
from pypto.language.parser.diagnostics.exceptions import InvalidOperationError


class FunctionType(Enum):
    InCore = "InCore"
    Orchestration = "Orchestration"


class Program:
    """A decorated class."""

    def __init__(self, name: str, functions: list[str]) -> None:
        self.name = name
        self.functions = functions


def program(cls: type) -> Program:
    methods = {name: value for name, value in vars(cls).items() if hasattr(value, "kind")}
    if "refuse_class" in ORDERS:
        code = next(iter(methods.values())).__code__
        span = {"filename": code.co_filename, "line": code.co_firstlineno, "column": 4}
        raise InvalidOperationError(ORDERS["refuse_class"], span=span, hint="Check the name")
    return Program(cls.__name__, list(methods))


def function(func: Any = None, *, type: FunctionType) -> Any:
    def mark(method: Any) -> Any:
        method.kind = type
        return method

    return mark if func is None else mark(func)


def inline(func: Any) -> Any:
    return func


def _operator(name: str) -> Any:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise TypeError(f"pl.{name} was called as Python")

    return refuse


_TILE = (
    "create",
    "gather_row",
    "extract",
    "img2col",
    "matmul",
    "matmul_bias",
    "matmul_acc",
    "fixpipe_requant",
    "fixpipe_store",
    "set_validshape",
    "fillpad_inplace",
)
load, store, move, range = (_operator(name) for name in ("load", "store", "move", "range"))
tile = SimpleNamespace(
    **{name: _operator(f"tile.{name}") for name in _TILE if f"tile.{name}" not in ORDERS.get("without", [])}
)
