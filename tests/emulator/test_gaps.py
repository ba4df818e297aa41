"""The loop or branch whose next round would have written a place."""

from __future__ import annotations

import pytest

from emulator.engine import walk_program
from emulator.gaps import around, loops_around, missing_round
from emulator.program import Call, For, If, Program, flat
from emulator.trace import Copy, Recorder
from tests.emulator.dense import DENSE, TO_Y, Read, task_of

BODY = """
m = pl.tile.create([64, 64], pl.INT8, @Mat)
for row in pl.range(FIRST, LAST):
    for half in pl.range(2):
        if half == BRANCH:
            m = pl.tile.gather_row(m, x, dst_offset=[row * 16, half * 32], src_offset=[row * 16, half * 32],
                                   shapes=[16, 32])
y = pl.store(m, [0, 0], y)
"""


def written(read: Read, first: int, last: int, branch: str) -> tuple[Program, list[Copy]]:
    return recorded(
        read, BODY.replace("FIRST", str(first)).replace("LAST", str(last)).replace("BRANCH", branch)
    )


def recorded(read: Read, body: str, factory: str = "") -> tuple[Program, list[Copy]]:
    task = task_of(read(body, factory, **TO_Y), DENSE)
    recorder = Recorder(task.numbering)
    walk_program(task.program, task.soc, {**task.given, **task.outputs()}, recorder)
    recorder.finish()
    events = [event for event in recorder.events if isinstance(event, Copy)]
    return task.program, [event for event in events if event.target.name == "m"]


@pytest.mark.parametrize(
    ("first", "last", "branch", "place", "variable"),
    [
        (0, 3, "half", (48, 0), "row"),
        (1, 4, "half", (0, 0), "row"),
        (0, 2, "half", (63, 0), None),
    ],
    ids=["one round short", "begins late", "two rounds short"],
)
def test_the_loop_that_would_have_come_there_is_found(
    read: Read, first: int, last: int, branch: str, place: tuple[int, int], variable: str | None
) -> None:
    program, events = written(read, first, last, branch)
    found = missing_round(program, events, place)
    assert getattr(found, "variable", None) == variable


def test_the_branch_that_was_not_taken_is_found(read: Read) -> None:
    program, events = written(read, 0, 4, "0")
    assert isinstance(missing_round(program, events, (16, 32)), If)


def test_a_branch_that_is_never_taken_is_found_in_a_loop_too(read: Read) -> None:
    helper = """
@pl.inline
def fill(filled, source, row, column):
    filled = pl.tile.gather_row(
        filled, source, dst_offset=[row, column], src_offset=[row, column], shapes=[16, 32]
    )
    return filled
"""
    body = """
m = pl.tile.create([64, 64], pl.INT8, @Mat)
for part in pl.range(4):
    m = fill(m, x, part * 16, 0)
    if 0 == 1:
        m = fill(m, x, part * 16, 32)
y = pl.store(m, [0, 0], y)
"""
    program, events = recorded(read, body, helper)
    (branch,) = program.functions["kernel"].decided
    assert missing_round(program, events, (16, 40)) is branch
    assert missing_round(program, events, (16, 70)) is None


def test_the_loops_around_a_call_are_the_innermost_first(read: Read) -> None:
    program, _ = written(read, 0, 4, "0")
    call = next(
        each
        for each in flat(program.functions["kernel"].body)
        if isinstance(each, Call) and each.operator == "tile.gather_row"
    )
    assert [type(each) for each in around(program, call)] == [If, For, For]
    assert [loop.variable for loop in loops_around(program, call)] == ["half", "row"]
