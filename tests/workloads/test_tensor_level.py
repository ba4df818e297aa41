"""Launches for CANN's compiler: operands as each kernel takes them, and the golden that is expected of it.

The arithmetic of a kernel is done here in NumPy from the operands alone, so that what the host makes of the
tensors (img2col, canvas, filter order, table fields) must be right for the expected output to come out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from golden import vreq8
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from kernels.tensor.plan import Capacities
from kernels.tensor.programs import BUILD
from workloads.registry import SHIPPED, workload_named
from workloads.tensor_level import Launch, TensorLevel, constants

Array = npt.NDArray[Any]

KIB = 1024
A2A3 = Capacities(l1=512 * KIB, l0a=64 * KIB, l0b=64 * KIB, l0c=128 * KIB, ub=192 * KIB)

GEOMETRIES: Mapping[str, Mapping[str, Any]] = {
    "conv-pair": {
        "24x16": Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)),
        "stride 2 in conv2": Geometry(22, 18, 32, 64, 32, Conv(3, 1, 1), Conv(3, 2, 1)),
        "stride 3, kernel 2": Geometry(17, 13, 64, 96, 32, Conv(1, 1, 0), Conv(2, 3, 1)),
        "kernel 1": Geometry(9, 7, 32, 32, 96, Conv(3, 1, 0), Conv(1, 1, 0)),
    },
    "conv": {
        "24x16": ConvGeometry(24, 16, 64, 96, Conv(3, 2, 1)),
        "kernel 5": ConvGeometry(11, 9, 32, 32, Conv(5, 1, 4)),
    },
    "gemm": {"48x64x96": GemmGeometry(48, 64, 96), "16x32x32": GemmGeometry(16, 32, 32)},
}
LEVELS = {name: level for name in SHIPPED if (level := workload_named(name).level) is not None}
CASES = {
    f"{name}, {program}: {where}": (name, program, geometry)
    for name, level in LEVELS.items()
    for program in level.programs
    for where, geometry in GEOMETRIES.get(name, {"its example": workload_named(name).example}).items()
}

pytestmark = pytest.mark.usefixtures("torch_installed")


def level_of(name: str) -> TensorLevel:
    level = workload_named(name).level
    assert level is not None
    return level


def launched(name: str, program: str, geometry: Any) -> tuple[Launch, Any, dict[str, Array]]:
    """The launch of a program on the full range, its tiling, and the golden."""
    level, definition = level_of(name), workload_named(name).definition
    tensors = definition.make("full-range", geometry)
    golden: dict[str, Any] = dict(definition.compute(geometry, tensors, "vreq8"))
    arrays = {**tensors.arrays("vreq8"), **golden}
    given = {tensor: arrays[tensor] for tensor in workload_named(name).program(program).inputs}
    tiling = level.tiling(program, geometry, A2A3)
    return level.programs[program].launch(geometry, tiling, given), tiling, golden


def kernel(program: str, geometry: Any, tiling: Any) -> Callable[..., Any]:
    """A kernel, of which only the annotations are read."""
    pypto = SimpleNamespace(
        DT_INT8="int8",
        DT_INT32="int32",
        DT_FP32="float32",
        Tensor=lambda shape, dtype: (shape, dtype),
        frontend=SimpleNamespace(jit=lambda **_: lambda kernel: kernel),
    )
    built: Callable[..., Any] = BUILD[program](pypto, geometry, tiling, {})
    return built


def requantised(sums: Array, operands: Mapping[str, Array], number: str) -> Array:
    """What the vector unit makes of sums, in fp32, from the rows of scales and offsets."""
    exact = (sums + operands[f"bias{number}"]).astype(np.int32).astype(np.float32)
    value = exact * operands[f"scale{number}"] + operands[f"offset{number}"]
    return np.clip(np.rint(value), -128, 127).astype(np.int8)


def product(left: Array, right: Array) -> Array:
    return left.astype(np.int64) @ right.astype(np.int64)


def shifted(rows: Array, geometry: Geometry, tiling: Any) -> Array:
    """Windows of conv2, cut from the flat rows of the canvas by shifting."""
    canvas = tiling.canvas(geometry)
    starts = [cut.plane * canvas.plane_rows + cut.shift for cut in canvas.cuts]
    return np.concatenate([rows[start : start + canvas.out_rows] for start in starts], axis=1)


def fused(operands: Mapping[str, Array], geometry: Geometry, tiling: Any) -> Array:
    mid = requantised(product(operands["columns"], operands["filter1"]), operands, "1")
    # Rows of the canvas that are no pixels requantise to the bias: the mask makes zero padding of them.
    rows = (mid * operands["mask"]).astype(np.int8)
    return requantised(product(shifted(rows, geometry, tiling), operands["filter2"]), operands, "2")


def pass1(operands: Mapping[str, Array], geometry: Geometry, tiling: Any) -> Array:
    return requantised(product(operands["columns"], operands["filter1"]), operands, "1")


def pass2(operands: Mapping[str, Array], geometry: Geometry, tiling: Any) -> Array:
    windows = shifted(operands["mid"], geometry, tiling)
    return requantised(product(windows, operands["filter2"]), operands, "2")


def conv(operands: Mapping[str, Array], geometry: ConvGeometry, tiling: Any) -> Array:
    return requantised(product(operands["columns"], operands["filter"]), operands, "")


def gemm(operands: Mapping[str, Array], geometry: GemmGeometry, tiling: Any) -> Array:
    return product(operands["a"], operands["b"]).astype(np.int32)


ARITHMETIC: Mapping[str, Callable[[Mapping[str, Array], Any, Any], Array]] = {
    "fused": fused,
    "pass1": pass1,
    "pass2": pass2,
    "conv": conv,
    "gemm": gemm,
}


@pytest.mark.parametrize(("name", "program", "geometry"), CASES.values(), ids=CASES.keys())
def test_the_operands_are_those_that_the_kernel_takes(name: str, program: str, geometry: Any) -> None:
    launch, tiling, _ = launched(name, program, geometry)
    takes = kernel(program, geometry, tiling).__annotations__
    given = {**launch.operands, launch.output: launch.expected}
    assert {key: (array.shape, array.dtype.name) for key, array in given.items()} == takes
    assert list(given) == list(takes), "they are passed by position"


@pytest.mark.parametrize(("name", "program", "geometry"), CASES.values(), ids=CASES.keys())
def test_the_rows_that_are_kept_are_the_golden(name: str, program: str, geometry: Any) -> None:
    launch, _, golden = launched(name, program, geometry)
    np.testing.assert_array_equal(
        launch.expected[launch.kept], golden[workload_named(name).program(program).tensor]
    )
    assert launch.expected.dtype == golden[launch.output].dtype


@pytest.mark.parametrize(("name", "program", "geometry"), CASES.values(), ids=CASES.keys())
def test_the_operands_give_what_is_expected_garbage_rows_included(
    name: str, program: str, geometry: Any
) -> None:
    launch, tiling, _ = launched(name, program, geometry)
    np.testing.assert_array_equal(ARITHMETIC[program](launch.operands, geometry, tiling), launch.expected)


@pytest.mark.parametrize("name", SHIPPED)
def test_tensor_level_programs_stand_for_tile_programs_and_are_built_by_their_module(name: str) -> None:
    level, workload = level_of(name), workload_named(name)
    assert {*level.programs} <= {program.name for program in workload.programs} & {*BUILD}
    assert level.source.read_text().count("BUILD: Mapping") == 1
    for program, entry in level.programs.items():
        assert workload.program(program).shape is None, "a launch gives the whole tensor"
        tiling = level.tiling(program, workload.example, A2A3)
        assert isinstance(tiling, level.tiling_type)
        assert "\n" not in tiling.describe()
        assert bool(entry.handed_over) == (name == "conv-pair")


def test_a_table_becomes_rows_of_fp32() -> None:
    table = vreq8.pack([0.1, -2.0], [-256, 255])
    bias = np.array([[3, -4]], np.int32)
    rows = constants({"bias7": bias, "scale7": table, "x": bias}, "7")
    assert list(rows) == ["bias7", "scale7", "offset7"]
    assert rows["bias7"] is bias
    assert rows["scale7"].tolist() == [[0.0999755859375, -2.0]]
    assert rows["offset7"].tolist() == [[-256.0, 255.0]]
    assert {rows[name].dtype.name for name in ("scale7", "offset7")} == {"float32"}
