"""Faults of what the host hands over and gets back: inputs packed wrongly, outputs stored wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from emulator.vreq8 import READINGS, requantise
from golden import layout, vreq8
from golden.chain import INPUT, Layer, image_of
from golden.geometry import C0
from golden.specs import Array, Int8, Tensors
from pipeline.ground.memory import SENTINEL
from workloads.faults import Fault, can_show, no_place
from workloads.form import Form, Loading

_SCALE_BITS, _ONE = np.uint64(0xFFFF_FFFF), np.uint64(0x3F80_0000)
_SIGNED = np.uint64(1 << 46)
_KHKWC, _CKHKW = (2, 3, 1, 0), (1, 2, 3, 0)
"""Orders of K among the axes of a filter [Cout, C, kh, kw]."""


def spoiled_inputs(
    fault: Fault, form: Form, tensors: Tensors, variant: str, arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """A program's inputs by name, with the fault; the given arrays are not changed.

    Args:
        fault: the fault; one that is not in the inputs, or has no place in the program, changes nothing.
        form: of the program they are for.
        tensors: the inputs of programs, as the host packs the workload's.
        variant: the platform's, for which the tables are packed.
        arrays: the right inputs, in the layouts of `golden.specs`, and what the host made of them.
    """
    if no_place(fault, form):
        return {**arrays}
    chain, x = form.chain, tensors[INPUT]
    layer = other = chain[fault.conv - 1]
    if fault.family in ("other-table", "other-bias") and not can_show(fault, form):
        other = chain[2 - fault.conv]

    def table(of: str = layer.scale, packed_for: str = variant) -> vreq8.Table:
        return tensors.table(of, packed_for)

    changes: Mapping[str, Callable[[], dict[str, Array]]] = {
        "scale32": lambda: {layer.scale: table(packed_for="scale32")},
        "scale19-rne": lambda: {layer.scale: table(packed_for="scale19-rne")},
        "scale-ignored": lambda: {layer.scale: table() & ~_SCALE_BITS | _ONE},
        "unsigned-saturation": lambda: {layer.scale: table() & ~_SIGNED},
        "other-table": lambda: {layer.scale: table(other.scale)},
        "other-bias": lambda: {layer.bias: tensors[other.bias]},
        "bias-missing": lambda: {layer.bias: np.zeros_like(tensors[layer.bias])},
        "k-order-khkwc": lambda: {layer.filter: _reordered(tensors[layer.filter], layer, _KHKWC)},
        "k-order-ckhkw": lambda: {layer.filter: _reordered(tensors[layer.filter], layer, _CKHKW)},
        "planes-swapped-1": lambda: {INPUT: np.roll(x, -layer.height * layer.width, axis=0)},
        "x-nhwc": lambda: {INPUT: image_of(chain, x).reshape(-1, C0)},
        "mid-of-other-run": lambda: _after_a_run_on_zeros(form, tensors, variant),
    }
    change = changes.get(fault.family) or changes.get(fault.id)
    return {**arrays, **change()} if change else {**arrays}


def in_output(fault: Fault) -> bool:
    """Whether a fault is in how the output is stored."""
    return fault.id in ("unwritten", "nz-as-nd-y", "nd-as-nz-y")


def spoiled_output(fault: Fault, form: Form, output: Int8) -> Int8:
    """The workload's output, int8 [Hout*Wout, Cout], as it reaches the host, ACC tile by ACC tile."""
    if not in_output(fault) or no_place(fault, form):
        return output
    wrong = output.copy()
    tiles = list(form.last.stored())
    if fault.id == "unwritten":
        wrong[tiles[-1]] = SENTINEL
        return wrong
    for tile in tiles:
        rows, columns = output[tile].shape
        across = columns // C0
        # The fractals of a tile lie as [columns / C0][rows][C0].
        shape = (rows, across, C0) if fault.id == "nz-as-nd-y" else (across, rows, C0)
        wrong[tile] = output[tile].reshape(shape).transpose(1, 0, 2).reshape(rows, columns)
    return wrong


def _reordered(matrix: Int8, layer: Layer, order: Sequence[int]) -> Int8:
    """A filter matrix [K, Cout] with K in another order than (c1, kh, kw, c0)."""
    weights = layout.matrix_to_filter(matrix, layer.conv)  # [Cout, C, kh, kw]
    return np.ascontiguousarray(weights.transpose(order)).reshape(matrix.shape)


def _after_a_run_on_zeros(form: Form, tensors: Tensors, variant: str) -> dict[str, Array]:
    """Inputs that make conv2 read the mid of x = 0: x itself where one program computes both."""
    second, layer = form.convolution(2), form.chain[0]
    assert second is not None  # a hand-over has no place without its reader
    if second.loading is Loading.IN_L1:
        return {INPUT: np.zeros_like(tensors[INPUT])}
    row = requantise(tensors[layer.bias], tensors.table(layer.scale, variant), READINGS[variant])
    return {second.source: cast(Int8, np.repeat(row, layer.out_height * layer.out_width, axis=0))}
