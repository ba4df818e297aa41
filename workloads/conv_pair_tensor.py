"""What the host does around a launch of a tensor-level kernel of the pair: operands before, output after.

This work is not part of the kernel or of any reported cost. Before the launch the host makes conv1's img2col,
the canvas of mid for pass2, filter2 in (kh, kw, c) instead of (c1, kh, kw, c0) order, and a VREQ8 table's
fields as rows of fp32; after the launch it drops the garbage columns of y.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from golden import layout, vreq8
from golden.geometry import C0, Geometry
from golden.reference import convolve
from golden.specs import Array, Int8, Int32
from kernels.tensor.candidates import numbers
from kernels.tensor.canvas import Canvas, Indices
from kernels.tensor.plan import Tiling, may_fit, plan_path, tiling_by_rule, tiling_for, write_plan
from workloads.tensor_level import Launch, TensorLevel, TensorProgram, TilingSearch, constants

if TYPE_CHECKING:
    import numpy.typing as npt


def _fused(geometry: Geometry, tiling: Tiling, inputs: Mapping[str, Array]) -> Launch:
    canvas = tiling.canvas(geometry)
    columns = _on_canvas(canvas, _columns(geometry, inputs))
    mask = _on_canvas(canvas, np.ones((canvas.pixels.size, 1), np.float32))
    operands = {"columns": columns, "mask": mask, **_conv1(inputs), **_conv2(geometry, inputs)}
    return Launch(operands, "y", *_expected_y(geometry, canvas, _golden_mid(geometry, inputs), inputs))


def _pass1(geometry: Geometry, tiling: Tiling, inputs: Mapping[str, Array]) -> Launch:
    mid = _golden_mid(geometry, inputs)
    return Launch({"columns": _columns(geometry, inputs), **_conv1(inputs)}, "mid", mid, np.arange(len(mid)))


def _pass2(geometry: Geometry, tiling: Tiling, inputs: Mapping[str, Array]) -> Launch:
    canvas = tiling.canvas(geometry)
    mid = cast(Int8, inputs["mid"])
    operands = {"mid": _on_canvas(canvas, mid), **_conv2(geometry, inputs)}
    return Launch(operands, "y", *_expected_y(geometry, canvas, mid, inputs))


def _columns(geometry: Geometry, inputs: Mapping[str, Array]) -> Array:
    return layout.img2col(inputs["x"], geometry.height, geometry.width, geometry.conv1)


def _on_canvas(canvas: Canvas, rows: Array) -> Array:
    """Rows of mid pixels [H*W, n] at their places on the canvas, zeros elsewhere."""
    placed = np.zeros((canvas.rows, rows.shape[1]), rows.dtype)
    read = canvas.pixels >= 0
    placed[canvas.pixels[read]] = rows[read]
    return placed


def _conv1(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"filter1": inputs["filter1"], **constants(inputs, "1")}


def _conv2(geometry: Geometry, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"filter2": _shifted_filter(geometry, inputs), **constants(inputs, "2")}


def _shifted_filter(geometry: Geometry, inputs: Mapping[str, Array]) -> Int8:
    """filter2 with K running (kh, kw, c), as the windows do."""
    blocks = inputs["filter2"].reshape(geometry.cmid // C0, geometry.conv2.taps, C0, geometry.cout)
    return cast(Int8, np.ascontiguousarray(blocks.transpose(1, 0, 2, 3)).reshape(-1, geometry.cout))


def _golden_mid(geometry: Geometry, inputs: Mapping[str, Array]) -> Int8:
    image = layout.nc1hwc0_to_nhwc(cast(Int8, inputs["x"]), geometry.height, geometry.width)
    filter1 = cast(Int8, inputs["filter1"])
    sums = convolve(image, geometry.height, geometry.width, filter1, geometry.conv1)
    return _requantised(sums, inputs, "1")


def _expected_y(
    geometry: Geometry, canvas: Canvas, mid: Int8, inputs: Mapping[str, Array]
) -> tuple[Int8, Indices]:
    """The golden of y on flat output rows, and which of them are pixels.

    Pixels come from the golden's convolution. Garbage rows come from the shifted rows of the canvas; the
    verifier compares them too.
    """
    filter2 = cast(Int8, inputs["filter2"])
    y = convolve(mid, geometry.mid_height, geometry.mid_width, filter2, geometry.conv2)
    garbage = np.setdiff1d(np.arange(canvas.out_rows), canvas.kept)
    placed = _on_canvas(canvas, mid)
    windows = np.concatenate(
        [placed[cut.plane * canvas.plane_rows + cut.shift + garbage] for cut in canvas.cuts], axis=1
    )
    sums = np.empty((canvas.out_rows, geometry.cout), np.int32)
    sums[canvas.kept] = y
    # Doubles hold every sum of a conv pair exactly (the geometry keeps them below 2**31).
    sums[garbage] = windows.astype(np.float64) @ _shifted_filter(geometry, inputs).astype(np.float64)
    return _requantised(sums, inputs, "2"), canvas.kept


def _requantised(sums: Int32, inputs: Mapping[str, Array], conv: str) -> Int8:
    bias = cast("npt.NDArray[np.int32]", inputs[f"bias{conv}"])
    table = cast(vreq8.Table, inputs[f"scale{conv}"])
    return cast(Int8, vreq8.requantise(sums + bias, table, "vreq8"))


def _keep(geometry: Geometry, tilings: Mapping[str, Tiling]) -> Path:
    path = plan_path(geometry)
    write_plan(path, tilings)
    return path


TENSOR_LEVEL = TensorLevel(
    "kernels.tensor.programs",
    {
        "fused": TensorProgram(_fused, ("windows",)),
        "pass1": TensorProgram(_pass1, ("mid",)),
        "pass2": TensorProgram(_pass2, ("mid", "windows")),
    },
    tiling_for,
    Tiling,
    TilingSearch(tiling_by_rule, numbers, may_fit, _keep),
)
"""The pair at tensor level. `windows` are conv2's: they hold each mid pixel once for each kernel position."""
