"""A tiny kernel of known answers, and the data on which all readings of requantisation answer differently."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from golden.vreq8 import pack, requantise

ROWS, COLUMNS = 16, 32

READINGS = ("vreq8", "round-then-add", "half-away", "offset-unsigned", "scale32", "fma", "exact")
"""The variants that are readings of a table; `scale19-rne` packs another table and reads it as `vreq8`."""

_QUESTIONS: tuple[tuple[int, float, int], ...] = (
    (8, 1 / 16, 1),  # 1.5: 2, or 1 if the offset is added to what is rounded
    (8, 1 / 16, 0),  # 0.5: 0, or 1 away from zero
    (24, 1 / 16, 0),
    (-24, 1 / 16, 4),
    (8, 1 / 16, -1),  # -0.5: 0, or 127 if the offset has no sign
    (15, 0.1, 0),  # 1.4996 with 19 bits of the scale, 1.5 with 32
    (8388607, 2.0**-24, 1),  # the sum is no fp32 number
    (37748737, 2.0**-23, 0),  # the accumulator is none
    (3651698, float.fromhex("0x1.08cp-14"), -231),  # product and sum rounded once or twice
    (92021392, float.fromhex("0x1.198p-20"), -80),
    (-179168754, float.fromhex("0x1.a68p-22"), 79),
    (-40399346, float.fromhex("0x1.5e8p-19"), 96),
    (4000, 1 / 16, 0),  # saturates
    (-4000, 1 / 16, 0),
)
"""Accumulator, scale and offset of each of the first columns; the others have scales of their own."""


def build(pl: Any) -> Any:
    """The program: accumulators of which every row is the bias plus its number, requantised in both ways."""
    left_shape, right_shape, row_shape = [ROWS, COLUMNS], [COLUMNS, COLUMNS], [1, COLUMNS]

    @pl.program
    class KnownAnswers:
        @pl.function(type=pl.FunctionType.InCore)
        def answer(
            self,
            rows: pl.Tensor[left_shape, pl.INT8],
            weights: pl.Tensor[right_shape, pl.INT8],
            bias: pl.Tensor[row_shape, pl.INT32],
            scale: pl.Tensor[row_shape, pl.UINT64],
            inserted: pl.Out[pl.Tensor[left_shape, pl.INT8]],
            stored: pl.Out[pl.Tensor[left_shape, pl.INT8]],
        ) -> tuple[pl.Tensor[left_shape, pl.INT8], pl.Tensor[left_shape, pl.INT8]]:
            rows_l1 = pl.load(rows, [0, 0], left_shape, target_memory=pl.MemorySpace.Mat)
            weights_l1 = pl.load(weights, [0, 0], right_shape, target_memory=pl.MemorySpace.Mat)
            bias_l1 = pl.load(bias, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            scale_l1 = pl.load(scale, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            left = pl.move(rows_l1, target_memory=pl.MemorySpace.Left)
            right = pl.move(weights_l1, target_memory=pl.MemorySpace.Right)
            bias_table = pl.move(bias_l1, target_memory=pl.MemorySpace.Bias)
            scale_table = pl.move(scale_l1, target_memory=pl.MemorySpace.LeftScale)
            acc = pl.tile.matmul_bias(left, right, bias_table)
            back = pl.tile.create(left_shape, pl.INT8, target_memory=pl.MemorySpace.Mat)
            back = pl.tile.fixpipe_requant(back, acc, scale_table, [0, 0])
            inserted = pl.store(back, [0, 0], inserted)
            stored = pl.tile.fixpipe_store(acc, scale_table, stored, [0, 0])
            return inserted, stored

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            rows: pl.Tensor[left_shape, pl.INT8],
            weights: pl.Tensor[right_shape, pl.INT8],
            bias: pl.Tensor[row_shape, pl.INT32],
            scale: pl.Tensor[row_shape, pl.UINT64],
            inserted: pl.Out[pl.Tensor[left_shape, pl.INT8]],
            stored: pl.Out[pl.Tensor[left_shape, pl.INT8]],
        ) -> tuple[pl.Tensor[left_shape, pl.INT8], pl.Tensor[left_shape, pl.INT8]]:
            inserted, stored = self.answer(rows, weights, bias, scale, inserted, stored)
            return inserted, stored

    return KnownAnswers


def _columns() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Bias, scale and offset of every column."""
    more = [(100 + 7 * column, 1 / (8 + column), column) for column in range(COLUMNS - len(_QUESTIONS))]
    bias, scale, offset = zip(*_QUESTIONS, *more, strict=True)
    return np.array(bias, np.int32), np.array(scale, np.float32), np.array(offset, np.int64)


def inputs() -> dict[str, npt.NDArray[Any]]:
    """The inputs by parameter; the table has all 32 bits of its scales.

    A row's number counts in the further columns only: the questions have their accumulators in every row.
    """
    bias, scale, offset = _columns()
    rows, weights = np.zeros((ROWS, COLUMNS), np.int8), np.zeros((COLUMNS, COLUMNS), np.int8)
    rows[:, 0] = np.arange(ROWS)
    weights[0, len(_QUESTIONS) :] = 1
    table = pack(scale, offset, variant="scale32")
    return {"rows": rows, "weights": weights, "bias": bias.reshape(1, -1), "scale": table}


def answers(variant: str, *, by_row: bool = False) -> npt.NDArray[np.int8]:
    """What a reading answers, int8[16, 32]: by channel, or with the table's entry of the row."""
    given = inputs()
    bias, scale, offset = _columns()
    acc = given["rows"].astype(np.int32) @ given["weights"].astype(np.int32) + bias
    table = pack(scale, offset, variant=variant)
    if not by_row:
        return requantise(acc, table, variant).astype(np.int8)
    turned = requantise(np.ascontiguousarray(acc.T), np.ascontiguousarray(table[:, :ROWS]), variant)
    return np.ascontiguousarray(turned.T).astype(np.int8)
