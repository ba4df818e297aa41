from __future__ import annotations

from collections.abc import Callable

import pytest
from kernels.catalogue import KERNELS, PROGRAMS, TileProgram, import_kernels

from emulator.program import Program
from golden.geometry import Conv, Geometry
from golden.specs import pair_specs
from kernels.plan import Limits, Plan, tile_bands

GEOMETRY = Geometry(24, 16, 64, 32, 96, Conv(3, 2, 1), Conv(3, 1, 1))


def test_every_kernel_is_made_of_programs_of_the_catalogue() -> None:
    assert sorted(program for programs in KERNELS.values() for program in programs) == sorted(PROGRAMS)
    assert KERNELS["two-pass"] == ("pass1", "pass2")
    assert all(name == program.name for name, program in PROGRAMS.items())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_programs_main_takes_what_the_catalogue_says(
    name: str, limits: Limits, build: Callable[[str, Plan], Program]
) -> None:
    plan, entry = tile_bands(GEOMETRY, limits, 4), PROGRAMS[name]
    params = build(name, plan).main.params
    assert [param.name for param in params] == [*entry.inputs, entry.output]
    assert [param.name for param in params if param.type.out] == [entry.output]
    assert params[-1].type.shape == entry.output_shape(plan)
    specs = {spec.name: (spec.shape, spec.dtype.name) for spec in pair_specs(GEOMETRY)}
    for param in params:
        if param.name in specs:
            assert (param.type.shape, param.type.dtype.value) == specs[param.name]


def test_the_packed_band_is_a_matrix_of_all_channels(
    limits: Limits, build: Callable[[str, Plan], Program]
) -> None:
    plan = tile_bands(GEOMETRY, limits, 4)
    x_band = build("first-tile-packed", plan).main.params[0]
    assert (x_band.name, x_band.type.shape) == ("x_band", (plan.bands[0].x.rows * 16, 64))


def test_a_kernel_that_cannot_be_imported_is_left_to_its_own_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"broken": TileProgram("broken", "kernels.no_such_module:build", ("x",), "y"), **PROGRAMS}
    monkeypatch.setattr("kernels.catalogue.PROGRAMS", broken)
    names = [module.__name__ for module in import_kernels()]
    assert names == ["kernels.blocks", "kernels.fused_conv2d", "kernels.unfused_conv2d", "kernels.first_tile"]
