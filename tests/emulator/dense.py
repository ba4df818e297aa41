"""A small definition, y = requantise(x @ w + b), and kernels of it, for tests of proof and blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from emulator.blame import Task
from emulator.operands import Position
from emulator.program import Program
from emulator.proof import Proof, prove
from emulator.soc import SOCS
from emulator.terms import Numbering
from golden.terms import Sums, matrix, row

Read = Callable[..., Program]
Index = npt.NDArray[Any]
A2A3 = SOCS["a2a3"]
SHAPES = {
    "x": (64, 64),
    "w": (64, 64),
    "b": (1, 64),
    "c": (1, 64),
    "s": (1, 64),
    "y": (64, 64),
    "z": (64, 64),
}

SQUARE = matrix(64)
"""The elements of a matrix of 64 columns."""

DENSE = Sums((64, 64, 64), ("x", SQUARE), ("w", SQUARE), ("y", SQUARE), ("b", row), ("s", row))
"""y = requantise(x @ w + b) with the table s."""
SUMS = replace(DENSE, result=("z", SQUARE), table=None)
"""z = x @ w + b."""

PARAMS = {
    "x": "pl.Tensor[[64, 64], pl.INT8]",
    "w": "pl.Tensor[[64, 64], pl.INT8]",
    "b": "pl.Tensor[[1, 64], pl.INT32]",
    "c": "pl.Tensor[[1, 64], pl.INT32]",
    "s": "pl.Tensor[[1, 64], pl.UINT64]",
}
TO_Y = {**PARAMS, "y": "pl.Out[pl.Tensor[[64, 64], pl.INT8]]"}
TO_Z = {**PARAMS, "z": "pl.Out[pl.Tensor[[64, 64], pl.INT32]]"}

ROWS = """
m = pl.load(x, [0, 0], [64, 64], @Mat)
f = pl.load(w, [0, 0], [64, 64], @Mat)
b1 = pl.load(b, [0, 0], [1, 64], @Mat)
c1 = pl.load(c, [0, 0], [1, 64], @Mat)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
bias = pl.move(b1, @Bias)
scale = pl.move(s1, @LeftScale)
"""
FIRST = """
a = pl.tile.extract(m, 0, 0, shape=[64, 32], @Left)
r = pl.tile.extract(f, 0, 0, shape=[32, 64], @Right)
acc = pl.tile.matmul_bias(a, r, bias)
"""
SECOND = """
a = pl.tile.extract(m, 0, 32, shape=[64, 32], @Left)
r = pl.tile.extract(f, 32, 0, shape=[32, 64], @Right)
acc = pl.tile.matmul_acc(acc, a, r)
"""
STORE = "y = pl.tile.fixpipe_store(acc, scale, y, [0, 0])\n"
WHOLE = ROWS + FIRST + SECOND + STORE


def task_of(
    program: Program, *blocks: Any, shapes: Mapping[str, tuple[int, ...]] = SHAPES, **given: Any
) -> Task:
    """A program whose parameters have the names of tensors, unless ids are given, and what it must do."""
    numbering = Numbering(shapes, blocks)
    params = program.main.params
    inputs = {param.name: numbering.ids(param.name) for param in params if param.name in shapes}
    outputs = {param.name: inputs.pop(param.name) for param in params if param.type.out}
    return Task(program, A2A3, numbering, inputs | given, outputs)


def proved(program: Program, *blocks: Any, **given: Any) -> Proof:
    """The proof of a program, as `task_of` takes it."""
    return prove(task_of(program, *blocks, **given))


def text_at(position: Position) -> str:
    """The line of source at a position."""
    return Path(position.file).read_text(encoding="utf-8").splitlines()[position.line - 1].strip()
