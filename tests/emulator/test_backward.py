"""The walk back suspects the operator that is at fault, and of the right thing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from emulator.backward import Fault, Suspicion
from emulator.backward.depths import depths_of
from emulator.backward.lookup import positions
from golden.terms import Sums
from tests.emulator.dense import (
    DENSE,
    FIRST,
    ROWS,
    SECOND,
    SHAPES,
    SQUARE,
    STORE,
    SUMS,
    TO_Y,
    TO_Z,
    WHOLE,
    Index,
    Read,
    task_of,
    text_at,
)

HALVES = (
    ROWS
    + """
r = pl.move(f, @Right)
for half in pl.range(2):
    a = pl.tile.extract(m, half * 32, 0, shape=[32, 64], @Left)
    acc = pl.tile.matmul_bias(a, r, bias)
    y = pl.tile.fixpipe_store(acc, scale, y, [half * 32, 0])
"""
)
"""One half of the rows after the other."""

STALE = """
f = pl.load(w, [0, 0], [64, 64], @Mat)
b1 = pl.load(b, [0, 0], [1, 64], @Mat)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
bias = pl.move(b1, @Bias)
scale = pl.move(s1, @LeftScale)
r = pl.move(f, @Right)
m = pl.tile.create([32, 64], pl.INT8, @Mat)
for half in pl.range(2):
    m = pl.tile.gather_row(m, x, dst_offset=[0, 0], src_offset=[half * 32, 0], shapes=[32, 32])
    if half == 0:
        m = pl.tile.gather_row(m, x, dst_offset=[0, 32], src_offset=[half * 32, 32], shapes=[32, 32])
    a = pl.move(m, @Left)
    acc = pl.tile.matmul_bias(a, r, bias)
    y = pl.tile.fixpipe_store(acc, scale, y, [half * 32, 0])
"""
"""The second half of the rows is computed with the first half's columns from 32 on."""


def suspected(read: Read, body: str) -> list[Suspicion]:
    return task_of(read(body, **TO_Y), DENSE).suspicions()


@pytest.mark.parametrize(
    ("body", "fault", "line", "wanted", "held"),
    [
        (WHOLE.replace("load(b,", "load(c,"), Fault.SOURCE, "b1 = pl.load(c", "b[0, 0]", "c[0, 0]"),
        (
            WHOLE.replace("(f, 32, 0", "(f, 0, 0"),
            Fault.READERS,
            "r = pl.tile.extract(f, 0, 0",
            "w[32, 0]",
            "w[0, 0]",
        ),
        (ROWS + FIRST + SECOND + SECOND + STORE, Fault.TWICE, "acc = pl.tile.matmul_acc", "y[0, 0]", ""),
        (ROWS + FIRST + STORE, Fault.MISSING_TERMS, "acc = pl.tile.matmul_bias", "y[0, 0]", ""),
        (
            WHOLE.replace("matmul_acc(acc, a, r)", "matmul_bias(a, r, bias)"),
            Fault.DISCARDED,
            "acc = pl.tile.matmul_bias",
            "y[0, 0]",
            "",
        ),
        (WHOLE.replace("_bias(a, r, bias)", "(a, r)"), Fault.BIAS, "acc = pl.tile.matmul(", "b[0, 0]", ""),
        (
            HALVES.replace("y, [half * 32, 0]", "y, [32 - half * 32, 0]"),
            Fault.PLACE,
            "y = pl.tile.fixpipe_store",
            "y[0, 0]",
            "y[32, 0]",
        ),
        (STALE, Fault.STALE, "m = pl.tile.gather_row(m, x, dst_offset=[0, 0]", "x[32, 32]", "x[0, 32]"),
        (
            HALVES.replace("pl.range(2)", "pl.range(1)"),
            Fault.UNWRITTEN,
            "y = pl.tile.fixpipe_store",
            "y[32, 0]",
            "nothing, it was never written",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_the_operator_at_fault_is_suspected(
    read: Read, body: str, fault: Fault, line: str, wanted: str, held: str
) -> None:
    task = task_of(read(body, **TO_Y), DENSE)
    found = task.suspicions()
    assert {each.fault for each in found} == {fault}
    assert all(text_at(each.event.step.call.position).startswith(line) for each in found)
    elements = sorted(found, key=lambda each: each.event.number)[0]
    assert task.numbering.name(elements.wanted) == wanted
    assert not held or task.numbering.name(elements.held) == held


def test_a_second_product_that_begins_anew_is_the_one_suspected(read: Read) -> None:
    (found,) = suspected(read, WHOLE.replace("matmul_acc(acc, a, r)", "matmul_bias(a, r, bias)"))
    lines = [position.line for position in (found.event.step.call.position, found.also.step.call.position)]  # type: ignore[union-attr]
    assert lines[0] > lines[1]


def test_terms_that_are_missing_are_counted(read: Read) -> None:
    task = task_of(read(ROWS + FIRST + STORE, **TO_Y), DENSE)
    (found,) = task.suspicions()
    assert found.terms is not None
    first = task.numbering.name(found.terms.left), task.numbering.name(found.terms.right)
    assert (found.terms.count, *first) == (32, "x[0, 32]", "w[32, 0]")


def test_sums_that_must_stay_as_they_are_are_a_fault_of_the_table(read: Read) -> None:
    (found,) = task_of(read(WHOLE, **TO_Y), replace(SUMS, result=("y", SQUARE))).suspicions()
    assert found.fault is Fault.TABLE
    assert text_at(found.event.step.call.position).startswith("y = pl.tile.fixpipe_store")


def test_padding_on_the_wrong_side_is_a_fault_of_the_window(read: Read) -> None:
    """A window of 1 x 2 over rows of 16 pixels, with a column of padding on the left."""

    def windows(rows: Index, depths: Index) -> Index:
        column = (rows % 16)[:, None] + depths // 32 - 1
        return np.where(column < 0, -1, (rows[:, None] + depths // 32 - 1) * 32 + depths % 32)

    body = """
    m = pl.load(x, [0, 0], [64, 32], @Mat)
    f = pl.load(w, [0, 0], [64, 64], @Mat)
    a = pl.tile.img2col(m, 0, 0, [64, 64], image_shape=(4, 16), kernel_size=(1, 2), stride=(1, 1),
                        padding=(0, 0, 0, 1))
    r = pl.move(f, @Right)
    acc = pl.tile.matmul(a, r)
    z = pl.store(acc, [0, 0], z)
    """
    tensors = {**TO_Z, "x": "pl.Tensor[[64, 32], pl.INT8]"}
    block = Sums((64, 64, 64), ("x", windows), ("w", SQUARE), ("z", SQUARE))
    (found,) = task_of(read(body, **tensors), block, shapes={**SHAPES, "x": (64, 32)}).suspicions()
    assert found.fault is Fault.PADDING
    assert found.event.step.call.operator == "tile.img2col"


def test_a_right_program_has_no_suspicions(read: Read) -> None:
    assert suspected(read, WHOLE) == []
    assert suspected(read, HALVES) == []


def test_a_wrong_product_that_reaches_no_output_is_no_fault(read: Read) -> None:
    discarded = "a = pl.tile.extract(m, 0, 32, shape=[64, 32], @Left)\nwrong = pl.tile.matmul(a, r)\n"
    assert suspected(read, WHOLE + discarded) == []


def test_positions_say_where_ids_stand() -> None:
    assert positions(np.array([[7, 5], [9, 3]]), np.array([3, 7, 4])).tolist() == [3, 0, -1]


def test_the_side_that_has_each_depth_once_says_the_depths(read: Read) -> None:
    task = task_of(read(WHOLE, **TO_Y), DENSE)
    (block,), rows = task.numbering.blocks, np.arange(64)
    left, right = task.numbering.ids("x"), task.numbering.ids("w")
    doubled = np.concatenate([left[:, :32], left[:, :32]], axis=1)
    for one, other in ((left, right), (doubled, right), (left, doubled.T @ right * 0 + right[0])):
        assert depths_of(task.numbering, block, rows, one, other).tolist() == list(range(64))
