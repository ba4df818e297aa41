"""What the workloads' tests share: a small workload of sums, geometries of the shipped ones, their plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from emulator.soc import SOCS, Space
from golden import gemm
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from kernels.plan import Limits
from workloads.base import Frame, Kernel, TileProgram, Workload
from workloads.registry import workload_named

CASES: Mapping[str, tuple[str, Any, Mapping[str, int]]] = {
    "pair, one band": ("conv-pair", Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)), {}),
    "pair, two bands": (
        "conv-pair",
        Geometry(12, 16, 32, 32, 96, Conv(3, 1, 1), Conv(3, 1, 1)),
        {"band_rows": 6},
    ),
    "pair, ragged": (
        "conv-pair",
        Geometry(45, 32, 64, 96, 64, Conv(3, 2, 1), Conv(3, 1, 1)),
        {"band_rows": 5},
    ),
    "pair, strided": (
        "conv-pair",
        Geometry(35, 32, 128, 64, 32, Conv(3, 1, 1), Conv(3, 2, 1)),
        {"band_rows": 7},
    ),
    "pair, kernels 1 and 5": (
        "conv-pair",
        Geometry(40, 16, 96, 32, 64, Conv(1, 1, 0), Conv(5, 1, 2)),
        {"band_rows": 8},
    ),
    "pair, widths of no fractal": (
        "conv-pair",
        Geometry(17, 15, 64, 64, 32, Conv(3, 1, 1), Conv(3, 2, 1)),
        {"band_rows": 3},
    ),
    "pair, rectangles": (
        "conv-pair",
        Geometry(40, 26, 64, 32, 64, Conv((5, 3), (2, 1), (1, 2, 2, 0)), Conv((3, 2), (1, 2), (2, 1, 0, 1))),
        {"band_rows": 6},
    ),
    "pair, streamed": (
        "conv-pair",
        Geometry(7, 7, 64, 288, 64, Conv(3, 1, 1), Conv(3, 1, 1)),
        {"band_rows": 3},
    ),
    "pair, five planes": ("conv-pair", Geometry(5, 7, 160, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)), {}),
    "conv, narrow": ("conv", ConvGeometry(9, 3, 32, 32, Conv(3, 1, 1)), {}),
    "conv, streamed": ("conv", ConvGeometry(7, 7, 32, 288, Conv(3, 1, 1)), {"band_rows": 3}),
    "conv, one band": ("conv", ConvGeometry(24, 16, 64, 32, Conv(3, 1, 1)), {}),
    "conv, two bands": ("conv", ConvGeometry(12, 16, 32, 64, Conv(3, 1, 1)), {"band_rows": 6}),
    "conv, ragged": ("conv", ConvGeometry(22, 16, 32, 96, Conv(3, 1, 1)), {"band_rows": 6}),
    "conv, a row": (
        "conv",
        ConvGeometry(9, 17, 32, 64, Conv((1, 7), (1, 2), (0, 0, 3, 2))),
        {"band_rows": 4},
    ),
    "conv, stride 3": ("conv", ConvGeometry(48, 48, 96, 32, Conv(5, 3, 2)), {"band_rows": 4}),
    "gemm": ("gemm", GemmGeometry(48, 64, 96), {}),
    "gemm, several bands and blocks": ("gemm", GemmGeometry(512, 4096, 256), {}),
}
"""For each case a shipped workload, a geometry of it and the options of its plan."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`program_case` is each of `CASES` with each program, `described_case` those whose form is described."""
    found = {
        f"{program.name}: {name}": (workload, program.name, geometry, options)
        for name, (workload, geometry, options) in CASES.items()
        for program in workload_named(workload).programs
        if "program_case" in metafunc.fixturenames or program.form is not None
    }
    for argument in {"program_case", "described_case"} & {*metafunc.fixturenames}:
        metafunc.parametrize(argument, found.values(), ids=found.keys())


@pytest.fixture(scope="session")
def limits() -> Limits:
    """The capacities of a2a3, the smaller soc."""
    capacity = SOCS["a2a3"].capacity
    return Limits(
        l1=capacity[Space.Mat],
        l0a=capacity[Space.Left],
        l0b=capacity[Space.Right],
        l0c=capacity[Space.Acc],
        bias=capacity[Space.Bias],
        fixpipe=capacity[Space.LeftScale],
    )


@pytest.fixture(scope="session")
def declared() -> Callable[..., Workload]:
    """`declared(programs=..., kernels=...)`: a declaration of a matrix product with these."""

    def declare(
        programs: Sequence[TileProgram] = (TileProgram("p", "no.module:build", ("a", "b"), "c", "c"),),
        kernels: Sequence[Kernel] = (Kernel("k", ("p",)),),
        **others: Any,
    ) -> Workload:
        return Workload(
            definition=others.pop("definition", gemm.DEFINITION),
            programs=tuple(programs),
            kernels=tuple(kernels),
            plan=lambda geometry, limits, options: None,
            frame=lambda tensor, geometry, plan: Frame(1, geometry.m),
            example=GemmGeometry(16, 32, 32),
            **others,
        )

    return declare
