"""Where the tiles of a program come from: the tensors in GM that feed each, through all operators between."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.operands import Ref
from emulator.program import Bind, Call, Function, Invoke, Program, flat


def requantised_by(table: str) -> str:
    """The origin of a tile that a convolution's requantisation fills, by the name of its table."""
    return f"requantised by {table}"


def origins(program: Program, function: Function) -> Mapping[str, frozenset[str]]:
    """The origins of each tile and tensor of an InCore function, by its name there.

    A parameter originates from the parameter of `main` that is passed for it. A tile that was loaded,
    gathered or cut from others has the origins of those. What requantisation gives begins anew: its origin
    is the table, as `requantised_by` names it.
    """
    found: dict[str, set[str]] = {
        parameter.name: {argument}
        for call in program.main.body
        if isinstance(call, Invoke) and call.function == function.name
        for parameter, argument in zip(function.params, call.arguments, strict=True)
    }
    before = -1
    while (size := sum(map(len, found.values()))) != before:  # loops carry names from a round to the next
        before = size
        for statement in flat(function.body):
            if isinstance(statement, Bind):
                found.setdefault(statement.target, set()).update(found.get(statement.source, ()))
            elif isinstance(statement, Call):
                found.setdefault(statement.target, set()).update(_of_call(statement, found))
    return {name: frozenset(tensors) for name, tensors in found.items()}


def _of_call(call: Call, found: Mapping[str, set[str]]) -> set[str]:
    def of(operand: str) -> set[str]:
        ref = call.operands.get(operand)
        return set(found.get(ref.name, ())) if isinstance(ref, Ref) else set()

    if call.operator in ("tile.fixpipe_requant", "tile.fixpipe_store"):
        return {requantised_by(table) for table in of("scale")}
    if call.operator in ("tile.matmul", "tile.matmul_bias", "tile.matmul_acc"):
        return set()  # nothing is asked of an accumulator
    return set().union(*map(of, call.operands))
