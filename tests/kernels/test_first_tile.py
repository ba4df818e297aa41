from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.engine import Report
from emulator.memory import MemoryMap
from emulator.soc import Space
from golden.geometry import MC62, Conv, Geometry
from kernels.plan import Limits, Plan
from kernels.planner import make_plan
from workloads.conv_pair import WORKLOAD
from workloads.tiling import CONTRACT

Compiled = Callable[[str, Plan], Report]
GEOMETRIES = [MC62, Geometry(24, 16, 96, 64, 32, Conv(3, 1, 1), Conv(3, 2, 1))]


def l1(memory: MemoryMap) -> dict[str, tuple[int, int]]:
    """Address and size of L1's tiles by name."""
    return {
        tile.name: (tile.address, tile.type.size) for tile in memory.residents if tile.type.space is Space.Mat
    }


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_fused_allocation_is_that_of_the_fused_kernel(
    geometry: Geometry, limits: Limits, compiled: Compiled
) -> None:
    plan = make_plan(geometry, limits)
    variant = l1(compiled("first-tile-fused-alloc", plan).memory["first_tile"])
    fused = l1(compiled("fused", plan).memory["fused"])
    assert set(fused) == {"f1", "f2", "b1", "s1", "b2", "s2", "feature_map", "mid"}
    assert variant == fused


@pytest.mark.parametrize("name", ["first-tile-load", "first-tile-packed", "first-tile-fused-alloc"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_only_the_first_tile_is_written(
    geometry: Geometry, name: str, limits: Limits, compiled: Compiled
) -> None:
    plan = make_plan(geometry, limits)
    counts = compiled(name, plan).counts
    assert counts.written == {"tile": plan.conv1.positions * geometry.cmid}


def test_the_variants_differ_in_how_the_feature_map_comes_in(limits: Limits, compiled: Compiled) -> None:
    plan = WORKLOAD.plan(MC62, limits, CONTRACT)
    load, packed, alloc = (
        compiled(f"first-tile-{name}", plan).counts for name in ("load", "packed", "fused-alloc")
    )
    band = 41 * 112 * 64
    assert (load.read["x"], packed.read["x_band"], alloc.read["x"]) == (band, band, band)
    assert load.operations["load"] == 3 + 2  # filter, bias, scale; a plain load a plane
    assert packed.operations["load"] == 3 + 1
    assert alloc.operations["tile.gather_row"] == 2


def test_any_number_of_planes_is_taken(limits: Limits, compiled: Compiled) -> None:
    """More planes than the plain loads keep as tiles are gathered into one map."""
    plan = make_plan(Geometry(16, 16, 160, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)), limits)
    for name in ("load", "packed", "fused-alloc"):
        assert compiled(f"first-tile-{name}", plan).counts.written == {"tile": plan.conv1.positions * 32}
