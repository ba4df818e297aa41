"""A hint is given where one number mends the program, and only there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.blame import Hint
from emulator.program import Call
from emulator.repair import Change, numbers
from emulator.sources import leaves
from tests.emulator.dense import DENSE, ROWS, SHAPES, TO_Y, WHOLE, Read, proved, task_of, text_at

BLOCKS = (
    ROWS
    + """
r = pl.move(f, @Right)
for part in pl.range(FIRST, LAST):
    a = pl.tile.extract(m, part * ROWS, 0, shape=[16, 64], @Left)
    acc = pl.tile.matmul_bias(a, r, bias)
    y = pl.tile.fixpipe_store(acc, scale, y, [part * PLACE, 0])
"""
)
"""Sixteen rows after the other, by constants with names."""


def hint_of(read: Read, body: str, factory: str = "") -> Hint | None:
    (finding,) = proved(read(body, factory, **TO_Y), DENSE).findings
    return finding.hint


def constants(**others: int) -> str:
    values = {"FIRST": 0, "LAST": 4, "ROWS": 16, "PLACE": 16} | others
    return "\n".join(f"{name} = {value}" for name, value in values.items())


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [("LAST", 3, 4), ("FIRST", 1, 0), ("ROWS", 0, 16), ("PLACE", 0, 16)],
)
def test_the_constant_that_is_wrong_is_named_with_its_right_value(
    read: Read, name: str, value: int, right: int
) -> None:
    hint = hint_of(read, BLOCKS, constants(**{name: value}))
    assert hint is not None
    assert (hint.text, hint.value, hint.right) == (name, value, right)
    assert hint.origin.startswith(f"{value}, ")


COLUMN = st.sampled_from(["(m, 0, 0", "(m, 0, 32", "(f, 0, 0", "(f, 32, 0"])


@settings(max_examples=12, deadline=None)
@given(place=COLUMN, wrong=st.sampled_from([0, 32]), name=st.from_regex(r"c[a-z]{2,6}", fullmatch=True))
def test_whatever_offset_is_wrong_is_named(read: Read, place: str, wrong: int, name: str) -> None:
    """One offset of the four operands of two products has a name, and perhaps a wrong value."""
    by_row = place.startswith("(f")
    right = int(place.split(", ")[1 if by_row else 2])
    named = f"(f, {name}, 0" if by_row else f"(m, 0, {name}"
    body = WHOLE.replace(f"{place},", f"{named},")
    assert body != WHOLE
    proof = proved(read(body, f"{name} = {wrong}", **TO_Y), DENSE)
    if wrong == right:
        assert not proof.wrong
        return
    (finding,) = proof.findings
    assert finding.hint is not None
    assert (finding.hint.text, finding.hint.value, finding.hint.right) == (name, wrong, right)


def test_no_single_number_is_said_where_rounds_need_different_ones(read: Read) -> None:
    body = BLOCKS.replace("part * ROWS, 0, shape", "(part * part * 16) % 64, 0, shape")
    (finding,) = proved(read(body, constants(), **TO_Y), DENSE).findings
    assert finding.hint is None
    assert finding.words.endswith("no single number would mend every round")


def test_a_number_that_several_lines_share_is_one_finding(read: Read) -> None:
    wide = {**TO_Y, "b": "pl.Tensor[[1, 128], pl.INT32]", "s": "pl.Tensor[[1, 128], pl.UINT64]"}
    body = WHOLE.replace("(b, [0, 0]", "(b, [0, column]").replace("(s, [0, 0]", "(s, [0, column]")
    shapes = {**SHAPES, "b": (1, 128), "s": (1, 128)}
    (finding,) = proved(read(body, "column = 64", **wide), DENSE, shapes=shapes).findings
    assert finding.hint is not None
    assert (finding.hint.text, finding.hint.right) == ("column", 0)
    named = [text_at(position) for position in (finding.position, *finding.others)]
    assert sorted(line[:14] for line in named) == ["b1 = pl.load(b", "s1 = pl.load(s"]


def test_another_tile_of_the_same_type_is_named(read: Read) -> None:
    hint = hint_of(read, WHOLE.replace("(f, 32, 0", "(m, 32, 0"))
    assert hint is not None
    assert (hint.value, hint.right) == ("m", "f")


def test_a_hint_is_in_words(read: Read) -> None:
    hint = hint_of(read, BLOCKS, constants(LAST=3))
    assert hint is not None
    assert str(hint).startswith(f"LAST, {hint.position}, is 3 (3, ")
    assert str(hint).endswith("; 4 would be right in every round")


def test_a_change_is_made_wherever_the_constant_is_read(read: Read) -> None:
    body = WHOLE.replace("(m, 0, 32,", "(m, 0, half,").replace("(f, 32, 0,", "(f, half, 0,")
    task = task_of(read(body, "half = 0", **TO_Y), DENSE)
    call = next(
        each
        for each in task.program.functions["kernel"].body
        if isinstance(each, Call) and any(leaf.text == "half" for leaf in leaves(each.written.get("col", ())))
    )
    (leaf,) = leaves(call.written["col"])
    changed = Change("col", leaf, 32).applied(task.program)
    assert proved(changed, DENSE).wrong == 0


def test_numbers_are_those_that_all_rounds_ask_for(read: Read) -> None:
    task = task_of(read(BLOCKS, constants(PLACE=0), **TO_Y), DENSE)
    found = [each for each in task.suspicions() if "store" in each.event.step.call.operator]
    assert {(change.leaf.text, change.value) for change in numbers(found)} <= {("PLACE", 16)}
