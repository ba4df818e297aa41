"""What the host does around a launch of the tensor-level convolution: img2col, and its table's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from golden import conv, layout, vreq8
from golden.chain import INPUT, image_of, sums_of
from golden.geometry import ConvGeometry
from golden.specs import Array, Int8
from kernels.tensor.plan import Capacities, Product, conv_tiling
from workloads.tensor_level import Launch, TensorLevel, TensorProgram, constants


def _launch(geometry: ConvGeometry, tiling: Product, inputs: Mapping[str, Array]) -> Launch:
    (layer,) = chain = conv.layers(geometry)
    x: Any = inputs[INPUT]
    sums = sums_of(layer, image_of(chain, x), cast(Int8, inputs[layer.filter]))
    table: Any = inputs[layer.scale]
    y = vreq8.requantise(sums + cast(Any, inputs[layer.bias]), table)
    operands = {
        "columns": layout.img2col(x, layer.height, layer.width, layer.conv),
        layer.filter: inputs[layer.filter],
        **constants(inputs, ""),
    }
    return Launch(operands, layer.output, y, np.arange(len(y)))


def _tiling(program: str, geometry: ConvGeometry, capacities: Capacities) -> Product:
    return conv_tiling(geometry, capacities)


TENSOR_LEVEL = TensorLevel("kernels.tensor.programs", {"conv": TensorProgram(_launch)}, _tiling, Product)
