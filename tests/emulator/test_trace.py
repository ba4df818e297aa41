"""The record of a walk: what each operator read, wrote and held."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.engine import walk_program
from emulator.terms import NEVER, Numbering
from emulator.trace import Copy, Leave, Multiply, Recorder
from tests.emulator.dense import DENSE, FIRST, ROWS, STORE, TO_Y, WHOLE, Read, task_of


def recorded(read: Read, body: str) -> tuple[Recorder, Numbering]:
    task = task_of(read(body, **TO_Y), DENSE)
    recorder = Recorder(task.numbering)
    walk_program(task.program, task.soc, {**task.given, **task.outputs()}, recorder)
    recorder.finish()
    return recorder, task.numbering


def of(kind: type[Any], recorder: Recorder) -> list[Any]:
    return [event for event in recorder.events if isinstance(event, kind)]


def test_each_operator_is_an_event_in_the_order_of_the_walk(read: Read) -> None:
    recorder, _ = recorded(read, WHOLE)
    calls = [event.step.call.operator for event in recorder.events]
    assert calls[-4:] == ["tile.extract", "tile.extract", "tile.matmul_acc", "tile.fixpipe_store"]
    assert [event.number for event in recorder.events] == list(range(len(calls)))


def test_a_copy_says_which_element_went_where(read: Read) -> None:
    recorder, numbering = recorded(read, WHOLE)
    copy = next(each for each in of(Copy, recorder) if each.step.call.target == "a" and each.numbers["col"])
    assert copy.source.name == "m"
    held = copy.held.reshape(-1)[copy.index]
    assert np.array_equal(held, numbering.ids("x")[:, 32:])


def test_sums_that_leave_know_their_products_and_what_they_are(read: Read) -> None:
    recorder, numbering = recorded(read, WHOLE)
    (leave,) = of(Leave, recorder)
    assert list(leave.products) == of(Multiply, recorder)
    assert np.array_equal(leave.ids, numbering.ids("y"))
    assert leave.good.all()
    assert np.array_equal(leave.entries, numbering.ids("s")[0])


def test_sums_without_most_of_their_terms_keep_what_they_are_meant_to_be(read: Read) -> None:
    """Each row has half of the left elements of one position: that says which sums they are meant to be."""
    recorder, numbering = recorded(read, ROWS + FIRST + STORE)
    (leave,) = of(Leave, recorder)
    assert np.array_equal(leave.ids, numbering.ids("y"))
    assert not leave.good.any()


def test_a_walk_goes_on_over_what_was_never_written(read: Read) -> None:
    body = WHOLE.replace(
        "m = pl.load(x, [0, 0]", "m = pl.tile.create([64, 64], pl.INT8, @Mat)\nn = pl.load(x, [0, 0]"
    )
    recorder, _ = recorded(read, body)
    held = [each.held for each in of(Copy, recorder) if each.source.name == "m"]
    assert len(held) == 2
    assert all((ids == NEVER).all() for ids in held)


def test_a_buffer_keeps_a_version_for_each_change(read: Read) -> None:
    body = "m = pl.tile.create([64, 64], pl.INT8, @Mat)\n"
    for half in (0, 32):
        body += (
            f"m = pl.tile.gather_row(m, x, dst_offset=[0, {half}], src_offset=[0, {half}], shapes=[64, 32])\n"
            f"a = pl.tile.extract(m, 0, {half}, shape=[64, 32], @Left)\n"
        )
    recorder, numbering = recorded(read, body + "y = pl.store(m, [0, 0], y)")
    (buffer,) = {each.source for each in of(Copy, recorder) if each.source.name == "m"}
    assert len(buffer.versions) == 2
    assert (buffer.versions[0][:, 32:] == NEVER).all()
    assert np.array_equal(recorder.contents(recorder.output("y")), numbering.ids("x"))
