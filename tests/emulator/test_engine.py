from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from textwrap import dedent
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.engine import compile_program, run_program
from emulator.errors import AccessError
from emulator.program import Program
from emulator.soc import SOCS, Space
from golden import vreq8

Read = Callable[..., Program]
A2A3 = SOCS["a2a3"]

PRODUCT = """
m = pl.load(x, [0, 0], [64, 64], @Mat)
f = pl.load(w, [0, 0], [64, 64], @Mat)
b1 = pl.load(b, [0, 0], [1, 64], @Mat)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
bias = pl.move(b1, @Bias)
scale = pl.move(s1, @LeftScale)
a = pl.tile.extract(m, 0, 0, shape=[64, 32], @Left)
r = pl.tile.extract(f, 0, 0, shape=[32, 64], @Right)
acc = pl.tile.matmul_bias(a, r, bias)
a = pl.tile.extract(m, 0, 32, shape=[64, 32], @Left)
r = pl.tile.extract(f, 32, 0, shape=[32, 64], @Right)
acc = pl.tile.matmul_acc(acc, a, r)
"""
TO_GM = PRODUCT + "y = pl.tile.fixpipe_store(acc, scale, y, [0, 0])"
BY_L1 = (
    PRODUCT
    + """
mid = pl.tile.create([64, 64], pl.INT8, @Mat)
mid = pl.tile.fixpipe_requant(mid, acc, scale, [0, 0])
y = pl.store(mid, [0, 0], y)
"""
)


def arrays(seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    random = np.random.default_rng(seed)
    return {
        "x": random.integers(-128, 128, (64, 64)).astype(np.int8),
        "w": random.integers(-128, 128, (64, 64)).astype(np.int8),
        "b": random.integers(-(2**20), 2**20, (1, 64)).astype(np.int32),
        "s": vreq8.pack(random.uniform(-(2**-11), 2**-11, 64), random.integers(-256, 256, 64)),
        "y": np.full((64, 64), 99, np.int8),
    }


@pytest.mark.parametrize("body", [TO_GM, BY_L1], ids=["to GM", "by L1"])
@pytest.mark.parametrize("variant", ["vreq8", "round-then-add", "half-away", "offset-unsigned"])
def test_a_product_is_exact(read: Read, body: str, variant: str) -> None:
    given_arrays = arrays()
    run_program(read(body), A2A3, given_arrays, variant)
    acc = given_arrays["x"].astype(np.int64) @ given_arrays["w"].astype(np.int64) + given_arrays["b"]
    expected = vreq8.requantise(acc.astype(np.int32), given_arrays["s"], variant)
    assert len(np.unique(expected)) > 100
    np.testing.assert_array_equal(given_arrays["y"], expected)


@pytest.mark.parametrize(("a", "b"), [(-128, -128), (-128, 127)])
@pytest.mark.parametrize("depth", [1024, 1056, 2080])
def test_a_deep_product_of_extremes_is_exact(read: Read, a: int, b: int, depth: int) -> None:
    program = read(
        f"""
        m = pl.load(x, [0, 0], [16, {depth}], @Mat)
        f = pl.load(w, [0, 0], [{depth}, 16], @Vec)
        g = pl.load(v, [0, 0], [{depth}, 32], @Mat)
        a = pl.move(m, @Left)
        r = pl.tile.extract(g, 0, 0, shape=[{depth}, 16], @Right)
        acc = pl.tile.matmul(a, r)
        z = pl.store(acc, [0, 0], z)
        """,
        x=f"pl.Tensor[[16, {depth}], pl.INT8]",
        w=f"pl.Tensor[[{depth}, 16], pl.INT8]",
        v=f"pl.Tensor[[{depth}, 32], pl.INT8]",
        z="pl.Out[pl.Tensor[[16, 16], pl.INT32]]",
    )
    x, w = np.full((16, depth), a, np.int8), np.full((depth, 16), b, np.int8)
    x[1::2, ::2], x[:, -1] = 127, 1  # odd sums and alternating signs
    z = np.zeros((16, 16), np.int32)
    run_program(program, A2A3, {"x": x, "w": w, "v": np.hstack([w, w]), "z": z})
    np.testing.assert_array_equal(z, x.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.parametrize("body", [TO_GM, BY_L1], ids=["to GM", "by L1"])
def test_compile_and_run_find_the_same(read: Read, body: str) -> None:
    program = read(body)
    compiled, run = compile_program(program, A2A3), run_program(program, A2A3, arrays())
    assert compiled.counts == run.counts
    assert compiled.estimate == run.estimate
    assert compiled.memory["kernel"].residents == run.memory["kernel"].residents


def test_what_is_counted(read: Read) -> None:
    counts = compile_program(read(BY_L1), A2A3).counts
    assert counts.read == {"x": 4096, "w": 4096, "b": 256, "s": 512}
    assert counts.written == {"y": 4096}
    assert counts.moved == {
        ("GM", "L1"): 4096 + 4096 + 256 + 512,
        ("L1", "bias table"): 256,
        ("L1", "fixpipe table"): 512,
        ("L1", "L0A"): 4096,
        ("L1", "L0B"): 4096,
        ("L0C", "L1"): 4096,
        ("L1", "GM"): 4096,
    }
    assert counts.operations == {
        "load": 4,
        "move": 2,
        "store": 1,
        "tile.create": 1,
        "tile.extract": 4,
        "tile.matmul_bias": 1,
        "tile.matmul_acc": 1,
        "tile.fixpipe_requant": 1,
    }
    assert counts.macs == 64 * 64 * 64


PLANES = {
    "load": "m = pl.load(x, [0, 0], [64, 64], @Mat)",
    "load into UB": "m = pl.load(x, [0, 0], [64, 64], @Vec)",
    "gather": "m = pl.tile.create([64, 64], pl.INT8, @Mat)\n"
    "m = pl.tile.gather_row(m, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[64, 64])",
    "gather by rows": "m = pl.tile.create([64, 64], pl.INT8, @Mat)\nfor i in pl.range(4):\n"
    "    m = pl.tile.gather_row(\n"
    "        m, x, dst_offset=[i * 16, 0], src_offset=[i * 16, 0], shapes=[16, 64])",
    "gather by planes": "m = pl.tile.create([64, 64], pl.INT8, @Mat)\nfor i in pl.range(2):\n"
    "    m = pl.tile.gather_row(\n"
    "        m, x, dst_offset=[0, i * 32], src_offset=[0, i * 32], shapes=[64, 32])",
    "gather by planes, the last one first": "m = pl.tile.create([64, 64], pl.INT8, @Mat)\n"
    "for i in pl.range(2):\n"
    "    m = pl.tile.gather_row(\n"
    "        m, x, dst_offset=[0, 32 - i * 32], src_offset=[0, 32 - i * 32], shapes=[64, 32])",
}
READERS = {
    "store": "y = pl.store(m, [0, 0], y)",
    "left": """
        eye = pl.load(w, [0, 0], [64, 64], @Mat)
        a = pl.tile.extract(m, 0, 0, shape=[64, 64], @Left)
        r = pl.move(eye, @Right)
        acc = pl.tile.matmul(a, r)
        """,
    "left by planes": """
        eye = pl.load(w, [0, 0], [64, 64], @Mat)
        a = pl.tile.extract(m, 0, 0, shape=[64, 32], @Left)
        r = pl.tile.extract(eye, 0, 0, shape=[32, 64], @Right)
        acc = pl.tile.matmul(a, r)
        a = pl.tile.extract(m, 0, 32, shape=[64, 32], @Left)
        r = pl.tile.extract(eye, 32, 0, shape=[32, 64], @Right)
        acc = pl.tile.matmul_acc(acc, a, r)
        """,
    "right": """
        eye = pl.load(w, [0, 0], [64, 64], @Mat)
        a = pl.move(eye, @Left)
        r = pl.tile.extract(m, 0, 0, shape=[64, 64], @Right)
        acc = pl.tile.matmul(a, r)
        """,
    "img2col": """
        eye = pl.load(w, [0, 0], [64, 64], @Mat)
        a = pl.tile.img2col(
            m, 0, 0, [64, 64],
            image_shape=(8, 8), kernel_size=(1, 1), stride=(1, 1), padding=(0, 0, 0, 0),
        )
        r = pl.move(eye, @Right)
        acc = pl.tile.matmul(a, r)
        """,
}


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        pytest.param(PLANES[writer], READERS[reader], id=f"{writer}, {reader}")
        for writer, reader in product(PLANES, READERS)
        if reader == "store" or writer != "load into UB"  # from UB there is no way to L0
    ],
)
def test_each_c0_group_comes_from_its_own_place(read: Read, writer: str, reader: str) -> None:
    """What goes through a tile of two C1 planes, and through the unit matrix, is what it was."""
    x = (np.arange(64 * 64).reshape(64, 64) % 251 - 125).astype(np.int8)
    assert not np.array_equal(x[:, :32], x[:, 32:])
    tensors = {"x": "pl.Tensor[[64, 64], pl.INT8]", "w": "pl.Tensor[[64, 64], pl.INT8]"}
    by_l0c, lines = "acc" in reader, dedent(reader)
    dtype, ends = (np.int32, "y = pl.store(acc, [0, 0], y)") if by_l0c else (np.int8, "")
    tensors["y"] = f"pl.Out[pl.Tensor[[64, 64], pl.{'INT32' if by_l0c else 'INT8'}]]"
    y = np.full((64, 64), 99, dtype)
    arrays_of = {"x": x, "w": np.eye(64, dtype=np.int8), "y": y}
    run_program(read(f"{writer}\n{lines}\n{ends}", **tensors), A2A3, arrays_of)
    np.testing.assert_array_equal(y, x)


SUMS = """
m = pl.load(x, [0, 0], [64, 64], @Mat)
f = pl.load(w, [0, 0], [64, 64], @Mat)
r = pl.move(f, @Right)
for i in pl.range({rounds}):
    a = pl.tile.extract(m, i * 16, 0, shape=[16, 64], @Left)
    acc = pl.tile.matmul(a, r)
    z = pl.store(acc, [i * 16, {column}], z)
"""
SUMS_TENSORS = {
    "x": "pl.Tensor[[64, 64], pl.INT8]",
    "w": "pl.Tensor[[64, 64], pl.INT8]",
    "z": "pl.Out[pl.Tensor[[64, 64], pl.INT32]]",
}


@pytest.mark.parametrize("soc", ["a2a3", "a5"])
def test_sums_leave_l0c_as_they_are(read: Read, soc: str) -> None:
    program = read(SUMS.format(rounds=4, column=0), **SUMS_TENSORS)
    given_arrays = {name: array for name, array in arrays().items() if name in "xw"}
    z = np.full((64, 64), 99, np.int32)
    report = run_program(program, SOCS[soc], {**given_arrays, "z": z})
    np.testing.assert_array_equal(z, given_arrays["x"].astype(np.int64) @ given_arrays["w"].astype(np.int64))
    assert report.counts.moved[("L0C", "GM")] == report.counts.written["z"] == 64 * 64 * 4
    assert report.counts.operations["store"] == 4
    assert compile_program(program, SOCS[soc]).counts == report.counts
    if soc == "a2a3":
        assert report.estimate is not None
        assert report.estimate.units["fixpipe"] == pytest.approx(64 * 64 * 4 / 41)
    else:
        assert report.estimate is None


@pytest.mark.parametrize(
    ("rounds", "column", "problem"),
    [
        (3, 0, "1024 of 4096 elements never written, the first at [48, 0]"),
        (4, 16, "[16, 64] at [0, 16] is outside tensor z of shape [64, 64]"),
        (5, 0, "[16, 64] at [64, 0] is outside tile m of shape [64, 64]"),
    ],
)
def test_what_a_store_of_sums_may_not_do(read: Read, rounds: int, column: int, problem: str) -> None:
    with pytest.raises(AccessError) as caught:
        compile_program(read(SUMS.format(rounds=rounds, column=column), **SUMS_TENSORS), A2A3)
    assert caught.value.problem == problem


GATHER = "m = pl.tile.gather_row(m, x, dst_offset=[{}, {}], src_offset=[{}, {}], shapes=[{}, {}])"
WINDOW = "image_shape=(8, 8), kernel_size=(3, 3), stride=(1, 1), padding=(0, 0, 0, 0)"
REFUSED = {
    "load outside the tensor": (
        "t = pl.load(x, [1, 0], [64, 64], @Vec)",
        "[64, 64] at [1, 0] is outside tensor x of shape [64, 64]",
    ),
    "load before the tensor": (
        "t = pl.load(x, [0, -1], [64, 64], @Vec)",
        "[64, 64] at [0, -1] is outside tensor x of shape [64, 64]",
    ),
    "load outside in the last round": (
        "for i in pl.range(3):\n    t = pl.load(x, [i * 32, 0], [32, 64], @Vec)",
        "[32, 64] at [64, 0] is outside tensor x of shape [64, 64]",
    ),
    "load of an output not yet written": (
        "t = pl.load(y, [0, 0], [64, 64], @Vec)",
        "[64, 64] at [0, 0] of output y is read before it is written",
    ),
    "gather outside the tensor": (
        GATHER.format(0, 0, 48, 0, 32, 32),
        "[32, 32] at [48, 0] is outside tensor x of shape [64, 64]",
    ),
    "gather outside the tile": (GATHER.format(48, 0, 0, 0, 32, 32), "[32, 32] at [48, 0] is outside tile m"),
    "gather between fractal rows": (
        GATHER.format(8, 0, 0, 0, 16, 32),
        "row position in the L1 tile is 8: must be a multiple of 16",
    ),
    "gather between fractal columns": (
        GATHER.format(0, 16, 0, 0, 16, 32),
        "column position in the L1 tile is 16: must be a multiple of 32",
    ),
    "extract outside the tile": (
        "a = pl.tile.extract(full, 32, 0, shape=[48, 32], @Left)",
        "[48, 32] at [32, 0] is outside tile full of shape [64, 64]",
    ),
    "left operand between fractal rows": (
        "a = pl.tile.extract(full, 8, 0, shape=[16, 32], @Left)",
        "row position is 8: must be a multiple of 16",
    ),
    "left operand inside K's 32": (
        "a = pl.tile.extract(full, 0, 16, shape=[16, 32], @Left)",
        "column position is 16: must be a multiple of 32",
    ),
    "right operand inside K's 32": (
        "a = pl.tile.extract(full, 16, 0, shape=[32, 32], @Right)",
        "row position is 16: must be a multiple of 32",
    ),
    "right operand between fractal columns": (
        "a = pl.tile.extract(full, 0, 8, shape=[32, 32], @Right)",
        "column position is 8: must be a multiple of 16",
    ),
    "extract of bytes never written": (
        "a = pl.tile.extract(m, 0, 0, shape=[16, 32], @Left)",
        "[16, 32] at [0, 0] of tile m holds bytes never written",
    ),
    "move of a tile partly written": (
        GATHER.format(0, 0, 0, 0, 63, 64) + "\na = pl.move(m, @Left)",
        "[64, 64] at [0, 0] of tile m holds bytes never written",
    ),
    "store of a tile partly written": (
        GATHER.format(0, 0, 0, 0, 64, 32) + "\ny = pl.store(m, [0, 0], y)",
        "[64, 64] at [0, 0] of tile m holds bytes never written",
    ),
    "store outside the tensor": (
        "y = pl.store(full, [16, 0], y)",
        "[64, 64] at [16, 0] is outside tensor y of shape [64, 64]",
    ),
    "fixpipe outside the tensor": (
        "y = pl.tile.fixpipe_store(acc, scale, y, [0, 32])",
        "[32, 64] at [0, 32] is outside tensor y of shape [64, 64]",
    ),
    "fixpipe outside the tile": (
        "m = pl.tile.fixpipe_requant(m, acc, scale, [48, 0])",
        "[32, 64] at [48, 0] is outside tile m of shape [64, 64]",
    ),
    "fixpipe between fractal rows": (
        "m = pl.tile.fixpipe_requant(m, acc, scale, [8, 0])",
        "row position in the L1 tile is 8: must be a multiple of 16",
    ),
    "img2col past the last position": (
        f"a = pl.tile.img2col(full, 32, 0, [16, 32], {WINDOW})",
        "[16, 32] at [32, 0] is outside the unfolded image of shape [36, 576]",
    ),
    "img2col past the last column": (
        f"a = pl.tile.img2col(full, 0, 576, [16, 32], {WINDOW})",
        "[16, 32] at [0, 576] is outside the unfolded image of shape [36, 576]",
    ),
    "img2col inside C0": (
        f"a = pl.tile.img2col(full, 0, 16, [16, 32], {WINDOW})",
        "pos_k is 16: must be a multiple of 32",
    ),
    "img2col of rows never written": (
        GATHER.format(0, 0, 0, 0, 32, 64) + f"\na = pl.tile.img2col(m, 16, 0, [16, 32], {WINDOW})",
        "window tap (0, 0) of C1 plane 0 reads bytes of m never written",
    ),
    "img2col of a plane never written": (
        GATHER.format(0, 0, 0, 0, 64, 32) + f"\na = pl.tile.img2col(m, 0, 320, [16, 32], {WINDOW})",
        "window tap (0, 1) of C1 plane 1 reads bytes of m never written",
    ),
    "more valid rows than there are": (
        "acc = pl.tile.set_validshape(acc, 33, 64)",
        "[33, 64] of a tile of shape [32, 64]: must be 1..32 rows, all columns",
    ),
    "some valid columns": (
        "acc = pl.tile.set_validshape(acc, 32, 32)",
        "[32, 32] of a tile of shape [32, 64]: must be 1..32 rows, all columns",
    ),
}
BEFORE = """
m = pl.tile.create([64, 64], pl.INT8, @Mat)
full = pl.load(x, [0, 0], [64, 64], @Mat)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
scale = pl.move(s1, @LeftScale)
a0 = pl.tile.extract(full, 0, 0, shape=[32, 64], @Left)
r0 = pl.move(full, @Right)
acc = pl.tile.matmul(a0, r0)
"""


@pytest.mark.parametrize(("lines", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_walk_refuses(read: Read, lines: str, problem: str) -> None:
    program = read(BEFORE + lines)
    body = program.functions["kernel"].body
    with pytest.raises(AccessError) as caught:
        compile_program(program, A2A3)
    error = caught.value
    assert error.problem.startswith(problem)
    assert error.operator == "pl." + lines.split(" = pl.")[-1].split("(")[0]
    assert error.position.line >= body[-2].position.line
    with pytest.raises(AccessError) as again:
        run_program(program, A2A3, arrays())
    assert str(again.value) == str(error)


@pytest.mark.parametrize(("position", "fits"), [(65520, True), (65536, False)])
def test_img2col_positions_are_16_bit(read: Read, position: int, fits: bool) -> None:
    """A small image with the widest padding has more positions than 16 bits count."""
    program = read(
        f"""
        m = pl.load(x, [0, 0], [16, 64], @Mat)
        a = pl.tile.img2col(
            m, {position}, 0, [16, 32],
            image_shape=(4, 4), kernel_size=(1, 1), stride=(1, 1), padding=(255, 255, 255, 255),
        )
        t = pl.load(x, [0, 0], [64, 64], @Vec)
        y = pl.store(t, [0, 0], y)
        """
    )
    if fits:
        compile_program(program, A2A3)
    else:
        with pytest.raises(AccessError, match=r"position \[65536, 0\]: positions are 16-bit"):
            compile_program(program, A2A3)


CUT = (
    PRODUCT
    + """
acc = pl.tile.set_validshape(acc, 50, 64)
mid = pl.tile.create([64, 64], pl.INT8, @Mat)
mid = pl.tile.set_validshape(mid, 40, 64)
mid = pl.tile.fillpad_inplace(mid)
mid = pl.tile.fixpipe_requant(mid, acc, scale, [0, 0])
y = pl.store(mid, [0, 0], y)
y = pl.tile.fixpipe_store(acc, scale, y, [0, 0])
"""
)


def test_only_valid_rows_leave_an_accumulator_and_the_other_rows_are_filled_with_zeros(read: Read) -> None:
    whole, cut = arrays(), arrays()
    run_program(read(TO_GM), A2A3, whole)
    report = run_program(read(CUT), A2A3, cut)
    np.testing.assert_array_equal(cut["y"][:50], whole["y"][:50])
    assert whole["y"][50:].any()
    assert not cut["y"][50:].any()
    assert report.counts.moved["L0C", "GM"] == report.counts.moved["L0C", "L1"] == 50 * 64
    assert compile_program(read(CUT), A2A3).counts == report.counts


def test_rows_that_are_not_filled_stay_unwritten(read: Read) -> None:
    program = read(CUT.replace("mid = pl.tile.fillpad_inplace(mid)", "").replace("(acc, 50", "(acc, 16"))
    with pytest.raises(AccessError, match=r"\[40, 64\] at \[0, 0\] of tile mid holds bytes never written"):
        compile_program(program, A2A3)


def test_what_img2col_may_read_although_the_map_is_not_full(read: Read) -> None:
    compile_program(
        read(
            BEFORE
            + GATHER.format(0, 0, 0, 0, 48, 64)
            + f"\na = pl.tile.img2col(m, 0, 0, [16, 32], {WINDOW})\ny = pl.store(full, [0, 0], y)"
        ),
        A2A3,
    )


def test_an_output_left_partly_unwritten_is_refused(read: Read) -> None:
    program = read(
        """
        t = pl.load(x, [0, 0], [64, 32], @Vec)
        y = pl.store(t, [0, 0], y)
        u = pl.load(x, [0, 0], [63, 32], @Vec)
        y = pl.store(u, [0, 32], y)
        """
    )
    with pytest.raises(AccessError) as caught:
        compile_program(program, A2A3)
    assert caught.value.operator == "output y"
    assert caught.value.problem == "32 of 4096 elements never written, the first at [63, 32]"
    assert caught.value.position == program.main.position


def test_an_output_may_be_read_back_once_written(read: Read) -> None:
    body = """
    t = pl.load(x, [0, 0], [64, 64], @Vec)
    y = pl.store(t, [0, 0], y)
    u = pl.load(y, [32, 0], [32, 64], @Vec)
    y = pl.store(u, [0, 0], y)
    """
    given_arrays = arrays()
    report = run_program(read(body), A2A3, given_arrays)
    assert report.counts.read == {"x": 4096, "y": 2048}
    np.testing.assert_array_equal(given_arrays["y"], np.tile(given_arrays["x"][32:], (2, 1)))


TWO = """
import emulator.language as pl

def build():
    shape = [16, 32]
    @pl.program
    class Kernel:
        @pl.function(type=pl.FunctionType.InCore)
        def first(self, x: pl.Tensor[shape, pl.INT8], m: pl.Out[pl.Tensor[shape, pl.INT8]]):
            t = pl.load(x, [0, 0], shape, @Vec)
            m = pl.store(t, [0, 0], m)
            return m

        @pl.function(type=pl.FunctionType.InCore)
        def second(self, m: pl.Tensor[shape, pl.INT8], y: pl.Out[pl.Tensor[shape, pl.INT8]]):
            t = pl.load(m, [0, 0], shape, @Vec)
            y = pl.store(t, [0, 0], y)
            return y

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: pl.Tensor[shape, pl.INT8], m: pl.Out[pl.Tensor[shape, pl.INT8]],
                 y: pl.Out[pl.Tensor[shape, pl.INT8]], z: pl.Out[pl.Tensor[shape, pl.INT8]]):
            {calls}
            return m, y, z
    return Kernel
"""
CALLS = ("m = self.first(x, m)", "y = self.second(m, y)", "z = self.second(y, z)")


def test_an_orchestration_hands_one_kernels_output_to_the_next(read_module: Callable[[str], Program]) -> None:
    program = read_module(TWO.format(calls="\n            ".join(CALLS)))
    x = np.arange(512).reshape(16, 32).astype(np.int8)
    outs = {name: np.zeros((16, 32), np.int8) for name in "myz"}
    report = run_program(program, A2A3, {"x": x, **outs})
    for out in outs.values():
        np.testing.assert_array_equal(out, x)
    assert report.counts.read == {"x": 512, "m": 512, "y": 512}
    assert report.counts.written == {"m": 512, "y": 512, "z": 512}
    assert set(report.memory) == {"first", "second"}


def test_a_kernel_that_reads_what_no_kernel_wrote_is_refused(read_module: Callable[[str], Program]) -> None:
    program = read_module(TWO.format(calls="\n            ".join(CALLS[1:])))
    with pytest.raises(AccessError, match="of output m is read before it is written"):
        compile_program(program, A2A3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"x": None}, "no array for parameter x"),
        ({"x": np.zeros((64, 32), np.int8)}, r"x is \[64, 32\] int8: must be \[64, 64\] int8"),
        ({"b": np.zeros((1, 64), np.int64)}, r"b is \[1, 64\] int64: must be \[1, 64\] int32"),
    ],
)
def test_arrays_must_fit(read: Read, change: Mapping[str, Any], problem: str) -> None:
    given_arrays = {name: value for name, value in (arrays() | dict(change)).items() if value is not None}
    with pytest.raises(ValueError, match=problem):
        run_program(read(TO_GM), A2A3, given_arrays)


def test_an_unknown_variant_is_refused(read: Read) -> None:
    with pytest.raises(ValueError, match="unknown variant 'vreq9': known are vreq8, round-then-add"):
        run_program(read(TO_GM), A2A3, arrays(), "vreq9")


def test_a_scale_that_is_no_number_is_refused_where_it_is_used(read: Read) -> None:
    given_arrays = arrays()
    given_arrays["s"][0, 5] = np.uint64(0x7FC00000)
    with pytest.raises(AccessError, match=r"pl\.tile\.fixpipe_store: channel 5 of the scale table holds nan"):
        run_program(read(TO_GM), A2A3, given_arrays)


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(1, 3), min_size=1, max_size=4), trips=st.integers(0, 3))
def test_counts_are_those_of_the_loops(read: Read, cuts: list[int], trips: int) -> None:
    """Loops of different lengths, some of no round at all: bytes are counted as often as they move."""
    lines = ["t = pl.load(x, [0, 0], [64, 64], @Vec)", "y = pl.store(t, [0, 0], y)"]
    for number, cut in enumerate(cuts):
        lines.append(f"for i{number} in pl.range({cut}, {cut + trips}):")
        lines.append(f"    u{number} = pl.load(w, [i{number}, 0], [{cut}, 64], @Vec)")
    counts = compile_program(read("\n".join(lines)), A2A3).counts
    assert counts.read["w"] == sum(cuts) * trips * 64
    assert counts.moved[("GM", Space.Vec.value)] == 4096 + counts.read["w"]
    assert counts.operations["load"] == 1 + len(cuts) * trips
