"""The matrix product at tensor level: its operands are its inputs, unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from golden.gemm import product
from golden.geometry import GemmGeometry
from golden.specs import Array, Int8
from kernels.tensor.plan import Capacities, GemmTiling, gemm_tiling
from workloads.tensor_level import Launch, TensorLevel, TensorProgram


def _launch(geometry: GemmGeometry, tiling: GemmTiling, inputs: Mapping[str, Array]) -> Launch:
    a, b = (cast(Int8, inputs[name]) for name in ("a", "b"))
    return Launch({"a": a, "b": b}, "c", product(a, b), np.arange(geometry.m))


def _tiling(program: str, geometry: GemmGeometry, capacities: Capacities) -> GemmTiling:
    return gemm_tiling(geometry, capacities)


TENSOR_LEVEL = TensorLevel("kernels.tensor.programs", {"gemm": TensorProgram(_launch)}, _tiling, GemmTiling)
