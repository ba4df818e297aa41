"""Every program of every shipped workload: its `main` takes what the declaration and the specs say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import emulator.language
from emulator.engine import run_program
from emulator.program import Program
from emulator.soc import SOCS
from golden.specs import Role
from kernels.plan import Limits
from workloads.base import Workload
from workloads.registry import SHIPPED, workload_named

Case = tuple[str, str, Any, Mapping[str, int]]
WORKLOADS = {name: workload_named(name) for name in SHIPPED}


def program_of(workload: Workload, name: str, plan: Any) -> Program:
    program: Program = workload.program(name).build(emulator.language, plan)
    return program


def test_a_programs_main_takes_what_its_declaration_says(program_case: Case, limits: Limits) -> None:
    name, program_name, geometry, options = program_case
    workload = WORKLOADS[name]
    plan, entry = workload.plan(geometry, limits, options), workload.program(program_name)
    params = program_of(workload, program_name, plan).main.params
    assert [param.name for param in params] == [*entry.inputs, entry.output]
    assert [param.name for param in params if param.type.out] == [entry.output]
    shape, dtype = workload.output_of(program_name, geometry, plan)
    assert (params[-1].type.shape, params[-1].type.dtype.value) == (shape, dtype.name)
    specs = {spec.name: (spec.shape, spec.dtype.name) for spec in workload.definition.specs(geometry)}
    for param in params[:-1]:
        assert param.name in specs or param.name in entry.host
        if param.name not in entry.host:
            assert (param.type.shape, param.type.dtype.value) == specs[param.name]
    spec = workload.spec(entry.tensor, geometry)
    assert spec.role is Role.OUTPUT
    assert shape == spec.shape or entry.shape is not None


@pytest.mark.usefixtures("torch_installed")
def test_a_program_gives_the_golden_of_what_the_host_hands_it(program_case: Case, limits: Limits) -> None:
    """Inputs in the order of `main`, those of the host among them; a first tile is the first rows."""
    name, program_name, geometry, options = program_case
    workload = WORKLOADS[name]
    definition, entry = workload.definition, workload.program(program_name)
    plan, tensors = workload.plan(geometry, limits, options), definition.make("full-range", geometry)
    arrays: dict[str, Any] = {
        **tensors.arrays("vreq8"),
        **definition.compute(geometry, tensors, "vreq8"),
    }
    arrays |= {made: make(geometry, plan, arrays) for made, make in entry.host.items()}
    shape, dtype = workload.output_of(program_name, geometry, plan)
    output = np.full(shape, 85, dtype)
    given = {input_name: arrays[input_name] for input_name in entry.inputs}
    run_program(program_of(workload, program_name, plan), SOCS["a2a3"], {**given, entry.output: output})
    np.testing.assert_array_equal(output, arrays[entry.tensor][: len(output)])


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS.keys())
def test_the_example_is_small_and_every_program_is_read_for_it(workload: Workload, limits: Limits) -> None:
    assert isinstance(workload.example, workload.definition.geometry)
    assert workload.example.macs < 10_000_000
    plan = workload.plan(workload.example, limits, {})
    for program in workload.programs:
        assert program_of(workload, program.name, plan).main.params


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS.keys())
def test_every_program_is_in_a_kernel(workload: Workload) -> None:
    ran = {program for kernel in workload.kernel_names for program in workload.programs_of(kernel)}
    assert ran == {program.name for program in workload.programs}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS.keys())
def test_a_frame_covers_the_whole_output(workload: Workload, limits: Limits) -> None:
    """With a plan and without: whole rows of the image, and bands of at least one of them."""
    geometry = workload.example
    for plan in (workload.plan(geometry, limits, {}), None):
        for spec in workload.definition.specs(geometry):
            if spec.role is Role.OUTPUT:
                frame = workload.frame(spec.name, geometry, plan)
                rows, rest = divmod(spec.shape[0], frame.columns)
                assert rest == 0
                assert 1 <= frame.band_rows <= rows
                if plan is None:
                    assert frame.band_rows == rows, "no bands are known"


@pytest.mark.parametrize("name", ["conv-pair", "conv"])
def test_the_rows_of_a_band_may_be_set(name: str, limits: Limits) -> None:
    workload = WORKLOADS[name]
    assert "band_rows" in workload.plan_options
    for rows in (2, 4):
        plan = workload.plan(workload.example, limits, {"band_rows": rows})
        assert plan.band_rows == rows
        assert {band.rows for band in plan.bands} == {rows}
        assert workload.frame("y", workload.example, plan).band_rows == rows


@pytest.mark.parametrize("name", ["conv-pair", "conv"])
def test_the_windows_of_bands_can_be_moved(name: str, limits: Limits) -> None:
    """By what the fault model says: each list of windows with the rows of x, every other number as it was."""
    workload = WORKLOADS[name]
    assert workload.faults is not None
    plan = workload.plan(workload.example, limits, {"band_rows": 4})
    heights, lists = [], []

    def reversed_windows(windows: Any, height: int) -> Any:
        heights.append(height)
        lists.append(list(windows))
        return list(windows)[::-1]

    moved = workload.faults.moved(plan, reversed_windows)
    assert set(heights) == {workload.example.height}
    x = [band.x for band in plan.bands]
    assert lists[0] == x
    assert len(set(x)) > 2, "reversed they are others"
    assert [band.x for band in moved.bands] == x[::-1]
    if name == "conv-pair":
        pass1 = [window for _, _, window in plan.pass1]
        assert lists[1] == pass1
        assert [window for _, _, window in moved.pass1] == pass1[::-1]
        assert [entry[:2] for entry in moved.pass1] == [entry[:2] for entry in plan.pass1]
    assert workload.faults.moved(moved, reversed_windows) == plan


def test_a_product_has_no_fault_model_and_no_forms() -> None:
    gemm = WORKLOADS["gemm"]
    assert gemm.faults is None
    assert all(program.form is None for program in gemm.programs)
    assert gemm.plan_options == {}
