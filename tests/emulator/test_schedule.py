"""What a kept walk computes at once must be what it would be step by step."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulator.engine import compile_program, run_program
from emulator.program import Program
from emulator.soc import SOCS
from golden import vreq8
from tests.emulator.both import alike

Read = Callable[..., Program]
A2A3 = SOCS["a2a3"]

TENSORS = {
    "x": "pl.Tensor[[128, 64], pl.INT8]",
    "w": "pl.Tensor[[128, 64], pl.INT8]",
    "b": "pl.Tensor[[1, 64], pl.INT32]",
    "s": "pl.Tensor[[1, 64], pl.UINT64]",
    "y": "pl.Out[pl.Tensor[[64, 64], pl.INT8]]",
    "z": "pl.Out[pl.Tensor[[64, 64], pl.INT32]]",
}
IMAGE = "image_shape=(8, 8), kernel_size=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1)"
OTHER_IMAGE = IMAGE.replace("(1, 1, 1, 1)", "(2, 0, 2, 0)")
BEGIN = """
m = pl.load(x, [0, 0], [64, 64], @Mat)
f = pl.load(w, [0, 0], [64, 64], @Mat)
b1 = pl.load(b, [0, 0], [1, 64], @Mat)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
bias = pl.move(b1, @Bias)
scale = pl.move(s1, @LeftScale)
a = pl.tile.extract(m, 0, 0, shape=[64, 32], @Left)
r = pl.tile.extract(f, 0, 0, shape=[32, 64], @Right)
acc = pl.tile.matmul_bias(a, r, bias)
other = pl.tile.matmul(a, r)
"""
END = """
z = pl.store(acc, [0, 0], z)
y = pl.tile.fixpipe_store(other, scale, y, [0, 0])
"""
STEPS = {
    "left": "a = pl.tile.extract(m, 0, {k}, shape=[64, 32], @Left)",
    "left, unfolded": f"a = pl.tile.img2col(m, 0, {{taps}}, [64, 32], {IMAGE})",
    "left, of the filter": "a = pl.tile.extract(f, 0, {k}, shape=[64, 32], @Left)",
    "left, unfolded with other padding": f"a = pl.tile.img2col(m, 0, {{taps}}, [64, 32], {OTHER_IMAGE})",
    "right": "r = pl.tile.extract(f, {k}, 0, shape=[32, 64], @Right)",
    "acc": "acc = pl.tile.matmul_acc(acc, a, r)",
    "other": "other = pl.tile.matmul_acc(other, a, r)",
    "map": "m = pl.tile.gather_row(m, x, dst_offset=[0, {k}], src_offset=[{row}, {k}], shapes=[32, 32])",
    "filter": "f = pl.tile.gather_row(f, w, dst_offset=[{k}, 0], src_offset=[{row}, 0], shapes=[32, 64])",
    "map from sums": "m = pl.tile.fixpipe_requant(m, acc, scale, [0, 0])",
    "filter from sums": "f = pl.tile.fixpipe_requant(f, other, scale, [0, 0])",
    "store": "z = pl.store(other, [0, 0], z)",
    "fewer": "other = pl.tile.set_validshape(other, 48, 64)",
    "map's end": "m = pl.tile.set_validshape(m, 48, 64)\nm = pl.tile.fillpad_inplace(m)",
    "K loop": "for i in pl.range(2):\n"
    "    a = pl.tile.extract(m, 0, i * 32, shape=[64, 32], @Left)\n"
    "    r = pl.tile.extract(f, i * 32, 0, shape=[32, 64], @Right)\n"
    "    acc = pl.tile.matmul_acc(acc, a, r)",
    "unfolded K loop": "for j in pl.range(18):\n"
    f"    a = pl.tile.img2col(m, 0, j * 32, [64, 32], {IMAGE})\n"
    "    r = pl.tile.extract(f, j % 2 * 32, 0, shape=[32, 64], @Right)\n"
    "    other = pl.tile.matmul_acc(other, a, r)",
}
"""What may come in any order. `k` is 0 or 32, `row` up to 96, `taps` up to 544."""

Step = tuple[str, int, int, int]


def arrays(seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    random = np.random.default_rng(seed)
    return {
        "x": random.integers(-128, 128, (128, 64)).astype(np.int8),
        "w": random.integers(-128, 128, (128, 64)).astype(np.int8),
        "b": random.integers(-(2**20), 2**20, (1, 64)).astype(np.int32),
        "s": vreq8.pack(random.uniform(-(2**-11), 2**-11, 64), random.integers(-256, 256, 64)),
        "y": np.full((64, 64), 99, np.int8),
        "z": np.full((64, 64), 99, np.int32),
    }


def body(steps: Sequence[Step]) -> str:
    lines = [STEPS[name].format(k=k, row=row, taps=taps) for name, k, row, taps in steps]
    return "\n".join([BEGIN, *lines, END])


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(sorted(STEPS)),
            st.sampled_from([0, 32]),
            st.sampled_from([0, 32, 64, 96]),
            st.integers(0, 17).map(lambda group: group * 32),
        ),
        max_size=14,
    )
)
@example([("left, of the filter", 0, 0, 0), ("filter", 0, 64, 0), ("map", 0, 64, 0), ("acc", 0, 0, 0)])
@example(
    [
        ("left, unfolded", 0, 0, 64),
        ("acc", 0, 0, 0),
        ("left, unfolded with other padding", 0, 0, 96),
        ("acc", 0, 0, 0),
    ]
)
def test_any_order_of_operators_gives_what_it_gives_step_by_step(read: Read, steps: list[Step]) -> None:
    alike(read(body(steps), **TENSORS), arrays())


def test_a_right_operand_is_read_anew_once_its_tile_was_written_in_place(read: Read) -> None:
    """It is cut from where one was cut before, but has other bytes: the two products share no operand."""
    program = read(
        """
        m = pl.load(x, [0, 0], [64, 64], @Mat)
        f = pl.load(w, [0, 0], [64, 64], @Mat)
        a = pl.tile.extract(m, 0, 0, shape=[64, 64], @Left)
        r = pl.tile.extract(f, 0, 0, shape=[64, 64], @Right)
        acc = pl.tile.matmul(a, r)
        f = pl.tile.gather_row(f, w, dst_offset=[0, 0], src_offset=[64, 0], shapes=[64, 64])
        r = pl.tile.extract(f, 0, 0, shape=[64, 64], @Right)
        acc = pl.tile.matmul_acc(acc, a, r)
        z = pl.store(acc, [0, 0], z)
        """,
        **{name: TENSORS[name] for name in "xwz"},
    )
    given = {name: array for name, array in arrays().items() if name in "xwz"}
    said, own = alike(program, given)
    assert not said
    x, w = given["x"][:64].astype(np.int64), given["w"].astype(np.int64)
    np.testing.assert_array_equal(own["z"], x @ w[:64] + x @ w[64:])


@pytest.mark.parametrize("step", [32, 96, 1056])
def test_a_deep_k_loop_is_exact_at_the_extremes(read: Read, step: int) -> None:
    """Its sums are above 2**24, which fp32 does not hold."""
    depth = 3168
    program = read(
        f"""
        for band in pl.range(2):
            m = pl.load(x, [band * 16, 0], [16, {depth}], @Mat)
            g = pl.load(w, [0, 0], [{depth}, 32], @Mat)
            a = pl.tile.extract(m, 0, 0, shape=[16, {step}], @Left)
            r = pl.tile.extract(g, 0, 0, shape=[{step}, 32], @Right)
            acc = pl.tile.matmul(a, r)
            for k in pl.range(1, {depth // step}):
                a = pl.tile.extract(m, 0, k * {step}, shape=[16, {step}], @Left)
                r = pl.tile.extract(g, k * {step}, 0, shape=[{step}, 32], @Right)
                acc = pl.tile.matmul_acc(acc, a, r)
            z = pl.store(acc, [band * 16, 0], z)
        """,
        x=f"pl.Tensor[[32, {depth}], pl.INT8]",
        w=f"pl.Tensor[[{depth}, 32], pl.INT8]",
        z="pl.Out[pl.Tensor[[32, 32], pl.INT32]]",
    )
    x, w = np.full((32, depth), -128, np.int8), np.full((depth, 32), -128, np.int8)
    x[1::2, ::2], x[:, -1], w[:, 1::2] = 127, 1, 127
    said, own = alike(program, {"x": x, "w": w, "z": np.zeros((32, 32), np.int32)})
    assert not said
    exact = x.astype(np.int64) @ w.astype(np.int64)
    assert exact.max() > 2**25
    np.testing.assert_array_equal(own["z"], exact)


@pytest.mark.parametrize("variant", ["vreq8", "half-away", "exact"])
def test_a_kept_walk_serves_other_data_and_other_variants(read: Read, variant: str) -> None:
    program = read(
        body([("K loop", 0, 0, 0), ("map from sums", 0, 0, 0), ("unfolded K loop", 0, 0, 0)]), **TENSORS
    )
    for seed in (1, 2):
        said, _ = alike(program, arrays(seed), variant)
        assert not said


def test_a_run_keeps_no_array_and_few_programs_are_kept(read: Read) -> None:
    program, own = read(body([]), **TENSORS), arrays()
    run_program(program, A2A3, own)
    y, kept = weakref.ref(own["y"]), weakref.ref(program)
    del own
    assert y() is None
    others = [read(body([]), **TENSORS) for _ in range(8)]
    del program
    for other in others:
        compile_program(other, A2A3)
    gc.collect()
    assert kept() is None


def test_what_comes_before_a_refused_operator_is_computed_and_may_be_refused_itself(read: Read) -> None:
    """As on a device: the first thing that is wrong is what is told."""
    outside = "\nm = pl.load(x, [128, 0], [64, 64], @Mat)"
    program = read(f"{body([])}{outside}", **TENSORS)
    said, own = alike(program, arrays())
    assert "[64, 64] at [128, 0] is outside tensor x" in said
    assert (own["y"] != 99).any()
    no_number = arrays()
    no_number["s"][0, 5] = np.uint64(0x7FC00000)
    said, own = alike(program, no_number)
    assert "channel 5 of the scale table holds nan" in said
    assert (own["y"] == 99).all()
    assert (own["z"] != 99).any()
