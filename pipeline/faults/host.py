"""Faults of what the host hands over and gets back: inputs packed otherwise, outputs stored otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from emulator.vreq8 import READINGS, requantise
from golden import layout
from golden.geometry import C0, Geometry
from golden.specs import Int8, Tensors
from kernels.plan import Plan
from pipeline.engines.base import SENTINEL, Array
from pipeline.faults.catalogue import Fault

_SCALE_BITS, _ONE = np.uint64(0xFFFF_FFFF), np.uint64(0x3F80_0000)
_SIGNED = np.uint64(1 << 46)


def spoiled_inputs(
    fault: Fault,
    program: str,
    geometry: Geometry,
    tensors: Tensors,
    variant: str,
    arrays: Mapping[str, Array],
) -> dict[str, Array]:
    """A program's inputs by name as the fault hands them over; the arrays given stay as they are.

    Args:
        fault: the fault; one that is not in the inputs changes nothing.
        program: the program they are for.
        geometry: the shapes of the pair.
        tensors: the pair's inputs.
        variant: the platform's, for which the tables are packed.
        arrays: the right inputs, in the layouts of `golden.specs`.
    """
    n = fault.conv
    changed: dict[str, Array] = {}
    if fault.family in ("scale32", "scale19-rne"):
        changed[f"scale{n}"] = tensors.tables(fault.family)[n - 1]
    elif fault.family == "scale-ignored":
        changed[f"scale{n}"] = tensors.tables(variant)[n - 1] & ~_SCALE_BITS | _ONE
    elif fault.family == "unsigned-saturation":
        changed[f"scale{n}"] = tensors.tables(variant)[n - 1] & ~_SIGNED
    elif fault.family in ("other-table", "other-bias") and geometry.cmid == geometry.cout:
        name = fault.family.removeprefix("other-").replace("table", "scale")
        changed[f"{name}{n}"] = arrays[f"{name}{3 - n}"]
    elif fault.family == "bias-missing":
        changed[f"bias{n}"] = np.zeros_like(arrays[f"bias{n}"])
    elif fault.family in ("k-order-khkwc", "k-order-ckhkw"):
        matrix, conv = ((tensors.filter1, geometry.conv1), (tensors.filter2, geometry.conv2))[n - 1]
        changed[f"filter{n}"] = _reordered(fault.family, matrix, conv.kernel)
    elif fault.id == "planes-swapped-1":
        changed["x"] = np.roll(tensors.x.reshape(geometry.cin // C0, -1, C0), -1, axis=0).reshape(-1, C0)
    elif fault.id == "x-nhwc":
        changed["x"] = layout.nc1hwc0_to_nhwc(tensors.x, geometry.height, geometry.width).reshape(-1, C0)
    elif fault.id == "mid-of-other-run":
        changed = _after_a_run_on_zeros(program, geometry, tensors, variant)
    return {**arrays, **changed}


def spoiled_output(fault: Fault, plan: Plan, output: Int8) -> Int8:
    """What of y, int8 [Hout*Wout, Cout], reaches the host: ACC tile by ACC tile, as they were stored."""
    if fault.id not in ("unwritten", "nz-as-nd-y", "nd-as-nz-y"):
        return output
    tiles = output.reshape(-1, plan.conv2.positions, output.shape[1]).copy()
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
    """A filter matrix [K, Cout] with K running otherwise than (c1, kh, kw, c0)."""
    weights = layout.matrix_to_filter(matrix, kernel)  # [Cout, C, kh, kw]
    order = (2, 3, 1, 0) if family == "k-order-khkwc" else (1, 2, 3, 0)
    return np.ascontiguousarray(weights.transpose(order)).reshape(matrix.shape)


def _after_a_run_on_zeros(
    program: str, geometry: Geometry, tensors: Tensors, variant: str
) -> dict[str, Array]:
    """Inputs that make conv2 read the mid of x = 0: x itself where one kernel computes both."""
    if program == "fused":
        return {"x": np.zeros_like(tensors.x)}
    if program != "pass2":
        return {}
    row = requantise(tensors.bias1, tensors.tables(variant)[0], READINGS[variant])
    pixels = geometry.mid_height * geometry.mid_width
    return {"mid": cast(Int8, np.repeat(row, pixels, axis=0))}
