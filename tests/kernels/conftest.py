"""What the tests of all kernels share: limits of a soc, and a program run on the emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import emulator.language
from emulator.engine import Report, compile_program, run_program
from emulator.program import Program
from emulator.soc import SOCS, Space
from kernels.plan import Limits, Plan
from workloads.conv_pair import WORKLOAD

Arrays = Mapping[str, npt.NDArray[Any]]


@pytest.fixture(scope="session")
def limits_of() -> Callable[[str], Limits]:
    """`limits_of(soc)`: the capacities of a soc."""

    def limits_of(soc: str) -> Limits:
        capacity = SOCS[soc].capacity
        return Limits(
            l1=capacity[Space.Mat],
            l0a=capacity[Space.Left],
            l0b=capacity[Space.Right],
            l0c=capacity[Space.Acc],
            bias=capacity[Space.Bias],
            fixpipe=capacity[Space.LeftScale],
        )

    return limits_of


@pytest.fixture(scope="session")
def limits(limits_of: Callable[[str], Limits]) -> Limits:
    """The capacities of a2a3, the smaller soc."""
    return limits_of("a2a3")


@pytest.fixture(scope="session")
def build() -> Callable[[str, Plan], Program]:
    """`build(name, plan)`: a program of the pair, read by the emulator."""

    def build(name: str, plan: Plan) -> Program:
        program: Program = WORKLOAD.program(name).build(emulator.language, plan)
        return program

    return build


@pytest.fixture(scope="session")
def compiled(build: Callable[[str, Plan], Program]) -> Callable[[str, Plan], Report]:
    """`compiled(name, plan)`: the report of a program on a2a3."""
    return lambda name, plan: compile_program(build(name, plan), SOCS["a2a3"])


@pytest.fixture(scope="session")
def computed(build: Callable[[str, Plan], Program]) -> Callable[..., npt.NDArray[np.int8]]:
    """`computed(name, plan, arrays)`: the output of a program; `x_band` is packed as the host would."""

    def computed(name: str, plan: Plan, arrays: Arrays) -> npt.NDArray[np.int8]:
        entry = WORKLOAD.program(name)
        inputs = {"x_band": packed(plan, arrays["x"]), **arrays} if "x" in arrays else arrays
        output = np.full(WORKLOAD.output_of(name, plan.geometry, plan)[0], -86, np.int8)
        given = {key: inputs[key] for key in entry.inputs}
        run_program(build(name, plan), SOCS["a2a3"], {**given, entry.output: output})
        return output

    return computed


def packed(plan: Plan, x: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """The x rows of the first band, and the zeros under them, as one matrix [rows * width, C]."""
    geometry, window = plan.geometry, plan.bands[0].x
    planes = x.reshape(plan.planes, geometry.height, geometry.width, -1)[:, window.row :][:, : window.rows]
    rows = np.ascontiguousarray(planes.transpose(1, 2, 0, 3)).reshape(window.rows * geometry.width, -1)
    return np.concatenate([rows, np.zeros((window.spare * geometry.width, rows.shape[1]), np.int8)])
