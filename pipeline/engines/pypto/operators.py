"""Which operators of the DSL a program needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import emulator.language
from emulator.program import Call, For, If, Program, Statement
from pipeline.ground.tiling import limits_of
from workloads.base import Workload


@cache
def operators_of(workload: Workload, program: str, soc: str) -> frozenset[str]:
    """Operators that a program calls, such as `tile.img2col`. It is read for the workload's example geometry.

    The geometry changes only how often operators are called, not which ones.
    """
    plan = workload.plan(workload.example, limits_of(soc), {})
    built: Program = workload.program(program).build(emulator.language, plan)
    return frozenset(call.operator for kernel in built.functions.values() for call in _calls(kernel.body))


def _calls(body: Iterable[Statement]) -> Iterator[Call]:
    for statement in body:
        if isinstance(statement, Call):
            yield statement
        elif isinstance(statement, For):
            yield from _calls(statement.body)
        elif isinstance(statement, If):
            yield from _calls((*statement.then, *statement.orelse))
