"""What the tests of the lowering share: programs of the pair, tiled for a2a3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import emulator.language
from emulator.program import Program
from emulator.soc import SOCS, Soc
from golden.geometry import MC62, Conv, Geometry
from kernels.choice import RESIDENT, STREAMED, Streams
from kernels.plan import Plan
from kernels.planner import tile_bands
from kernels.tiles import FREE, Written
from pipeline.ground.memory import limits_of
from workloads.conv_pair import WORKLOAD
from workloads.tiling import CONTRACT

SMALL = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
"""`pair-24x16` of the shipped matrix."""

SMALL_TILES = Written(16, 64), Written(16, 32)
"""Its ACC tiles there: several tiles and K steps."""

RAGGED = Geometry(9, 7, 32, 64, 64, Conv(3, 1, 1), Conv(3, 1, 1))
"""Bands of 5 and 4 rows, whose maps and tiles are no whole fractals."""


def ragged_plan(filters: str) -> Plan:
    """`RAGGED` with filters in L1 throughout (`resident`), streamed by `blocks`, or by `slices` of K too.

    With `planes`, conv1 computes mid one C1 plane at a time.
    """
    limits = limits_of("a2a3")
    room, streams, written = {
        "resident": (limits.l1, RESIDENT, (Written(64, 32), Written(48, 32))),
        "blocks": (30_000, STREAMED, (Written(64, 32, 64), Written(48, 32, 32))),
        "slices": (20_000, STREAMED, (FREE, FREE)),
        "planes": (14_000, Streams(True, mid=True), (FREE, FREE)),
    }[filters]
    plan = tile_bands(RAGGED, replace(limits, l1=room), 5, streams, written)
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
        limits = limits_of("a2a3")
        if geometry == "small":
            plan = tile_bands(SMALL, limits, band_rows or SMALL.out_height, RESIDENT, SMALL_TILES)
        elif geometry == "mc62":
            plan = WORKLOAD.plan(MC62, limits, CONTRACT)
        else:
            plan = ragged_plan(geometry)
        program: Program = WORKLOAD.program(name).build(emulator.language, plan)
        return program

    return program_of
