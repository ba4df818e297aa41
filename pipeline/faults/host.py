"""Faults of what the host hands over and gets back: inputs packed wrongly, outputs stored wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from emulator.vreq8 import READINGS, requantise
from golden import layout
from golden.chain import INPUT, image_of
from golden.geometry import C0
from golden.specs import Array, Int8, Tensors
from pipeline.ground.memory import SENTINEL
from workloads.faults import FAULTS, Fault, can_show, no_place
from workloads.form import Form, Loading

_OTHER_TABLE = FAULTS["other-table-1"]
_SCALE_BITS, _ONE = np.uint64(0xFFFF_FFFF), np.uint64(0x3F80_0000)
_SIGNED = np.uint64(1 << 46)


def spoiled_inputs(
    fault: Fault, form: Form, tensors: Tensors, variant: str, arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """A program's inputs by name, with the fault; the given arrays are not changed.

    Args:
        fault: the fault; one that is not in the inputs, or has no place in the program, changes nothing.
        form: of the program they are for.
        tensors: the workload's inputs.
        variant: the platform's, for which the tables are packed.
        arrays: the right inputs, in the layouts of `golden.specs`, and what the host packed from them.
    """
    if no_place(fault, form):
        return {**arrays}
    changed: dict[str, Array] = {}
    first = form.chain[0]
    if fault.conv:
        changed = _of_convolution(fault, form, tensors, variant)
    elif fault.id == "x-nhwc":
        changed[INPUT] = image_of(form.chain, tensors[INPUT]).reshape(-1, C0)
    elif fault.id == "mid-of-other-run":
        changed = _after_a_run_on_zeros(form, tensors, variant)
    if fault.id == "planes-swapped-1":
        changed[INPUT] = np.roll(tensors[INPUT].reshape(first.cin // C0, -1, C0), -1, axis=0).reshape(-1, C0)
    return {**arrays, **changed}


def _of_convolution(fault: Fault, form: Form, tensors: Tensors, variant: str) -> dict[str, Array]:
    """What a fault of one convolution changes in its filter, bias and table."""
    layer = form.chain[fault.conv - 1]
    other = form.chain[2 - fault.conv] if not can_show(_OTHER_TABLE, form) else layer
    family = fault.family
    if family in ("scale32", "scale19-rne"):
        return {layer.scale: tensors.table(layer.scale, family)}
    if family == "scale-ignored":
        return {layer.scale: tensors.table(layer.scale, variant) & ~_SCALE_BITS | _ONE}
    if family == "unsigned-saturation":
        return {layer.scale: tensors.table(layer.scale, variant) & ~_SIGNED}
    if family == "other-table":
        return {layer.scale: tensors.table(other.scale, variant)}
    if family == "other-bias":
        return {layer.bias: tensors[other.bias]}
    if family == "bias-missing":
        return {layer.bias: np.zeros_like(tensors[layer.bias])}
    if family in ("k-order-khkwc", "k-order-ckhkw"):
        return {layer.filter: _reordered(family, tensors[layer.filter], layer.conv.kernel)}
    return {}


def in_output(fault: Fault) -> bool:
    """Whether a fault is in how the output is stored."""
    return fault.id in ("unwritten", "nz-as-nd-y", "nd-as-nz-y")


def spoiled_output(fault: Fault, form: Form, output: Int8) -> Int8:
    """The workload's output, int8 [Hout*Wout, Cout], as it reaches the host, ACC tile by ACC tile."""
    if not in_output(fault) or no_place(fault, form):
        return output
    tiles = output.reshape(-1, form.last.tile.positions, output.shape[1]).copy()
    if fault.id == "unwritten":
        tiles[-1] = SENTINEL
    for tile in tiles if fault.id != "unwritten" else ():
        fractals = layout.nd_to_nz(tile)
        if fault.id == "nz-as-nd-y":
            tile[:] = fractals.reshape(tile.shape)
        else:
            tile[:] = layout.nz_to_nd(tile.reshape(fractals.shape))
    return tiles.reshape(output.shape)


def _reordered(family: str, matrix: Int8, kernel: int) -> Int8:
    """A filter matrix [K, Cout] with K in another order than (c1, kh, kw, c0)."""
    weights = layout.matrix_to_filter(matrix, kernel)  # [Cout, C, kh, kw]
    order = (2, 3, 1, 0) if family == "k-order-khkwc" else (1, 2, 3, 0)
    return np.ascontiguousarray(weights.transpose(order)).reshape(matrix.shape)


def _after_a_run_on_zeros(form: Form, tensors: Tensors, variant: str) -> dict[str, Array]:
    """Inputs that make conv2 read the mid of x = 0: x itself where one program computes both."""
    second, layer = form.convolution(2), form.chain[0]
    if second is None:
        return {}
    if second.loading is Loading.IN_L1:
        return {INPUT: np.zeros_like(tensors[INPUT])}
    row = requantise(tensors[layer.bias], tensors.table(layer.scale, variant), READINGS[variant])
    return {second.source: cast(Int8, np.repeat(row, layer.out_height * layer.out_width, axis=0))}
