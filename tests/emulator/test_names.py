"""A tile that is written in place has one name: direct code gives it no other, and there is no way round."""

from __future__ import annotations

import linecache
from collections.abc import Callable

import numpy as np
import pytest

from emulator.engine import compile_program, run_program
from emulator.errors import SourceError
from emulator.program import Program
from emulator.soc import SOCS

Read = Callable[..., Program]
A2A3 = SOCS["a2a3"]

HELPERS = """
@pl.inline
def same(same_t):
    return same_t

@pl.inline
def fill(fill_t, fill_row):
    fill_t = pl.tile.gather_row(fill_t, x, dst_offset=[0, 0], src_offset=[fill_row, 0], shapes=[64, 64])
    return fill_t

@pl.inline
def fill_twice(twice_t):
    twice_u = fill(twice_t, 0)
    return twice_u

@pl.inline
def fill_named_as_the_callers(t):
    t = pl.tile.gather_row(t, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[64, 64])
    return t

@pl.inline
def part(part_t):
    part_t = pl.tile.gather_row(part_t, w, dst_offset=[0, 0], src_offset=[0, 0], shapes=[64, 64])
    part_a = pl.move(part_t, @Left)
    return part_a

@pl.inline
def part_of_other(other_t, other_u):
    other_t = pl.tile.gather_row(other_t, w, dst_offset=[0, 0], src_offset=[0, 0], shapes=[64, 64])
    other_a = pl.move(other_u, @Left)
    return other_a

@pl.inline
def anew(anew_t, anew_u):
    anew_t = pl.load(w, [0, 0], [64, 64], @Mat)
    anew_a = pl.move(anew_u, @Left)
    return anew_a

@pl.inline
def part_of_the_callers(callers_t):
    callers_t = pl.tile.gather_row(callers_t, w, dst_offset=[0, 0], src_offset=[0, 0], shapes=[64, 64])
    callers_a = pl.move(t, @Left)
    return callers_a

@pl.inline
def put(put_t, put_y):
    put_y = pl.store(put_t, [0, 0], put_y)
    return put_y

@pl.inline
def add(add_acc, add_a, add_b):
    add_acc = pl.tile.matmul_acc(add_acc, add_a, add_b)
    return add_acc
"""
LOADED = "t = pl.load(x, [0, 0], [64, 64], @Mat)\n"
PRODUCT = (
    LOADED
    + """
a = pl.move(t, @Left)
r = pl.move(t, @Right)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
scale = pl.move(s1, @LeftScale)
acc0 = pl.tile.matmul(a, r)
acc1 = add(acc0, a, r)
"""
)
GATHER = "{0} = pl.tile.gather_row({0}, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[64, 64])"
GATHER_T, GATHER_U = GATHER.format("t"), GATHER.format("u")
STORE = "y = pl.store({}, [0, 0], y)"
LOAD_U = "u = pl.load(w, [0, 0], [64, 64], @Mat)"

# Body, the line that wrote the tile, the line that is refused, the old name, the name in its place.
OLD = {
    "an accumulator continued under another name": (
        f"{PRODUCT}acc2 = add(acc0, a, r)",
        "acc1 = add(acc0, a, r)",
        "acc2 = add(acc0, a, r)",
        ("acc0", "acc1"),
    ),
    "an accumulator stored under its first name": (
        f"{PRODUCT}y = pl.tile.fixpipe_store(acc0, scale, y, [0, 0])",
        "acc1 = add(acc0, a, r)",
        "y = pl.tile.fixpipe_store(acc0, scale, y, [0, 0])",
        ("acc0", "acc1"),
    ),
    "a name passed to a helper that writes it": (
        f"{LOADED}u = fill(t, 0)\n{STORE.format('t')}",
        "u = fill(t, 0)",
        STORE.format("t"),
        ("t", "u"),
    ),
    "a helper in a helper": (
        f"{LOADED}u = fill_twice(t)\n{STORE.format('t')}",
        "u = fill_twice(t)",
        STORE.format("t"),
        ("t", "u"),
    ),
    "a helper's own local": (
        f"{LOADED}u = fill_twice(t)\n{GATHER_U}\n{STORE.format('twice_u')}",
        GATHER_U,
        STORE.format("twice_u"),
        ("twice_u", "u"),
    ),
    "a parameter called as what is passed": (
        f"{LOADED}u = fill_named_as_the_callers(t)\n{STORE.format('t')}",
        "u = fill_named_as_the_callers(t)",
        STORE.format("t"),
        ("t", "u"),
    ),
    "a parameter that a call left behind": (
        f"{LOADED}u = same(t)\n{GATHER_T}\n{STORE.format('same_t')}",
        GATHER_T,
        STORE.format("same_t"),
        ("same_t", "t"),
    ),
    "the first name of a gather's target": (
        f"{LOADED}u = same(t)\n{GATHER_U}\n{STORE.format('t')}",
        GATHER_U,
        STORE.format("t"),
        ("t", "u"),
    ),
    "the second name of a gather's target": (
        f"{LOADED}u = same(t)\n{GATHER_T}\n{STORE.format('u')}",
        GATHER_T,
        STORE.format("u"),
        ("u", "t"),
    ),
    "the second name as a gather's target": (
        f"{LOADED}u = same(t)\n{GATHER_T}\n{GATHER_U}",
        GATHER_T,
        GATHER_U,
        ("u", "t"),
    ),
    "a name carried to the next round": (
        f"{LOADED}for i in pl.range(2):\n    u = fill(t, 0)\n    {STORE.format('u')}",
        "u = fill(t, 0)",
        "u = fill(t, 0)",
        ("t", "u"),
    ),
    "a name carried through an inner loop": (
        f"{LOADED}for i in pl.range(2):\n    {STORE.format('t')}\n    for j in pl.range(1):\n"
        "        u = fill(t, 0)",
        "u = fill(t, 0)",
        STORE.format("t"),
        ("t", "u"),
    ),
    "a name that a loop leaves": (
        f"{LOADED}for i in pl.range(1):\n    u = same(t)\n    {GATHER_U}\n{STORE.format('t')}",
        GATHER_U,
        STORE.format("t"),
        ("t", "u"),
    ),
    "a name that one branch writes": (
        f"{LOADED}for i in pl.range(1):\n    if i == 0:\n        u = fill(t, 0)\n    {STORE.format('t')}",
        "u = fill(t, 0)",
        STORE.format("t"),
        ("t", "u"),
    ),
    "a name that the other branch writes": (
        f"{LOADED}for i in pl.range(1):\n    if i == 0:\n        {STORE.format('t')}\n"
        f"    else:\n        u = fill(t, 0)\n    {STORE.format('t')}\n",
        "u = fill(t, 0)",
        STORE.format("t"),
        ("t", "u"),
    ),
    "a name that one branch gave": (
        f"{LOADED}for i in pl.range(1):\n    if i == 0:\n        u = same(t)\n    else:\n        {LOAD_U}\n"
        f"    {GATHER_U}\n    {STORE.format('t')}",
        GATHER_U,
        STORE.format("t"),
        ("t", "u"),
    ),
    "a name that the other branch gave": (
        f"{LOADED}for i in pl.range(1):\n    if i == 0:\n        {LOAD_U}\n    else:\n        u = same(t)\n"
        f"    {GATHER_U}\n    {STORE.format('t')}",
        GATHER_U,
        STORE.format("t"),
        ("t", "u"),
    ),
    "two parameters of one tile": (
        f"{LOADED}a = part_of_other(t, t)",
        "other_t = " + GATHER_T.replace("t = ", "", 1).replace("(t, x", "(other_t, w"),
        "other_a = pl.move(other_u, @Left)",
        ("other_u", "other_t"),
    ),
    "two names of one tile as two parameters": (
        f"{LOADED}u = same(t)\na = part_of_other(t, u)",
        "other_t = " + GATHER_T.replace("t = ", "", 1).replace("(t, x", "(other_t, w"),
        "other_a = pl.move(other_u, @Left)",
        ("other_u", "other_t"),
    ),
    "the caller's own name in a helper": (
        f"{LOADED}a = part_of_the_callers(t)",
        "callers_t = " + GATHER_T.replace("t = ", "", 1).replace("(t, x", "(callers_t, w"),
        "callers_a = pl.move(t, @Left)",
        ("t", "callers_t"),
    ),
}


def refused(read: Read, body: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read(body, HELPERS)
    return caught.value


def text_of(where: str, file: str) -> str:
    """The source of `name.py:line`."""
    return linecache.getline(file, int(where.rpartition(":")[2])).strip()


def long(line: str) -> str:
    return line.replace("@", "target_memory=pl.MemorySpace.")


@pytest.mark.parametrize(("body", "wrote", "uses", "names"), OLD.values(), ids=OLD.keys())
def test_an_old_name_is_refused_where_it_is_used(
    read: Read, body: str, wrote: str, uses: str, names: tuple[str, str]
) -> None:
    error, (old, new) = refused(read, body), names
    file = error.position.file
    before, after = f"{old} is an old name of the tile that ", f" writes in place as {new}: "
    assert error.problem.startswith(before)
    where, _, remedy = error.problem.removeprefix(before).partition(after)
    assert text_of(where, file) == long(wrote)
    assert remedy == f"assign to the same name there, or use {new} here"
    assert text_of(str(error.position), file) == long(uses)


def test_an_old_name_in_a_helper_says_which_line_passed_it(read: Read) -> None:
    error = refused(read, f"{LOADED}a = part_of_other(t, t)")
    assert error.position.caller is not None
    assert text_of(str(error.position.caller), error.position.file) == "a = part_of_other(t, t)"
    assert str(error).endswith(f" (called from {error.position.caller})")


def test_two_parameters_of_one_tile_are_one_variable(read: Read) -> None:
    """As PyPTO has it, to assign to one is to assign to the other; the reader refuses to read it then."""
    error = refused(read, f"{LOADED}a = anew(t, t)")
    where = error.problem.removeprefix("anew_u is another name of anew_t, to which ").split(" ")[0]
    assert text_of(where, error.position.file).startswith("anew_t = pl.load(w")
    assert error.problem.endswith(" assigns another tile: assign it to a name of its own there")


def test_an_output_continued_under_another_name_is_not_returned_under_its_own(read: Read) -> None:
    error = refused(read, f"{LOADED}z = put(t, y)")
    assert error.operator == "return"
    assert error.problem.startswith("y is an old name of the tensor that ")
    assert error.problem.endswith(" writes in place as z: assign to the same name there, or use z here")


FINE = {
    "each name continued once": (
        f"{PRODUCT}acc2 = add(acc1, a, r)\ny = pl.tile.fixpipe_store(acc2, scale, y, [0, 0])"
    ),
    "one name for all": (
        f"{LOADED}for i in pl.range(2):\n    t = fill(t, 0)\n    {STORE.format('t')}\n{STORE.format('t')}"
    ),
    "two names that are read": f"{LOADED}u = same(t)\n{STORE.format('t')}\n{STORE.format('u')}",
    "two parameters of one tile that are read": f"{LOADED}y = put(t, y)\nu = same(t)\ny = put(u, y)",
    "an old name given another tile": f"{LOADED}u = fill(t, 0)\n{LOADED}{STORE.format('t')}",
    "an old name given another tile in a loop": (
        f"{LOADED}u = fill(t, 0)\nfor i in pl.range(2):\n    {LOADED}\n{STORE.format('t')}"
    ),
    "an old name given another tile in both branches": (
        f"{LOADED}u = fill(t, 0)\nfor i in pl.range(1):\n    if i == 0:\n        {LOADED}"
        f"    else:\n        {LOADED}    {STORE.format('t')}"
    ),
    "a loop of one round": f"{LOADED}for i in pl.range(1):\n    u = fill(t, 0)\n    {STORE.format('u')}",
    "the branch that does not write": (
        f"{LOADED}for i in pl.range(1):\n    if i == 1:\n        u = fill(t, 0)\n"
        f"    else:\n        {STORE.format('t')}"
    ),
    "a constant branch that is not taken": (f"{LOADED}if 1 == 2:\n    u = fill(t, 0)\n{STORE.format('t')}"),
    "the tile that had the name before": (f"{LOADED}u = same(t)\n{LOADED}{GATHER_T}\n{STORE.format('u')}"),
}


@pytest.mark.parametrize("body", FINE.values(), ids=FINE.keys())
def test_what_names_one_value_is_accepted(read: Read, body: str) -> None:
    compile_program(read(body, HELPERS), A2A3)


def test_a_tile_that_a_helper_fills_and_does_not_return_keeps_its_name(read: Read) -> None:
    """As in PyPTO, where an assignment to a parameter assigns the caller's tile."""
    program = read(f"{LOADED}a = part(t)\n{STORE.format('t')}", HELPERS)
    random = np.random.default_rng(3)
    x, w = (random.integers(-128, 128, (64, 64)).astype(np.int8) for _ in range(2))
    y = np.zeros((64, 64), np.int8)
    rows = {"b": np.zeros((1, 64), np.int32), "s": np.zeros((1, 64), np.uint64)}
    run_program(program, A2A3, {"x": x, "w": w, **rows, "y": y})
    np.testing.assert_array_equal(y, w)


ORCHESTRATION = """
import emulator.language as pl

def build():
    shape = [16, 32]
    @pl.program
    class Kernel:
        @pl.function(type=pl.FunctionType.InCore)
        def copy(self, a: pl.Tensor[shape, pl.INT8], b: pl.Out[pl.Tensor[shape, pl.INT8]],
                 c: pl.Out[pl.Tensor[shape, pl.INT8]]):
            t = pl.load(a, [0, 0], shape, @Vec)
            b = pl.store(t, [0, 0], b)
            c = pl.store(t, [0, 0], c)
            return b, c

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: pl.Tensor[shape, pl.INT8], m: pl.Out[pl.Tensor[shape, pl.INT8]],
                 n: pl.Out[pl.Tensor[shape, pl.INT8]]):
            {calls}
            return {returned}
    return Kernel
"""


@pytest.mark.parametrize(
    ("calls", "returned", "problem"),
    [
        ("m, n = self.copy(x, m, n)", "m, n", ""),
        ("p, q = self.copy(x, m, n)", "p, q", ""),
        ("p, q = self.copy(x, m, n)", "m, q", "m is an old name of the tensor that"),
        (
            "p, n = self.copy(x, m, n); p, n = self.copy(x, m, n)",
            "p, n",
            "m is an old name of the tensor that",
        ),
        ("m, m = self.copy(x, m, n)", "m, n", "a name keeps its tensor: m was m, this is n"),
        (
            "m, n = self.copy(x, m, n); m, p = self.copy(n, m, n)",
            "m, p",
            "n is passed as c and as a: an output",
        ),
        ("m, p = self.copy(x, m, m)", "m, n", "m is passed as b and as c: an output is passed once"),
    ],
)
def test_an_orchestration_has_one_name_for_an_output(
    read_module: Callable[[str], Program], calls: str, returned: str, problem: str
) -> None:
    text = ORCHESTRATION.format(calls=calls.replace("; ", "\n            "), returned=returned)
    if problem:
        with pytest.raises(SourceError) as caught:
            read_module(text)
        assert caught.value.problem.startswith(problem)
    else:
        compile_program(read_module(text), A2A3)
