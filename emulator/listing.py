"""The typed program as text: one line for each statement, with every constant resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from emulator.operands import Binary, DType, Expr, LoopVar, Operand, Ref
from emulator.operators import OPERATORS
from emulator.program import Bind, Call, For, If, Invoke, Program, Return, Statement, TensorType, TileType
from emulator.soc import Space


def listing(program: Program) -> str:
    """The program, one line for each statement with its source position; new tiles have their types."""
    lines = [f"program {program.name}  # {program.position}"]
    for function in program.functions.values():
        kind = "orchestration" if function.orchestration else "incore"
        params = ", ".join(f"{param.name}: {_type(param.type)}" for param in function.params)
        lines.append(f"  {kind} {function.name}({params})  # {function.position}")
        lines.extend("    " + line for line in _block(function.body))
    return "\n".join(lines) + "\n"


def _block(statements: Sequence[Statement]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, For):
            bounds = f"{_expr(statement.start)}, {_expr(statement.stop)}"
            yield f"for {statement.variable} in range({bounds})  # {statement.position}"
            yield from ("  " + line for line in _block(statement.body))
        elif isinstance(statement, If):
            yield f"if {_expr(statement.condition)}  # {statement.position}"
            yield from ("  " + line for line in _block(statement.then))
            if statement.orelse:
                yield "else"
                yield from ("  " + line for line in _block(statement.orelse))
        else:
            yield f"{_plain(statement)}  # {statement.position}"


def _plain(statement: Call | Bind | Invoke | Return) -> str:
    if isinstance(statement, Bind):
        return f"{statement.target} = {statement.source}"
    if isinstance(statement, Return):
        return f"return {', '.join(statement.names)}"
    if isinstance(statement, Invoke):
        return f"{', '.join(statement.targets)} = {statement.function}({', '.join(statement.arguments)})"
    operands = _operands(statement.operands)
    new = "" if OPERATORS[statement.operator].destination else f" -> {_type(statement.result)}"
    return f"{statement.target} = {statement.operator}({operands}){new}"


def _type(typed: TensorType | TileType) -> str:
    place = typed.space.value if isinstance(typed, TileType) else "out" if typed.out else ""
    return f"{place} {'x'.join(map(str, typed.shape))} {typed.dtype.value}".lstrip()


def _operands(operands: Mapping[str, Operand]) -> str:
    return ", ".join(f"{name}={_operand(operand)}" for name, operand in operands.items())


def _operand(operand: Operand) -> str:
    if isinstance(operand, Ref):
        return operand.name
    if isinstance(operand, (Space, DType)):
        return str(operand.value)
    if isinstance(operand, tuple):
        return "[" + ", ".join(_expr(item) for item in operand) + "]"
    return _expr(operand)


def _expr(expr: Expr) -> str:
    if isinstance(expr, Binary):
        return f"({_expr(expr.left)} {expr.op} {_expr(expr.right)})"
    return expr.name if isinstance(expr, LoopVar) else str(expr)
