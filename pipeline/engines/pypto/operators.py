"""Which operators of the DSL a program needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from emulator.program import Call, For, If, Statement
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from workloads.base import Workload


@cache
def operators_of(workload: Workload, program: str, soc: str) -> frozenset[str]:
    """Operators that a program calls, such as `tile.img2col`. It is read for the workload's example geometry.

    The geometry changes only how often operators are called, not which ones.
    """
    built = typed_program(Subject(workload, workload.example, soc), program)
    return frozenset(call.operator for kernel in built.functions.values() for call in _calls(kernel.body))


def _calls(body: Iterable[Statement]) -> Iterator[Call]:
    for statement in body:
        if isinstance(statement, Call):
            yield statement
        elif isinstance(statement, For):
            yield from _calls(statement.body)
        elif isinstance(statement, If):
            yield from _calls((*statement.then, *statement.orelse))
