"""Proofs by a walk on coordinates: what is proved is right for all inputs, what is refuted is wrong for some.

Each test states what a program computes by its source, or by numbers that a run computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.backward import NOTHING
from emulator.elements import PADDING
from emulator.engine import compile_program, run_program
from emulator.errors import AccessError
from emulator.program import Call
from emulator.proof import Proof, prove
from emulator.terms import Numbering, UndecidedError
from golden.terms import Sums, matrix, row
from tests.emulator.dense import (
    A2A3,
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
    proved,
    task_of,
    text_at,
)

BY_L1 = """
mid = pl.tile.create([64, 64], pl.INT8, @Mat)
mid = pl.tile.fixpipe_requant(mid, acc, scale, [0, 0])
y = pl.store(mid, [0, 0], y)
"""
SWAPPED = ROWS + (
    FIRST.replace("(m, 0, 0", "(m, 0, 32").replace("(f, 0, 0", "(f, 32, 0")
    + SECOND.replace("(m, 0, 32", "(m, 0, 0").replace("(f, 32, 0", "(f, 0, 0")
)
DISCARDED = """
a = pl.tile.extract(m, 0, 32, shape=[64, 32], @Left)
wrong = pl.tile.matmul(a, r)
wrong = pl.tile.matmul_acc(wrong, a, r)
"""


@pytest.mark.parametrize(
    "body",
    [
        WHOLE,
        ROWS + FIRST + SECOND + BY_L1,
        SWAPPED + STORE,
        WHOLE + DISCARDED,
        ROWS + FIRST + STORE + SECOND + STORE,
        WHOLE + STORE,
    ],
    ids=["to GM", "by L1", "steps swapped", "a wrong product is discarded", "overwritten", "stored twice"],
)
def test_what_reaches_the_output_as_defined_is_proved(read: Read, body: str) -> None:
    assert proved(read(body, **TO_Y), DENSE) == Proof(64 * 64)


@pytest.mark.parametrize(
    ("old", "new", "wrong", "first", "words"),
    [
        ("(m, 0, 32", "(m, 0, 0", 4096, "y[0, 0]", "it reads x[0, 0] where x[0, 32] is needed"),
        ("(f, 32, 0", "(f, 0, 0", 4096, "y[0, 0]", "it reads w[0, 0] where w[32, 0] is needed"),
        (
            SECOND,
            "",
            4096,
            "y[0, 0]",
            "32 terms of the sum of y[0, 0] never come, the first is x[0, 32] x w[32, 0]",
        ),
        (
            SECOND,
            SECOND + SECOND,
            4096,
            "y[0, 0]",
            "x[0, 32] x w[32, 0] is added to the sum of y[0, 0] a second time",
        ),
        ("load(b,", "load(c,", 4096, "y[0, 0]", "it reads c[0, 0] where b[0, 0] is needed"),
        (
            "matmul_bias(a, r, bias)",
            "matmul(a, r)",
            4096,
            "y[0, 0]",
            "the sum of y[0, 0] begins with no bias, it must begin with b[0, 0]",
        ),
        (
            "(w, [0, 0], [64, 64]",
            "(x, [0, 0], [64, 64]",
            4096,
            "y[0, 0]",
            "it reads x[0, 0] where w[0, 0] is needed",
        ),
        (
            "m = pl.load(x, [0, 0], [64, 64], @Mat)",
            "m = pl.tile.create([64, 64], pl.INT8, @Mat)\n"
            "for half in pl.range(2):\n"
            "    m = pl.tile.gather_row(m, x, dst_offset=[half * 32, 0], src_offset=[32 - half * 32, 0],"
            " shapes=[32, 64])",
            4096,
            "y[0, 0], which holds y[32, 0], must hold y[0, 0]",
            "it reads x[32, 0] where x[0, 0] is needed",
        ),
        (
            "m = pl.load(x, [0, 0], [64, 64], @Mat)",
            "m = pl.load(x, [0, 0], [64, 64], @Mat)\n"
            "m = pl.tile.gather_row(m, x, dst_offset=[48, 32], src_offset=[0, 32], shapes=[16, 32])",
            16 * 64,
            "y[48, 0]",
            "it reads x[0, 32] where x[48, 32] is needed",
        ),
    ],
)
def test_a_mistake_is_refuted_in_words(
    read: Read, old: str, new: str, wrong: int, first: str, words: str
) -> None:
    assert WHOLE.count(old) == 1
    proof = proved(read(WHOLE.replace(old, new), **TO_Y), DENSE)
    assert proof.wrong == wrong
    assert proof.words == first
    assert words in str(proof.findings[0])
    assert len(proof.findings) == 1


def test_a_mistake_in_a_loop_is_named_with_its_round(read: Read) -> None:
    body = ROWS + FIRST + "for k in pl.range(1, 2):" + SECOND.replace("\n", "\n    ") + "\n" + STORE
    program = read(body.replace("(m, 0, 32", "(m, 0, (1 - k) * 32"), **TO_Y)
    (finding,) = proved(program, DENSE).findings
    assert finding.rounds == {"k": 1}
    assert text_at(finding.position).startswith("a = pl.tile.extract(m, 0, (1 - k) * 32")
    assert str(finding).startswith(f"extract, {finding.position}, k 1: it reads x[0, 0] where ")


def test_a_table_of_other_columns_is_named(read: Read) -> None:
    body = WHOLE.replace("load(s, [0, 0], [1, 64]", "load(t, [0, 64], [1, 64]")
    tensors = {**TO_Y, "t": "pl.Tensor[[1, 128], pl.UINT64]"}
    tensors["y"] = tensors.pop("y")
    block = replace(DENSE, table=("t", row))
    proof = proved(read(body, **tensors), block, shapes={**SHAPES, "t": (1, 128)})
    assert proof.wrong == 4096
    assert "it reads t[0, 64] where t[0, 0] is needed" in proof.findings[0].words


def test_sums_that_must_stay_as_they_are_must_not_be_requantised(read: Read) -> None:
    proof = proved(read(WHOLE, **TO_Y), replace(SUMS, result=("y", SQUARE)))
    assert proof.wrong == 4096
    assert "is requantised, but is defined as it is" in proof.findings[0].words


def test_sums_that_must_be_requantised_must_not_stay_as_they_are(read: Read) -> None:
    body = ROWS + FIRST + SECOND + "z = pl.store(acc, [0, 0], z)"
    proof = proved(read(body, **TO_Z), replace(DENSE, result=("z", SQUARE)))
    assert proof.words == "z[0, 0], which holds the sum of z[0, 0] before requantisation, must hold z[0, 0]"


HALVES = st.sampled_from([0, 32])
PLACES = st.sampled_from([0, 16, 32])


@settings(max_examples=80, deadline=None)
@given(
    steps=st.lists(st.tuples(HALVES, HALVES), min_size=1, max_size=3),
    bias=st.sampled_from(["bias", "other", ""]),
    source=PLACES,
    place=PLACES,
)
def test_a_proof_says_the_same_as_numbers(
    read: Read, steps: list[tuple[int, int]], bias: str, source: int, place: int
) -> None:
    """All sums are right; then half of them are stored again: of any rows, place, steps of K and bias."""
    body = ROWS + FIRST + SECOND + "z = pl.store(acc, [0, 0], z)\nother = pl.move(c1, @Bias)\n"
    for number, (left, right) in enumerate(steps):
        product = "part = pl.tile.matmul_acc(part, h, r)"
        if number == 0:
            product = f"part = pl.tile.matmul_bias(h, r, {bias})" if bias else "part = pl.tile.matmul(h, r)"
        body += f"""
h = pl.tile.extract(m, {source}, {left}, shape=[32, 32], @Left)
r = pl.tile.extract(f, {right}, 0, shape=[32, 64], @Right)
{product}
"""
    program = read(f"{body}z = pl.store(part, [{place}, 0], z)", **TO_Z)
    random = np.random.default_rng(1)
    arrays: dict[str, npt.NDArray[Any]] = {
        "x": random.integers(-128, 128, (64, 64)).astype(np.int8),
        "w": random.integers(-128, 128, (64, 64)).astype(np.int8),
        "b": random.integers(-999, 999, (1, 64)).astype(np.int32),
        "c": random.integers(-999, 999, (1, 64)).astype(np.int32),
        "s": np.zeros((1, 64), np.uint64),
        "z": np.zeros((64, 64), np.int32),
    }
    run_program(program, A2A3, arrays)
    wanted = arrays["x"].astype(np.int64) @ arrays["w"].astype(np.int64) + arrays["b"]
    wrong = int((arrays["z"] != wanted).sum())
    proof = proved(program, SUMS)
    assert (proof.wrong == 0) == (wrong == 0)
    assert proof.wrong >= wrong


# -- padding, blocks, definitions

BESIDE = replace(SUMS, left=("x", lambda rows, depths: np.where(depths < 32, -1, SQUARE(rows, depths))))
"""z = x @ w + b, but the first half of K is padding."""


def test_terms_that_are_padding_may_be_left_out(read: Read) -> None:
    second = SECOND.replace("matmul_acc(acc, a, r)", "matmul_bias(a, r, bias)")
    program = read(ROWS + second + "z = pl.store(acc, [0, 0], z)", **TO_Z)
    assert proved(program, BESIDE) == Proof(64 * 64)


def test_data_where_padding_must_be_is_refuted(read: Read) -> None:
    program = read(ROWS + FIRST + SECOND + "z = pl.store(acc, [0, 0], z)", **TO_Z)
    proof = proved(program, BESIDE)
    assert proof.wrong == 4096
    assert "it reads x[0, 0] where padding is needed" in proof.findings[0].words


def test_padding_from_img2col_is_padding(read: Read) -> None:
    """A window of 1 x 2 over rows of 16 pixels with one column of padding on the left."""
    shapes = {"x": (64, 32), "w": (64, 64), "z": (64, 64)}

    def windows(positions: Index, depths: Index) -> Index:
        column = (positions % 16)[:, None] + depths // 32 - 1
        return np.where(column < 0, -1, (positions[:, None] + depths // 32 - 1) * 32 + depths % 32)

    block = Sums((64, 64, 64), ("x", windows), ("w", SQUARE), ("z", SQUARE))
    body = """
    m = pl.load(x, [0, 0], [64, 32], @Mat)
    f = pl.load(w, [0, 0], [64, 64], @Mat)
    a = pl.tile.img2col(m, 0, 0, [64, 64], image_shape=(4, 16), kernel_size=(1, 2), stride=(1, 1),
                        padding=PADDING)
    r = pl.move(f, @Right)
    acc = pl.tile.matmul(a, r)
    z = pl.store(acc, [0, 0], z)
    """
    tensors = {
        "x": "pl.Tensor[[64, 32], pl.INT8]",
        "w": "pl.Tensor[[64, 64], pl.INT8]",
        "z": "pl.Out[pl.Tensor[[64, 64], pl.INT32]]",
    }
    assert not proved(read(body.replace("PADDING", "(0, 0, 1, 0)"), **tensors), block, shapes=shapes).wrong
    assert (
        proved(read(body.replace("PADDING", "(0, 0, 0, 1)"), **tensors), block, shapes=shapes).wrong == 4096
    )


GROUPS = [
    Sums(
        (64, 32, 32),
        ("x", lambda rows, depths, group=group: SQUARE(rows, depths + 32 * group)),
        ("w", lambda depths, columns, group=group: SQUARE(depths, columns + 32 * group)),
        ("z", lambda rows, columns, group=group: SQUARE(rows, columns + 32 * group)),
    )
    for group in range(2)
]
"""Two groups: columns of z from 32 on use columns of x from 32 on; w has 32 rows that are used."""
GROUPED = {
    "x": "pl.Tensor[[64, 64], pl.INT8]",
    "v": "pl.Tensor[[64, 64], pl.INT8]",
    "z": "pl.Out[pl.Tensor[[64, 64], pl.INT32]]",
}


def grouped_filter(*, swapped: bool) -> npt.NDArray[Any]:
    """Ids of w's first 32 rows, with zeros so that one product computes both groups."""
    ids = Numbering(SHAPES, GROUPS).ids("w")
    wide = np.zeros_like(ids)
    for group in range(2):
        columns = slice(32 * group, 32 * group + 32)
        rows = 32 - 32 * group if swapped else 32 * group
        wide[rows : rows + 32, columns] = ids[:32, columns]
    return wide


@pytest.mark.parametrize("swapped", [False, True])
def test_a_block_is_a_group(read: Read, swapped: bool) -> None:
    body = """
    m = pl.load(x, [0, 0], [64, 64], @Mat)
    f = pl.load(v, [0, 0], [64, 64], @Mat)
    a = pl.move(m, @Left)
    r = pl.move(f, @Right)
    acc = pl.tile.matmul(a, r)
    z = pl.store(acc, [0, 0], z)
    """
    proof = proved(read(body, **GROUPED), *GROUPS, v=grouped_filter(swapped=swapped))
    assert proof.wrong == (4096 if swapped else 0)


@pytest.mark.parametrize("shift", [0, 1])
def test_zeros_of_the_host_are_no_terms_and_what_is_not_wanted_may_hold_anything(
    read: Read, shift: int
) -> None:
    """40 x 50 taps, packed as 64 x 64: for the last channels of x and of y there are none."""
    block = replace(DENSE, shape=(64, 40, 50), right=("w", matrix(50)), result=("y", matrix(50)))
    shapes = {**SHAPES, "w": (40, 50), "b": (1, 50), "s": (1, 50), "y": (64, 50)}
    task = task_of(read(WHOLE, **TO_Y), block, shapes=shapes)

    def packed(name: str, rest: int) -> npt.NDArray[Any]:
        ids = task.numbering.ids(name)
        rows = 64 if name in ("w", "y") else 1
        whole = np.full((rows, 64), rest, ids.dtype)
        whole[: ids.shape[0], : ids.shape[1]] = ids
        return whole

    given = {name: packed(name, PADDING) for name in ("w", "b", "s")}
    given["w"] = np.roll(given["w"], shift, axis=0)
    proof = prove(replace(task, given={**task.given, **given}, wanted={"y": packed("y", NOTHING)}))
    assert (proof.checked, proof.wrong) == (64 * 50, 64 * 50 * shift)


def test_a_program_that_compile_refuses_is_refused(read: Read) -> None:
    body = WHOLE.replace(
        "m = pl.load(x, [0, 0], [64, 64], @Mat)", "m = pl.tile.create([64, 64], pl.INT8, @Mat)"
    )
    with pytest.raises(AccessError, match="never written"):
        compile_program(read(body, **TO_Y), A2A3)
    proof = proved(read(body, **TO_Y), DENSE)
    assert (proof.wrong, proof.checked) == (4096, 4096)
    assert "never written" in proof.words


@pytest.mark.parametrize(
    ("right", "reason"),
    [
        (
            lambda depths, columns: SQUARE(depths, columns // 2),
            "an element of w is in several depths or columns",
        ),
        (lambda depths, columns: SQUARE(depths, columns) - 64, "a right operand from w is padding"),
    ],
)
def test_a_definition_whose_sums_cannot_be_told_apart_is_not_decided(
    read: Read, right: Callable[[Index, Index], Index], reason: str
) -> None:
    with pytest.raises(UndecidedError, match=reason):
        proved(read(WHOLE, **TO_Y), replace(DENSE, right=("w", right)))


def test_an_injected_fault_cannot_be_walked(read: Read) -> None:
    program = read(WHOLE, **TO_Y)
    kernel = program.functions["kernel"]
    body = tuple(
        replace(part, spoil=lambda values, result: None)
        if isinstance(part, Call) and part.operator == "tile.matmul_acc"
        else part
        for part in kernel.body
    )
    spoilt = replace(program, functions={**program.functions, "kernel": replace(kernel, body=body)})
    with pytest.raises(ValueError, match="injected fault"):
        proved(spoilt, DENSE)
