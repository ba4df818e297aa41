from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from emulator.engine import compile_program
from emulator.errors import KernelError, SourceError, TypeMismatchError
from emulator.operands import DType
from emulator.program import For, If, Program, TileType
from emulator.soc import SOCS, Space

Read = Callable[..., Program]

COPY = """
t = pl.load(x, [0, 0], [64, 64], @Vec)
y = pl.store(t, [0, 0], y)
"""


def refusal(read: Read, body: str, factory: str = "", **tensors: str) -> KernelError:
    with pytest.raises(KernelError) as caught:
        read(body, factory, **tensors)
    return caught.value


def source_line(error: KernelError) -> str:
    return linecache.getline(error.position.file, error.position.line).strip()


@pytest.mark.parametrize(
    ("factory", "body"),
    [
        ("", COPY),
        ("rows = 64\nshape = [rows, 64]", "t = pl.load(x, [0, 0], shape, @Vec)\ny = pl.store(t, [0, 0], y)"),
        (
            "dims = (32, 64)",
            "t = pl.load(x, [0, 0], [2 * dims[0], dims[-1]], @Vec)\ny = pl.store(t, [0, 0], y)",
        ),
        (
            "half = 32",
            """
            for row in pl.range(2):
                t = pl.load(x, [row * half, 0], [half, 64], @Vec)
                y = pl.store(t, [row * half, 0], y)
            """,
        ),
        (
            "",
            """
            for row in pl.unroll(2):
                for column in pl.pipeline(0, 2):
                    t = pl.load(x, [row * 32, column * 32], [32, 32], @Vec)
                    y = pl.store(t, [row * 32, column * 32], y)
            """,
        ),
        (
            "",
            """
            for row in pl.range(4):
                if row % 2 == 0:
                    t = pl.load(x, [row * 16, 0], [16, 64], @Vec)
                else:
                    t = pl.load(w, [row // 2 * 32 + 16, 0], [16, 64], @Vec)
                y = pl.store(t, [row * 16, 0], y)
            """,
        ),
        (
            "dead = False",
            """
            t = pl.load(x, [0, 0], [64, 64], @Vec)
            if dead:
                t = pl.load(x, [64, 64], [64, 64], @Vec)
            y = pl.store(t, [0, 0], y)
            """,
        ),
        (
            "n = 1",
            """
            t = pl.load(x, [0, 0], [64, 64], @Vec)
            for i in pl.range(1, n):
                t = pl.load(x, [-1, i], [64, 64], @Vec)
            y = pl.store(t, [0, 0], y)
            """,
        ),
        (
            """
            @pl.inline
            def copied(from_x, from_row):
                '''A helper.'''
                part = pl.load(from_x, [from_row, 0], [32, 64], @Vec)
                return part
            """,
            """
            '''A docstring.'''
            top = copied(x, 0)
            y = pl.store(top, [0, 0], y)
            low = copied(x, 32)
            y = pl.store(low, [32, 0], y)
            """,
        ),
    ],
)
def test_what_the_language_has_is_read_and_compiles(read: Read, factory: str, body: str) -> None:
    assert compile_program(read(body, factory), SOCS["a2a3"]).counts.written == {"y": 64 * 64}


@pytest.mark.parametrize(
    ("factory", "body", "problem"),
    [
        (
            "import emulator.language as dsl",
            "t = dsl.load(x, [0, 0], [64, 64], @Vec)",
            "operators are called as pl",
        ),
        ("def helper(t): return t", "t = helper(x)", "a helper needs @pl.inline"),
        ("", "t = pl.laod(x, [0, 0], [64, 64], @Vec)", "unknown operator; did you mean pl.load?"),
        ("", "t = pl.tile.img2cool(x, 0)", "did you mean pl.tile.img2col?"),
        ("", "for i in range(2):\n    t = pl.load(x, [0, 0], [64, 64], @Vec)", "loops run over pl.range"),
        (
            "",
            "for i in pl.range(0, 4, 2):\n    t = pl.load(x, [0, 0], [64, 64], @Vec)",
            "takes (stop) or (start, stop)",
        ),
        ("", "for i in pl.range(2):\n    pass", "pass: is not part of the language"),
        ("", "t = pl.load(x, [0, 0], [64, 64], @Vec)\nt += 1", "t += 1: is not part of the language"),
        (
            "",
            "while True:\n    t = pl.load(x, [0, 0], [64, 64], @Vec)",
            "while True: is not part of the language",
        ),
        ("", "n = 3", "the right side must be a call"),
        ("", "t = u = pl.load(x, [0, 0], [64, 64], @Vec)", "must assign to one plain name"),
        ("", "t, u = pl.load(x, [0, 0], [64, 64], @Vec)", "gives one result"),
        ("", "t, self.u = self.kernel(x)", "must assign to one plain name"),
        ("", "pl.store(x, [0, 0], y)", "its result is dropped"),
        ("", "t = self.kernel(x, w, b, s, y)", "only an orchestration may call"),
        ("", "return y", "is allowed only at the end of a function"),
        ("", "t = pl.load(nowhere, [0, 0], [64, 64], @Vec)", "nowhere is not a tile or tensor here"),
        ("", "t = pl.load(x + 1, [0, 0], [64, 64], @Vec)", "x + 1: must be the name of a tile or tensor"),
        ("", "t = pl.load(x, [0], [64, 64], @Vec)", "must be [row, column]"),
        ("", "t = pl.load(x, [x, 0], [64, 64], @Vec)", "x is a tile or tensor: an index is needed"),
        ("", "t = pl.load(x, [gone, 0], [64, 64], @Vec)", "gone is not defined here"),
        ("", "t = pl.load(x, [0.5, 0], [64, 64], @Vec)", "0.5: not an index expression"),
        ("", "t = pl.load(x, [min(1, 2), 0], [64, 64], @Vec)", "not an index expression"),
        ("", "t = pl.load(x, [1 // 0, 0], [64, 64], @Vec)", "the divisor must be a positive constant"),
        (
            "",
            "for i in pl.range(2):\n    t = pl.load(x, [8 % i, 0], [64, 64], @Vec)",
            "the divisor must be a positive constant",
        ),
        (
            "import numpy as np\nn = np.int64(64)",
            "t = pl.load(x, [0, 0], [n, 64], @Vec)",
            "n is an int64: must be a plain Python int",
        ),
        ("n = pl.INT8", "t = pl.load(x, [n, 0], [64, 64], @Vec)", "n is pl.INT8: must be a plain Python int"),
        (
            "n = [pl.MemorySpace.Mat, range(2)]",
            "t = pl.load(x, [n, 0], [64, 64], @Vec)",
            "n is [pl.MemorySpace.Mat, a range]: must be a plain Python int",
        ),
        (
            "kinds = dict(take=1)",
            "t = pl.load(x, [0, 0], [64, 64], **kinds)",
            "takes the keywords target_memory; got **kinds",
        ),
        ("n = True", "t = pl.load(x, [n, 0], [64, 64], @Vec)", "n is True: must be a plain Python int"),
        ("shape = [64.0, 64]", "t = pl.load(x, [0, 0], shape, @Vec)", "not a list or tuple of Python ints"),
        ("plan = [1]", "t = pl.load(x, [plan.rows, 0], [64, 64], @Vec)", "bind it to a name in the factory"),
        ("plan = [1]", "t = pl.load(x, [0, 0], plan.shape, @Vec)", "bind it to a name in the factory"),
        ("shape = [64, 64]", "t = pl.load(x, [0, 0], shape[2:], @Vec)", "must be a list of constants"),
        ("shape = [64, 64]", "t = pl.load(x, [shape[2], 0], [64, 64], @Vec)", "a constant inside the list"),
        ("", "for i in pl.range(2):\n    t = pl.load(x, [0, 0], [i, 64], @Vec)", "must be constant"),
        ("", "t = pl.load(x, [0, 0], [64, 64], target_memory=pl.Vec)", "must be pl.MemorySpace.Mat / Left"),
        (
            "flag = True",
            "t = pl.tile.create([16, 32], pl.INT8 if flag else pl.INT32, @Mat)",
            "pl.INT8 if flag else pl.INT32: must be pl.INT8 / pl.INT32 / pl.UINT64 / pl.FP32",
        ),
        ("", "t = pl.load(x, [0, 0], @Vec)", "takes 3 positional operands (tensor, offsets, shape)"),
        ("", "t = pl.load(x, [0, 0], [64, 64])", "takes the keywords target_memory; got none"),
        ("", "t = pl.load(x, [0, 0], [64, 64], @Vec, clamp=1)", "got target_memory, clamp"),
        (
            "n = 1",
            "if n:\n    t = pl.load(x, [0, 0], [64, 64], @Vec)",
            "must be a comparison of indices or a Python bool",
        ),
        (
            "",
            "t = pl.load(x, [0, 0], [64, 64], @Vec)\nx = pl.store(t, [0, 0], x)",
            "writes x, which is not marked pl.Out",
        ),
        ("", "t = pl.load(x, [0, 0], [64, 64], @Vec)\nz = pl.store(t, [0, 0], y)", "assign to the same name"),
        ("", "t = pl.move(x, @Bias)", "x is not a tile"),
        (
            "",
            "t = pl.load(x, [0, 0], [64, 64], @Vec)\nu = pl.load(t, [0, 0], [64, 64], @Vec)",
            "t is not a tensor",
        ),
        (
            "",
            "for i in pl.range(2):\n    t = pl.load(x, [0, 0], [64, 64], @Vec)\ny = pl.store(t, [0, 0], y)",
            "t is not a tile or tensor here",
        ),
        (
            "",
            "for i in pl.range(2):\n    y = pl.store(t, [0, 0], y)\n"
            "    t = pl.load(x, [0, 0], [64, 64], @Vec)",
            "t is not a tile or tensor here",
        ),
        (
            "",
            "for i in pl.range(2):\n    t = pl.load(x, [0, 0], [32, 64], @Vec)\n"
            "u = pl.load(x, [i, 0], [8, 64], @Vec)",
            "i is not defined here",
        ),
        (
            "",
            "for i in pl.range(2):\n    for i in pl.range(2):\n"
            "        t = pl.load(x, [0, 0], [64, 64], @Vec)",
            "i already means something here",
        ),
        (
            "",
            "for x in pl.range(2):\n    t = pl.load(w, [0, 0], [64, 64], @Vec)",
            "x already means something here",
        ),
        ("", "for i in pl.range(2):\n    i = pl.load(x, [0, 0], [64, 64], @Vec)", "is an index here"),
        (
            "",
            "for i in pl.range(2):\n    if i == 0:\n        t = pl.load(x, [0, 0], [64, 64], @Vec)\n"
            "    y = pl.store(t, [0, 0], y)",
            "t is not a tile or tensor here",
        ),
        (
            "flag = True",
            "if flag:\n    t = pl.load(x, [0, 0], [64, 64], @Vec)\nelse:\n    y = pl.store(t, [0, 0], y)",
            "t is not a tile or tensor here",
        ),
        (
            "flag = True",
            "if flag:\n    t = pl.load(x, [0, 0], [64, 64], @Vec)\n"
            "else:\n    t = pl.load(x, [0, 0], [32, 64], @Vec)\n"
            "y = pl.store(t, [0, 0], y)",
            "t is not a tile or tensor here",
        ),
        ("dead = False", "if dead:\n    t = pl.nothing(x)", "unknown operator"),
        (
            "",
            "t = pl.load(x, [0, 0], [64, 64], @Vec)\nt = pl.load(x, [0, 0], [32, 64], @Vec)",
            "a name keeps its type: t was Vec tile [64, 64] int8, this is Vec tile [32, 64] int8",
        ),
    ],
)
def test_what_pypto_refuses_is_refused(read: Read, factory: str, body: str, problem: str) -> None:
    error = refusal(read, body, factory)
    assert isinstance(error, SourceError)
    assert problem in str(error)
    assert source_line(error) in read_lines(body)


def read_lines(body: str) -> list[str]:
    return [line.replace("@", "target_memory=pl.MemorySpace.").strip() for line in body.splitlines()]


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        ("int", "must be pl.Tensor"),
        ("pl.Tensor[[64, 64]]", "must be pl.Tensor"),
        ("pl.Tensor[[64, 0], pl.INT8]", "shape [64, 0]: must be positive"),
        ("pl.Tensor[[64, 64], int]", "int: must be pl.INT8"),
        ("pl.Tensor[rows, pl.INT8]", "rows is not a list or tuple"),
    ],
)
def test_a_parameter_is_a_tensor_of_constants(read: Read, annotation: str, problem: str) -> None:
    error = refusal(read, COPY, x=annotation, y="pl.Out[pl.Tensor[[64, 64], pl.INT8]]")
    assert problem in str(error)


@pytest.mark.parametrize(
    ("factory", "call", "problem"),
    [
        ("def one(t):\n    return t", "one(x, 0)", "takes 1 positional arguments (t)"),
        ("def one(t):\n    return t", "one(t=x)", "takes 1 positional arguments (t)"),
        ("def one(t):\n    '''Nothing.'''", "one(x)", "ends by returning one name"),
        ("def one(t):\n    return 0", "one(x)", "ends by returning one name"),
        (
            "def one(t):\n    if 1 == 1:\n        return t\n    return t",
            "one(x)",
            "is allowed only at the end of a function",
        ),
        ("def one(t):\n    u = one(t)\n    return u", "one(x)", "calls itself"),
        (
            "def one(t):\n    u = pl.move(hidden, @Bias)\n    return u",
            "one(x)",
            "hidden is not a tile or tensor here",
        ),
    ],
)
def test_a_helper_is_refused_at_its_own_line(read: Read, factory: str, call: str, problem: str) -> None:
    error = refusal(read, f"t = {call}", f"@pl.inline\n{factory}")
    assert problem in str(error)
    assert error.position.line > 0


def test_a_helper_assigns_its_callers_tile_as_in_pypto(read: Read) -> None:
    program = read(
        """
        t = pl.load(x, [0, 0], [64, 64], @Vec)
        u = other(t)
        y = pl.store(t, [0, 0], y)
        """,
        """
        @pl.inline
        def other(other_t):
            other_t = pl.load(w, [0, 0], [64, 64], @Vec)
            return other_t
        """,
    )
    report = compile_program(program, SOCS["a2a3"])
    assert report.counts.read == {"x": 64 * 64, "w": 64 * 64}
    assert [tile.name for tile in report.memory["kernel"].residents] == ["t", "t"]


def test_a_name_keeps_its_tensor(read: Read) -> None:
    out = "pl.Out[pl.Tensor[[64, 64], pl.INT8]]"
    same = "@pl.inline\ndef same(same_t):\n    return same_t"
    error = refusal(read, "o = same(y)\no = same(z)", same, x="pl.Tensor[[64, 64], pl.INT8]", y=out, z=out)
    assert "a name keeps its tensor: o was y, this is z" in str(error)


HIDDEN = """
import emulator.language as pl

{module}

def helper_of():
    {own}
    @pl.inline
    def part(part_x):
        part_t = {use}
        return part_t
    return part

def build():
    {around}
    part = helper_of()
    @pl.program
    class Kernel:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, x: pl.Tensor[[64, 64], pl.INT8], y: pl.Out[pl.Tensor[[64, 64], pl.INT8]]):
            t = part(x)
            y = pl.store(t, [0, 0], y)
            return y
    return Kernel
"""
LOAD = "pl.load(part_x, [0, 0], [{}, 64], @Vec)"
LOADER = """
def loader_of(rows):
    @pl.inline
    def loader(loader_x):
        loader_t = pl.load(loader_x, [0, 0], [rows, 64], @Vec)
        return loader_t
    return loader
"""


@pytest.mark.parametrize(
    ("own", "around", "use", "shown"),
    [
        (
            "rows = 32",
            "rows = 64",
            LOAD.format("rows"),
            "its rows is hidden by the caller's: 32 in the helper, 64 in the caller",
        ),
        (
            "load = loader_of(32)",
            "load = loader_of(64)",
            "load(part_x)",
            "its load is hidden by the caller's: "
            "the helper loader of line 7 in the helper, the helper loader of line 7 in the caller",
        ),
        (
            "rows = 32",
            "rows = pl.INT8",
            LOAD.format("rows"),
            "its rows is hidden by the caller's: 32 in the helper, pl.INT8 in the caller",
        ),
    ],
)
def test_a_constant_that_hides_a_helpers_is_refused(
    read_module: Callable[[str], Program], own: str, around: str, use: str, shown: str
) -> None:
    with pytest.raises(SourceError) as caught:
        read_module(HIDDEN.format(module=LOADER, own=own, around=around, use=use))
    assert caught.value.problem == f"{shown}; rename one"


def test_a_call_with_a_tensor_of_another_shape_shows_both(read_module: Callable[[str], Program]) -> None:
    text = """
import emulator.language as pl

def build():
    @pl.program
    class Kernel:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, x: pl.Tensor[[64, 64], pl.INT8], y: pl.Out[pl.Tensor[[64, 64], pl.INT8]]):
            t = pl.load(x, [0, 0], [64, 64], @Vec)
            y = pl.store(t, [0, 0], y)
            return y

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, half: pl.Tensor[[32, 64], pl.INT8], y: pl.Out[pl.Tensor[[64, 64], pl.INT8]]):
            y = self.kernel(half, y)
            return y
    return Kernel
"""
    with pytest.raises(SourceError) as caught:
        read_module(text)
    assert caught.value.problem == "x needs shape [64, 64]: half is tensor [32, 64] int8"


CLASS = """
import emulator.language as pl

def build():
    @pl.program
    class Kernel:
{first}
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, x: pl.Tensor[[64, 64], pl.INT8], y: pl.Out[pl.Tensor[[64, 64], pl.INT8]],
                   z: pl.Out[pl.Tensor[[64, 64], pl.INT8]]):
            t = pl.load(x, [0, 0], [64, 64], @Vec)
            y = pl.store(t, [0, 0], y)
            z = pl.store(t, [0, 0], z)
            {returned}

        @pl.function(type=pl.FunctionType.Orchestration)
        def {main}(self, x: pl.Tensor[[64, 64], pl.INT8], y: pl.Out[pl.Tensor[[64, 64], pl.INT8]],
                 z: pl.Out[pl.Tensor[[64, 64], pl.INT8]]):
            {call}
            return y, z
    return Kernel
"""
GOOD = {"first": "", "returned": "return y, z", "main": "main", "call": "y, z = self.kernel(x, y, z)"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"first": "        rows = 3"}, "only @pl.function methods belong in a program"),
        ({"first": "        def plain(self): pass"}, "needs @pl.function(type="),
        ({"returned": "return y"}, "must return the outputs by name, in order: y, z"),
        ({"returned": "return z, y"}, "in order: y, z"),
        ({"returned": "return t, z"}, "in order: y, z"),
        ({"returned": "y = pl.store(t, [0, 0], y)"}, "must end by returning its outputs"),
        ({"main": "start"}, "needs an Orchestration function called main"),
        (
            {"call": "y = self.kernel(x, y, z)"},
            "returns 2 outputs, but names to assign them to: 1",
        ),
        ({"call": "y, z = self.kernel(x, y)"}, "takes 3 positional tensors (x, y, z)"),
        ({"call": "y, z = self.kernel(x, y, z=z)"}, "takes 3 positional tensors (x, y, z)"),
        ({"call": "y, z = self.kernel(x, x, z)"}, "writes x, which is not marked pl.Out"),
        ({"call": "y, z = self.other(x, y, z)"}, "only InCore functions defined before it"),
        ({"call": "y = pl.store(x, [0, 0], y)"}, "an orchestration only calls functions"),
        (
            {"call": "for i in pl.range(2):\n                y, z = self.kernel(x, y, z)"},
            "only calls functions",
        ),
    ],
)
def test_the_form_of_a_program(
    read_module: Callable[[str], Program], change: dict[str, str], problem: str
) -> None:
    with pytest.raises(SourceError) as caught:
        read_module(CLASS.format(**GOOD | change))
    assert problem in str(caught.value)


def test_outputs_come_back_under_the_names_they_are_assigned_to(
    read_module: Callable[[str], Program],
) -> None:
    report = compile_program(read_module(CLASS.format(**GOOD)), SOCS["a2a3"])
    assert report.counts.written == {"y": 4096, "z": 4096}


def test_two_classes_of_one_name_in_a_factory_are_refused(read_module: Callable[[str], Program]) -> None:
    text = CLASS.format(**GOOD)
    start, end = text.index("    @pl.program"), text.index("    return Kernel")
    with pytest.raises(SourceError, match="the same factory has another class of this name at line 22"):
        read_module(text[:end] + text[start:])


def test_an_operator_cannot_be_called_outside_a_program() -> None:
    import emulator.language as pl

    with pytest.raises(TypeError, match=r"pl\.load stands for an operator"):
        pl.load()
    assert hasattr(pl.tile, "img2col")
    assert not hasattr(pl.tile, "no_such_operator")


def test_the_error_names_file_line_operator_and_numbers(read: Read) -> None:
    error = refusal(read, "t = pl.load(x, [0, 0], [64, 40], @Mat)")
    assert isinstance(error, TypeMismatchError)
    assert source_line(error).startswith("t = pl.load")
    assert error.operator == "pl.load"
    assert (
        str(error)
        == f"{error.position}: pl.load: columns of an L1 tile is 40: must be a positive multiple of 32"
    )


def test_types_and_branches_reach_the_program(read: Read) -> None:
    program = read(
        """
        for i in pl.range(2):
            if i == 0:
                t = pl.load(x, [0, 0], [64, 64], @Mat)
            else:
                t = pl.load(x, [0, 0], [64, 64], @Mat)
            y = pl.store(t, [0, 0], y)
        """
    )
    loop: Any = program.functions["kernel"].body[0]
    assert isinstance(loop, For)
    assert isinstance(loop.body[0], If)
    first: Any = loop.body[0].then[0]
    assert first.result == TileType((64, 64), DType.INT8, Space.Mat)


# What `pypto.ir.compile` said to these forms, with a helper that returns a local (August 2026 sources).
@pytest.mark.parametrize(
    ("before", "rounds", "refused"),
    [("u = load(x)", 2, True), ("u = load(x)", 1, False), ("", 2, False)],
    ids=["both from before the loop", "a single round", "both from within the loop"],
)
def test_a_loop_carries_no_two_names_of_one_tile(read: Read, before: str, rounds: int, refused: bool) -> None:
    factory = """
    @pl.inline
    def load(load_x):
        loaded = pl.load(load_x, [0, 0], [64, 64], @Vec)
        return loaded
    """
    body = f"{before}\nfor i in pl.range({rounds}):\n    u = load(x)\n    y = pl.store(u, [0, 0], y)"
    if refused:
        assert "two names of one tile" in str(refusal(read, body, factory))
    else:
        read(body, factory)


def test_an_error_within_helpers_names_every_call_that_led_there(read: Read) -> None:
    factory = """
    @pl.inline
    def inner(inner_x):
        part = pl.load(inner_x, [0], [64, 64], @Vec)
        return part

    @pl.inline
    def outer(outer_x):
        whole = inner(outer_x)
        return whole
    """
    error = refusal(read, "t = outer(x)", factory)
    lines, position = [], error.position
    while position is not None:
        lines.append(linecache.getline(position.file, position.line).strip())
        position = position.caller
    assert [line.partition(" = ")[2][:9] for line in lines] == ["pl.load(i", "inner(out", "outer(x)"]
    assert error.position.caller is not None
    assert str(error).endswith(
        f" (called from {error.position.caller}) (called from {error.position.caller.caller})"
    )
