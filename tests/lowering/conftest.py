"""What the tests of the lowering share: programs of the pair, tiled for a2a3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import emulator.language
from emulator.program import Program
from emulator.soc import SOCS, Soc
from golden.geometry import MC62, Conv, Geometry
from kernels.choice import RESIDENT, STREAMED, WHOLE_BLOCKS, Streams
from kernels.plan import Plan, tile_bands
from kernels.tiles import FREE, Written
from pipeline.ground.memory import limits_of
from workloads.conv_pair import WORKLOAD

SMALL = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
"""`pair-24x16` of the shipped matrix."""

RAGGED = Geometry(9, 7, 32, 64, 64, Conv(3, 1, 1), Conv(3, 1, 1))
"""Bands of 5 and 4 rows, whose maps and tiles are no whole fractals."""


TILES = {
    "small": (Written(16, 64), Written(16, 32)),
    "mc62": (Written(112, 64), Written(112, 32)),
    "resident": (Written(64, 32), Written(48, 32)),
}
"""ACC tiles of conv1 and conv2, of which a program has several, whatever the planner prefers."""


def ragged_plan(filters: str) -> Plan:
    """`RAGGED` with filters in L1 throughout (`resident`), streamed by `blocks`, or by `slices` of K too.

    With `planes`, conv1 computes mid one C1 plane at a time.
    """
    limits = limits_of("a2a3")
    room, streams = {
        "resident": (limits.l1, RESIDENT),
        "blocks": (30_000, WHOLE_BLOCKS),
        "slices": (20_000, STREAMED),
        "planes": (14_000, Streams(True, mid=True)),
    }[filters]
    plan = tile_bands(RAGGED, replace(limits, l1=room), 5, streams, TILES.get(filters, (FREE, FREE)))
    assert (plan.conv2.slices > 1) == (filters in ("slices", "planes"))
    return plan


@pytest.fixture(scope="session")
def soc() -> Soc:
    return SOCS["a2a3"]


@pytest.fixture(scope="session")
def program_of() -> Callable[..., Program]:
    """`program_of(name, geometry="small", band_rows=None)`: a program of the pair.

    Geometries are `small`, `mc62`, and those of `ragged_plan`.
    """

    def program_of(name: str, geometry: str = "small", band_rows: int | None = None) -> Program:
        shape, limits = {"small": SMALL, "mc62": MC62}.get(geometry), limits_of("a2a3")
        if shape is None:
            plan = ragged_plan(geometry)
        else:
            rows = band_rows or {"small": 12, "mc62": 18}[geometry]
            plan = tile_bands(shape, limits, rows, written=TILES[geometry])
        program: Program = WORKLOAD.program(name).build(emulator.language, plan)
        return program

    return program_of
