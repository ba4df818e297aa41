"""A walk as bytes: what comes back is the program that was walked, and nothing else is let in."""

from __future__ import annotations

import os
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.engine import compile_program, run_program, walked
from emulator.errors import KernelError
from emulator.kept import packed, unpacked
from emulator.program import Call, Program, flat
from emulator.soc import SOCS

Read = Callable[..., Program]
A2A3 = SOCS["a2a3"]

IMAGE = "image_shape=(8, 8), kernel_size=(1, 1), stride=(1, 1), padding=(0, 0, 0, 0)"
BODY = f"""
m = pl.load(x, [0, 0], [64, 64], @Mat)
f = pl.load(w, [0, 0], [64, 64], @Mat)
b1 = pl.load(b, [0, 0], [1, 64], @Mat)
bias = pl.move(b1, @Bias)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
scale = pl.move(s1, @LeftScale)
right = pl.tile.extract(f, 0, 0, shape=[64, 64], @Right)
for half in pl.range(2):
    if half > 0:
        left = pl.tile.img2col(m, 32, 0, [32, 64], {IMAGE})
    else:
        left = pl.tile.img2col(m, 0, 0, [32, 64], {IMAGE})
    acc = pl.tile.matmul_bias(left, right, bias)
    y = pl.tile.fixpipe_store(acc, scale, y, [half * 32, 0])
"""


@pytest.fixture(scope="module")
def program(read: Read) -> Program:
    return read(BODY)


def arrays() -> dict[str, Any]:
    random = np.random.default_rng(1)
    scales = np.full((1, 64), np.float32(2**-10)).view(np.uint32).astype(np.uint64)
    return {
        "x": random.integers(-128, 128, (64, 64)).astype(np.int8),
        "w": random.integers(-128, 128, (64, 64)).astype(np.int8),
        "b": np.zeros((1, 64), np.int32),
        "s": scales,
        "y": np.zeros((64, 64), np.int8),
    }


def test_the_program_comes_back_with_its_walk(program: Program) -> None:
    again = unpacked(packed(program, "a2a3"))
    assert again == program
    assert again is not program
    first, second = arrays(), arrays()
    reports = run_program(program, A2A3, first), run_program(again, A2A3, second)
    assert reports[1].program is again
    assert reports[0].counts == reports[1].counts
    assert first["y"].any()
    np.testing.assert_array_equal(first["y"], second["y"])


def test_it_is_not_walked_again(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    data = packed(program, "a2a3")
    again = unpacked(data)
    monkeypatch.setattr("emulator.engine._Walk", None)
    assert compile_program(again, A2A3).counts == compile_program(program, A2A3).counts
    given = arrays()
    run_program(again, A2A3, given)
    assert given["y"].any()


def test_tiles_are_found_by_the_calls_of_the_new_program(program: Program) -> None:
    again = unpacked(packed(program, "a2a3"))
    placed, before = (compile_program(each, A2A3).memory["kernel"] for each in (again, program))
    made = [
        (placed.at(new), before.at(old))
        for new, old in zip(again.calls, program.calls, strict=True)
        if id(old) in before.by_call
    ]
    assert len(made) == len(before.residents)
    assert all(new == old for new, old in made)


def test_no_data_and_no_source_are_in_it(program: Program) -> None:
    run_program(program, A2A3, arrays())
    data = packed(program, "a2a3")
    assert len(data) < 10_000
    names = {str(argument) for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)}
    assert "emulator.program" in names
    assert not {"emulator.sources", "ast", "numpy"} & {name.partition(" ")[0] for name in names}
    again = unpacked(data)
    assert not any(call.written for call in again.calls)
    assert all(tensor.data is None for tensor in walked(again, A2A3).tensors)


def test_a_refused_program_is_none(read: Read) -> None:
    program = read(BODY.replace("[0, 0], [64, 64]", "[1, 0], [64, 64]", 1))
    said = []
    for act in (lambda: compile_program(program, A2A3), lambda: packed(program, "a2a3")):
        with pytest.raises(KernelError) as refused:
            act()
        said.append(str(refused.value))
    assert said[0] == said[1]


class Foreign:
    """Pickled, it asks for the call of a function, which makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def test_no_other_function_is_called(tmp_path: Path) -> None:
    data = pickle.dumps(Foreign(tmp_path / "made"))
    with pytest.raises(ValueError, match="is no part of a walk"):
        unpacked(data)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "data",
    [b"", b"no pickle", pickle.dumps([1, 2])],
    ids=["nothing", "text", "a list"],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not the walk of a program"):
        unpacked(data)


def test_bytes_cut_short_are_refused(program: Program) -> None:
    data = packed(program, "a2a3")
    for length in range(0, len(data) - 1, 97):
        with pytest.raises(ValueError, match="not the walk of a program"):
            unpacked(data[:length])


def test_every_kind_of_statement_is_in_these_tests(program: Program) -> None:
    kinds = {type(each).__name__ for function in program.functions.values() for each in flat(function.body)}
    assert {"Call", "For", "If", "Invoke", "Return"} <= kinds
    assert any(isinstance(each, Call) for each in program.calls)
