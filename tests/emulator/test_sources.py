"""What the source says for each operand, as a reader of the source sees it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.mutants.catalogue.cases import conv_tiling, pair_tiling
from emulator.operands import DType, LoopVar, Operand, Position, Ref, evaluate
from emulator.program import Call, For, If, Invoke, Program, Statement, TileType, flat
from emulator.repair.change import replaced
from emulator.soc import Space
from emulator.sources import Leaf, Operation, Written, in_words, leaves, value_of
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from kernels import blocks, fused_conv2d, unfused_conv2d
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from workloads import conv, conv_pair, gemm

Read = Callable[..., Program]
Rounds = Iterator[tuple[Statement, Mapping[str, int]]]


BANDS = Subject(
    conv_pair.WORKLOAD, Geometry(32, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)), "a2a3", pair_tiling(4)
)
"""Four bands; x has two C1 planes."""
SUBJECTS = (
    BANDS,
    Subject(
        conv_pair.WORKLOAD,
        Geometry(16, 16, 96, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)),
        "a2a3",
        pair_tiling(16, (16, 32)),
    ),
    Subject(
        conv_pair.WORKLOAD,
        Geometry(20, 16, 32, 32, 64, Conv(3, 1, 1), Conv(3, 2, 1)),
        "a5",
        pair_tiling(4, (16, 32)),
    ),
    Subject(conv.WORKLOAD, ConvGeometry(16, 16, 64, 32, Conv(5, 1, 2)), "a2a3", conv_tiling(4)),
    Subject(gemm.WORKLOAD, GemmGeometry(128, 128, 128), "a2a3"),
    Subject(gemm.WORKLOAD, GemmGeometry(256, 192, 64), "a2a3"),
)


@pytest.fixture(scope="module")
def fused() -> Program:
    return typed_program(BANDS, "fused")


def rounds(statements: Sequence[Statement], loops: Mapping[str, int]) -> Rounds:
    """Every statement in every round of the loops around it."""
    for statement in statements:
        yield statement, loops
        if isinstance(statement, For):
            for index in range(evaluate(statement.start, loops), evaluate(statement.stop, loops)):
                yield from rounds(statement.body, {**loops, statement.variable: index})
        elif isinstance(statement, If):
            yield from rounds((*statement.then, *statement.orelse), loops)


def number(operand: Operand, loops: Mapping[str, int]) -> Any:
    """The value of an operand of the typed program."""
    if isinstance(operand, tuple):
        return tuple(evaluate(item, loops) for item in operand)
    return operand if isinstance(operand, (Ref, Space, DType)) else evaluate(operand, loops)


def parts(statement: Statement) -> Iterator[tuple[Written, Operand]]:
    """What the source says and the program holds for each operand, bound, condition or argument."""
    if isinstance(statement, Call):
        assert list(statement.written) == list(statement.operands)
        yield from ((statement.written[name], operand) for name, operand in statement.operands.items())
    elif isinstance(statement, For):
        yield from zip(statement.written, (statement.start, statement.stop), strict=True)
    elif isinstance(statement, If):
        yield statement.written, statement.condition
    elif isinstance(statement, Invoke):
        yield from zip(statement.written, map(Ref, statement.arguments), strict=True)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_is_written_has_the_values_of_the_program_in_every_round(subject: Subject) -> None:
    for entry in subject.workload.programs:
        for function in typed_program(subject, entry.name).functions.values():
            for statement, loops in rounds(function.body, {}):
                for written, operand in parts(statement):
                    assert value_of(written, loops) == number(operand, loops)


# -- arithmetic as it is written

NAMES = {"p": 7, "q": 3, "r": -2}
DIMS = (5, 11)


@st.composite
def arithmetic(draw: st.DrawFn, depth: int = 3) -> str:
    """Python arithmetic on constants, an element of `dims` and the loop variable `i`."""
    kind = draw(st.integers(0, 3)) if depth else 0
    if kind == 0:
        return draw(st.sampled_from([*NAMES, "i", "dims[0]", "dims[-1]", "4", "0"]))
    one = draw(arithmetic(depth=depth - 1))
    if kind == 1:
        return f"-({one})"
    if kind == 2:
        return f"({one}) {draw(st.sampled_from(['//', '%']))} {draw(st.integers(1, 9))}"
    return f"({one}) {draw(st.sampled_from(['+', '-', '*']))} ({draw(arithmetic(depth=depth - 1))})"


def offset(read: Read, index: str) -> tuple[Call, Written]:
    """A load at a row, in rounds of `i`, and what is written for the row."""
    program = read(
        f"""
        for i in pl.range(4):
            t = pl.load(x, [{index}, 0], [16, 64], @Vec)
            y = pl.store(t, [16 * i, 0], y)
        """,
        "\n".join(f"{name} = {value}" for name, value in {**NAMES, "dims": DIMS}.items()),
    )
    call = next(call for call in calls(program) if call.operator == "load")
    row, column = as_tuple(call.written["offsets"])
    assert in_words(column) == "0"
    return call, row


def calls(program: Program) -> list[Call]:
    statements = (flat(function.body) for function in program.functions.values())
    return [statement for block in statements for statement in block if isinstance(statement, Call)]


def as_tuple(written: Written) -> tuple[Written, ...]:
    assert isinstance(written, tuple)
    return written


def in_python(index: str, i: int, **other: int) -> int:
    return int(eval(index, {**NAMES, "dims": DIMS, "i": i, **other}))  # of this test's own making


@settings(max_examples=60)
@given(index=arithmetic())
def test_arithmetic_means_what_python_says(read: Read, index: str) -> None:
    call, row = offset(read, index)
    for i in range(4):
        assert value_of(row, {"i": i}) == in_python(index, i)
        assert in_python(in_words(row), i) == in_python(index, i)
    assert [leaf.text for leaf in leaves(row)] == re.findall(r"dims\[-?\d\]|[pqr]|\d+", index)
    changed = [leaf for leaf in leaves(row) if leaf.text == "p"]
    for i in range(4):
        every = call
        for leaf in changed:
            every = replaced(every, "offsets", leaf, 5)
        (at, _), (said, _) = as_operands(every.operands["offsets"]), as_tuple(every.written["offsets"])
        assert evaluate(at, {"i": i}) == value_of(said, {"i": i}) == in_python(index, i, p=5)


def as_operands(operand: Operand) -> tuple[Any, ...]:
    assert isinstance(operand, tuple)
    return operand


@pytest.mark.parametrize(
    "index",
    [
        "p + i * q",
        "(p + i) * q",
        "p - (i - q)",
        "p - i - q",
        "i // 2 * 32 + 16",
        "-(p + i)",
        "-(i // 2)",
        "p - -q",
        "dims[0] * i % 4",
    ],
)
def test_words_are_those_of_the_source(read: Read, index: str) -> None:
    words = in_words(offset(read, index)[1])
    assert words.replace("(-q)", "-q") == index


def test_constants_that_the_program_folds_stay_apart(read: Read) -> None:
    """`p * 2 + q` is 17 in the typed program."""
    call, row = offset(read, "p * 2 + q")
    assert as_operands(call.operands["offsets"])[0] == 17
    assert isinstance(row, Operation)
    assert [(leaf.text, leaf.value) for leaf in leaves(row)] == [("p", 7), ("2", 2), ("q", 3)]


# -- names and lines of the shipped kernels


def lines(module: ModuleType, text: str) -> list[int]:
    """The lines of a module that hold a text."""
    source = inspect.getsource(module).splitlines()
    return [number for number, line in enumerate(source, 1) if text in line]


def chain(position: Position | None) -> list[int]:
    return [] if position is None else [position.line, *chain(position.caller)]


def first(program: Program, operator: str, number: int = 0) -> Call:
    return [call for call in calls(program) if call.operator == operator][number]


def test_an_argument_of_a_helper_stands_in_the_callers_line(fused: Program) -> None:
    """The position of img2col, in blocks.py, is `conv1_position`: the band says what it is."""
    window = first(fused, "tile.img2col")
    (asks,) = lines(fused_conv2d, "acc1 = first_conv(")
    (calls_band,) = lines(fused_conv2d, "y = first_of_y(x")
    assert in_words(window.written["pos_m"]) == "band_mid_start + mid_tile * band_mid_tile"
    start, tile = leaves(window.written["pos_m"])
    assert (start.text, start.value, tile.text) == ("band_mid_start", 0, "band_mid_tile")
    assert chain(start.position) == chain(tile.position) == [asks, calls_band]
    (line,) = lines(fused_conv2d, "band_mid_start + mid")
    assert start.column == inspect.getsource(fused_conv2d).splitlines()[line - 1].index("band_mid_start")
    (image,) = leaves(window.written["image_shape"])
    assert (image.text, chain(image.position)) == (
        "conv1_image",
        [lines(blocks, "image_shape=conv1_image")[0], asks, calls_band],
    )
    assert image.value == window.operands["image_shape"]
    (map_,) = leaves(window.written["tile"])
    assert (map_.text, map_.value, chain(map_.position)) == (
        "feature_map",
        window.operands["tile"],
        [asks, calls_band],
    )


def test_an_index_that_goes_through_two_helpers_is_the_outermost_callers(fused: Program) -> None:
    """The interior bands' first row: the class computes it, the band passes it on."""
    gather = first(fused, "tile.gather_row", 1)
    row, _ = as_tuple(gather.written["src_offset"])
    assert in_words(row) == "plane * band_image + (inner_x + (band - 1) * inner_step) * band_width"
    at = {leaf.text: chain(leaf.position) for leaf in leaves(row)}
    (inner,) = lines(fused_conv2d, "inner_x + (band - 1) * inner_step")
    assert at["inner_x"] == at["inner_step"] == [inner]
    assert at["band_width"][1:] == lines(fused_conv2d, "y = inner_of_y(")


def test_a_plane_that_is_not_there_is_the_plane_that_was_passed_for_it(read: Read) -> None:
    """`load_plane`'s own `loaded` is the caller's `plane1` after it, which `add_plane` passes on."""
    pass1 = typed_program(BANDS, "pass1")
    helpers = lines(unfused_conv2d, "plane1, band_taps")
    inside = [call for call in calls(pass1) if call.operator == "tile.img2col"][2]
    (plane,) = leaves(inside.written["tile"])
    passed = lines(blocks, "plane_more(plane_acc, plane_map,")
    assert (plane.text, plane.position.line) == ("plane_map", passed[0])
    assert plane.position.caller is not None
    assert plane.position.caller.line == helpers[0]


def test_loops_have_their_bounds_and_invocations_their_arguments(fused: Program) -> None:
    function = fused.functions["fused"]
    (loop,) = [one for one in flat(function.body) if isinstance(one, For) and one.variable == "band"]
    assert [in_words(bound) for bound in loop.written] == ["1", "last_band"]
    tiles = next(one for one in flat(function.body) if isinstance(one, For) and one.variable == "mid_tile")
    assert [in_words(bound) for bound in tiles.written] == ["0", "band_mid_tiles"]
    (invoke,) = [one for one in fused.main.body if isinstance(one, Invoke)]
    assert [leaf.text for leaf in invoke.written] == [param.name for param in fused.main.params]
    assert {leaf.position.line for leaf in invoke.written} == {invoke.position.line}


def test_a_condition_is_written_as_it_stands(read: Read) -> None:
    program = read(
        """
        for i in pl.range(4):
            if i % two == 1 - 1:
                t = pl.load(x, [16 * i, 0], [16, 64], @Vec)
            else:
                t = pl.load(w, [16 * i, 0], [16, 64], @Vec)
            y = pl.store(t, [16 * i, 0], y)
        """,
        "two = 2",
    )
    (branch,) = [one for one in flat(program.functions["kernel"].body) if isinstance(one, If)]
    assert in_words(branch.written) == "i % two == 1 - 1"
    assert [value_of(branch.written, {"i": i}) for i in range(4)] == [1, 0, 1, 0]


HELPER = """
@pl.inline
def add(add_acc, add_map, add_a, add_r):
    for k in pl.range(2):
        add_acc = pl.tile.matmul_acc(add_acc, add_a, add_r)
    add_a = pl.tile.extract(add_map, 0, 32, shape=[64, 32], @Left)
    add_acc = pl.tile.matmul_acc(add_acc, add_a, add_r)
    return add_acc
"""
ADDS = """
m = pl.load(x, [0, 0], [64, 64], @Mat)
f = pl.load(w, [0, 0], [64, 64], @Mat)
a = pl.tile.extract(m, 0, 0, shape=[64, 32], @Left)
r = pl.tile.extract(f, 0, 0, shape=[32, 64], @Right)
acc = pl.tile.matmul(a, r)
acc = add(acc, m, a, r)
z = pl.store(acc, [0, 0], z)
"""
TO_Z = {
    "x": "pl.Tensor[[64, 64], pl.INT8]",
    "w": "pl.Tensor[[64, 64], pl.INT8]",
    "z": "pl.Out[pl.Tensor[[64, 64], pl.INT32]]",
}


def test_a_parameter_that_is_assigned_another_tile_is_no_longer_the_callers(read: Read) -> None:
    program = read(ADDS, HELPER, **TO_Z)
    in_loop, after = (call for call in calls(program) if call.operator == "tile.matmul_acc")
    said = [[leaf.text for leaf in leaves(call.written["a"])] for call in (in_loop, after)]
    assert said == [["a"], ["add_a"]]
    assert in_words(in_loop.written["acc"]) == in_words(after.written["acc"]) == "acc"


BRANCHES = """
@pl.inline
def put(put_t, put_u, put_i):
    if put_i == 0:
        put_t = pl.load(x, [0, 0], [16, 64], @Vec)
    else:
        put_u = pl.load(x, [0, 0], [16, 64], @Vec)
    y = pl.store(put_t, [0, 0], y)
    y = pl.store(put_u, [16, 0], y)
    return y

@pl.inline
def same(same_t):
    return same_t

@pl.inline
def fill(fill_t, fill_x):
    fill_t = pl.tile.gather_row(fill_t, fill_x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[16, 64])
    filled = pl.load(fill_x, [0, 0], [16, 64], @Vec)
    return filled
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("for i in pl.range(2):\n    y = put(t, u, i)", ["put_t", "put_u"]),
        ("for i in pl.range(2):\n    y = pl.store(t, [0, 0], y)", ["t"]),
        ("v = same(t)\ny = pl.store(v, [0, 0], y)", ["v"]),
        ("v = fill(t, x)\ny = pl.store(t, [0, 0], y)", ["t"]),
    ],
)
def test_a_tile_has_the_name_by_which_it_is_used(read: Read, body: str, said: list[str]) -> None:
    loads = "".join(f"{name} = pl.load(w, [0, 0], [16, 64], @Vec)\n" for name in "tu")
    stores = [call for call in calls(read(loads + body, BRANCHES)) if call.operator == "store"]
    found = [leaf for call in stores for leaf in leaves(call.written["tile"])]
    assert [leaf.text for leaf in found] == said
    assert [leaf.position for leaf in found] == [call.position for call in stores]


# -- origins


def origin_of(leaf: Leaf) -> tuple[str, int] | None:
    return (leaf.origin.text, leaf.origin.position.line) if leaf.origin else None


def test_the_origin_of_a_constant_is_its_assignment_in_the_factory(fused: Program) -> None:
    window = first(fused, "tile.img2col")
    start, tile = leaves(window.written["pos_m"])
    assert origin_of(start) == (
        "band.x.skip * geometry.mid_width",
        *lines(fused_conv2d, "band_mid_start = "),
    )
    assert start.origin is not None
    assert start.origin.position.file == fused_conv2d.__file__
    assert origin_of(tile) == (
        "plan.conv1.positions",
        *lines(fused_conv2d, "band_mid_tiles, band_mid_tile = "),
    )
    (shape,) = leaves(window.written["shape"])
    assert origin_of(shape) == ("[tile.positions, tile.step]", *lines(blocks, "conv1_shape, conv1_filter = "))
    (band,) = leaves(window.written["tile"])
    (zero,) = leaves(window.written["pos_k"])
    assert band.origin is zero.origin is None


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        ("n = 16 * 2", "16 * 2"),
        ("n: int = 16 * 2", "16 * 2"),
        ("k = n = 16 * 2", "16 * 2"),
        ("n = 5\nn = 16 * 2", "16 * 2"),
        ("k, n = 3, 16 * 2", "16 * 2"),
        ("k, (j, n) = 3, [4, 16 * 2]", "16 * 2"),
        ("k, n = divmod(130, 49)", "divmod(130, 49)"),
        ("*k, n = 3, 4, 32", "(3, 4, 32)"),
        ("if True:\n    n = 5\nn = 16 * 2", "16 * 2"),
        ("n = 16 * 2\ndef other():\n    n = 5", "16 * 2"),
        ("n = 16 * 2\nall_ = [n for n in (1, 2)]", "16 * 2"),
        ("n = 16 * 2\nn: int", "16 * 2"),
        ("n = 16 * 2\nif True:\n    n = 32", None),
        ("for n in (16, 32): pass", None),
        ("n = 16\nn += 16", None),
        ("n = 16\nassert (n := 32)", None),
        ("n = 16\ndef other():\n    nonlocal n\n    n = 32\nother()", None),
        ("from emulator.soc import FRACTAL_DEPTH as n", None),
        ("n = 32\ntry:\n    raise KeyError\nexcept KeyError:\n    n = 32", None),
    ],
)
def test_an_origin_is_given_where_it_is_certain(read: Read, factory: str, expected: str | None) -> None:
    program = read("t = pl.load(x, [n, 0], [32, 64], @Vec)\ny = pl.store(t, [0, 0], y)", factory)
    leaf, _ = leaves(first(program, "load").written["offsets"])
    assert (leaf.text, leaf.value) == ("n", 32)
    assert (leaf.origin and leaf.origin.text) == expected


def test_the_branch_that_a_helper_is_not_in_says_nothing(read: Read) -> None:
    helper = """
    n = 16 * 2
    if n:
        @pl.inline
        def get(get_x):
            got = pl.load(get_x, [n, 0], [32, 64], @Vec)
            return got
    else:
        n = 3
    """
    program = read("t = get(x)\ny = pl.store(t, [0, 0], y)", helper)
    leaf, _ = leaves(first(program, "load").written["offsets"])
    assert (leaf.text, leaf.origin and leaf.origin.text) == ("n", "16 * 2")


def test_a_tile_has_no_origin_though_a_constant_has_its_name(read: Read) -> None:
    program = read("t = pl.load(x, [0, 0], [64, 64], @Vec)\ny = pl.store(t, [0, 0], y)", "t = 5")
    (leaf,) = leaves(first(program, "store").written["tile"])
    assert (leaf.text, leaf.value, leaf.origin) == ("t", Ref("t"), None)


ELSEWHERE = """\
from __future__ import annotations
import emulator.language as pl
TOP = 4
TWICE = 5
TWICE = 6
rows = 7


def build(rows=32):
    half = rows // 2
    later = 1

    def factory(width):
        own = half // 2
        for end in range(1):
            dims = (half, 3)

            @pl.inline
            def load(load_x, load_row):
                loaded = pl.load(load_x, [load_row + TOP * TWICE, 0 * own * end * later], [half, width],
                    target_memory=pl.MemorySpace.Vec)
                return loaded
            own = 9
        return load

    later = 2
    first = factory(64)
    {where}

    @pl.program
    class Kernel:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, x: pl.Tensor[[96, 64], pl.INT8], y: pl.Out[pl.Tensor[[16, 64], pl.INT8]]):
            t = first(x, rows)
            y = pl.store(t, [dims[1] - dims[-1], 0], y)
            return y

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: pl.Tensor[[96, 64], pl.INT8], y: pl.Out[pl.Tensor[[16, 64], pl.INT8]]):
            y = self.kernel(x, y)
            return y

    return Kernel
"""


@pytest.mark.parametrize(("dims", "last"), [("[7, half // 4]", "half // 4"), ("[*(7, 8)]", None)])
def test_origins_are_looked_for_around_the_factory_too(
    read_module: Callable[[str], Program], dims: str, last: str | None
) -> None:
    program = read_module(ELSEWHERE.replace("{where}", f"dims = {dims}"))
    load, store = calls(program)
    written = (*load.written.values(), store.written["offsets"])
    origins = {leaf.text: leaf.origin and leaf.origin.text for part in written for leaf in leaves(part)}
    assert origins == {
        "x": None,
        "rows": None,  # a parameter
        "TOP": "4",
        "TWICE": None,  # twice around the factory
        "0": None,
        "own": None,  # a round of the loop before may have assigned the second
        "end": None,
        "later": None,
        "half": "rows // 2",
        "width": None,
        "pl.MemorySpace.Vec": None,
        "dims[1]": last,
        "dims[-1]": last,
    }


# -- other values


def test_another_value_in_all_kinds_of_operands(fused: Program) -> None:
    window = first(fused, "tile.img2col")
    start, _ = leaves(window.written["pos_m"])
    moved = replaced(window, "pos_m", start, 16)
    assert [value_of(moved.written["pos_m"], {"mid_tile": tile}) for tile in (0, 1)] == [
        16 + number(window.operands["pos_m"], {"mid_tile": tile}) for tile in (0, 1)
    ]
    assert moved.operands["tile"] == window.operands["tile"]
    (padding,) = leaves(window.written["padding"])
    assert replaced(window, "padding", padding, (0, 0, 0, 0)).operands["padding"] == (0, 0, 0, 0)
    (tile,) = leaves(window.written["tile"])
    other = replaced(window, "tile", tile, Ref("mid"))
    assert other.operands["tile"] == value_of(other.written["tile"], {}) == Ref("mid")


def test_the_folded_operand_is_the_one_that_the_reader_makes(read: Read) -> None:
    """A program that says 9 is read like one in which `p` is replaced by 9."""
    call, row = offset(read, "p * 2 + i * (q - 1)")
    other, _ = offset(read, "9 * 2 + i * (q - 1)")
    (constant,) = (leaf for leaf in leaves(row) if leaf.text == "p")
    assert replaced(call, "offsets", constant, 9).operands == other.operands != call.operands


def test_a_new_tile_has_the_type_that_the_other_value_says(read: Read) -> None:
    program = read(
        "t = pl.tile.create(shape, pl.INT8, @Mat)\nt = pl.tile.gather_row(t, x, dst_offset=[0, 0], "
        "src_offset=[0, 0], shapes=[64, 64])\ny = pl.store(t, [0, 0], y)",
        "shape = [64, 64]",
    )
    create = first(program, "tile.create")

    def changed(operand: str, value: Any) -> Any:
        (leaf,) = leaves(create.written[operand])
        return replaced(create, operand, leaf, value).result

    assert changed("shape", (32, 64)) == TileType((32, 64), DType.INT8, Space.Mat)
    assert changed("dtype", DType.INT32) == TileType((64, 64), DType.INT32, Space.Mat)
    assert changed("target_memory", Space.Vec) == TileType((64, 64), DType.INT8, Space.Vec)


def test_a_loop_with_another_bound(fused: Program) -> None:
    (loop,) = [one for one in flat(fused.functions["fused"].body) if isinstance(one, For) and one.start == 1][
        :1
    ]
    (stop,) = leaves(loop.written[1])
    longer = replaced(loop, "stop", stop, 9)
    assert (longer.start, longer.stop, value_of(longer.written[1], {})) == (loop.start, 9, 9)
    (start,) = leaves(loop.written[0])
    assert (replaced(loop, "start", start, 0).start, loop.start) == (0, 1)
    assert longer.body == loop.body


def test_programs_made_by_hand_say_nothing(fused: Program) -> None:
    position = Position("kernel.py", 1)
    assert For(position, "i", 0, 1, ()).written == If(position, 1, (), ()).written == ()
    assert Invoke(position, (), "f", ()).written == ()
    call = first(fused, "tile.img2col")
    bare = Call(call.position, call.target, call.operator, call.operands, call.result)
    assert bare.written == {}
    assert bare == call
    assert "written" not in repr(call)
    assert list(leaves(LoopVar("i"))) == []
