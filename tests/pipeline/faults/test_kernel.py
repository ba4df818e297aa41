from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.mutants.catalogue.cases import pair_tiling
from emulator.operands import Operand
from emulator.program import Call, For, If, Program, Statement, flat
from emulator.sources import folded
from golden.geometry import Conv, Geometry
from pipeline.faults.kernel import faulty_program
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from workloads import conv_pair
from workloads.faults import FAULTS

GEOMETRY = Geometry(32, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
SUBJECT = Subject(conv_pair.WORKLOAD, GEOMETRY, "a2a3", pair_tiling(4))


def in_branches(block: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The block with every call in a branch of its own."""

    def branched(statement: Statement) -> Statement:
        if isinstance(statement, For):
            return replace(statement, body=in_branches(statement.body))
        return If(statement.position, 1, (statement,), ()) if isinstance(statement, Call) else statement

    return tuple(map(branched, block))


def calls(program: Program) -> list[tuple[str, dict[str, Operand], bool]]:
    """Every call of the kernel, and whether it is spoilt."""
    (kernel,) = (function for function in program.functions.values() if not function.orchestration)
    found = (call for call in flat(kernel.body) if isinstance(call, Call))
    return [(call.operator, dict(call.operands), call.spoil is not None) for call in found]


@pytest.mark.parametrize("name", ["wrong-stride-1", "no-padding-left-2-first", "offset-sign-1", "halo-stale"])
def test_a_call_in_a_branch_has_the_fault_too(name: str) -> None:
    right, form = typed_program(SUBJECT, "fused"), SUBJECT.form("fused")
    assert form is not None
    kernel = {
        key: function if function.orchestration else replace(function, body=in_branches(function.body))
        for key, function in right.functions.items()
    }
    branching = replace(right, functions=kernel)
    faulty = calls(faulty_program(FAULTS[name], right, form, "vreq8"))
    assert calls(faulty_program(FAULTS[name], branching, form, "vreq8")) == faulty != calls(right)


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_what_is_written_says_nothing_of_what_the_fault_changed(name: str) -> None:
    """The source does not say the wrong number, so nothing may be said of it in the source's words."""
    right, form = typed_program(SUBJECT, "fused"), SUBJECT.form("fused")
    assert form is not None
    faulty = faulty_program(FAULTS[name], right, form, "vreq8")
    for statement in flat(statement for one in faulty.functions.values() for statement in one.body):
        if isinstance(statement, Call):
            said = {operand: folded(tree) for operand, tree in statement.written.items()}
            assert said == {operand: statement.operands[operand] for operand in said}
        elif isinstance(statement, For):
            assert tuple(map(folded, statement.written)) in ((), (statement.start, statement.stop))
