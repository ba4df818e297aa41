from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.engine import compile_program, run_program
from emulator.program import Call, For, Program, Spoil
from emulator.soc import SOCS
from emulator.tile import Tile

Read = Callable[..., Program]
A2A3 = SOCS["a2a3"]

COPY = """
m = pl.tile.create([64, 64], pl.INT8, @Mat)
for plane in pl.range(2):
    m = pl.tile.gather_row(m, x, dst_offset=[0, plane * 32], src_offset=[0, plane * 32], shapes=[64, 32])
y = pl.store(m, [0, 0], y)
"""
GM = {"x": "pl.Tensor[[64, 64], pl.INT8]", "y": "pl.Out[pl.Tensor[[64, 64], pl.INT8]]"}


def spoilt(program: Program, spoil: Spoil) -> Program:
    """The program with its gather_row spoilt."""
    kernel = program.functions["kernel"]
    create, loop, *rest = kernel.body
    assert isinstance(loop, For)
    (gather,) = loop.body
    assert isinstance(gather, Call)
    body = (create, replace(loop, body=(replace(gather, spoil=spoil),)), *rest)
    return replace(program, functions={**program.functions, "kernel": replace(kernel, body=body)})


def copied(program: Program) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    x = np.random.default_rng(0).integers(-128, 128, (64, 64)).astype(np.int8)
    y = np.zeros_like(x)
    run_program(program, A2A3, {"x": x, "y": y})
    return x, y


def test_a_spoil_acts_on_what_its_operator_gave_each_time_it_ran(read: Read) -> None:
    seen: list[tuple[int, ...]] = []

    def spoil(values: Mapping[str, Any], result: Tile) -> None:
        seen.append(values["dst_offset"])
        assert values["tile"] is result
        assert values["shapes"] == (64, 32)
        result.put(0, values["dst_offset"][1], np.full((1, 32), 7, np.int8))

    x, y = copied(spoilt(read(COPY, **GM), spoil))
    assert seen == [(0, 0), (0, 32)]
    assert (y[0] == 7).all()
    assert np.array_equal(y[1:], x[1:])


def test_without_a_spoil_nothing_is_changed(read: Read) -> None:
    x, y = copied(read(COPY, **GM))
    assert np.array_equal(x, y)


def test_a_spoil_does_not_act_where_nothing_is_computed_and_changes_no_count(read: Read) -> None:
    def refuse(values: Mapping[str, Any], result: Tile) -> None:
        raise AssertionError("nothing is computed")

    program = read(COPY, **GM)
    assert compile_program(spoilt(program, refuse), A2A3).counts == compile_program(program, A2A3).counts
