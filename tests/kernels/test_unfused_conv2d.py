from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.engine import Report
from emulator.program import Program
from emulator.soc import Space
from golden.geometry import MC62, Conv, Geometry
from kernels.plan import Limits, Plan, PlanError, make_plan

Compiled = Callable[[str, Plan], Report]


def test_gm_bytes_of_mc62(limits: Limits, compiled: Compiled) -> None:
    plan = make_plan(MC62, limits)
    first, second = compiled("pass1", plan).counts, compiled("pass2", plan).counts
    assert first.read["x"] == 2_121_728
    assert first.written == {"mid": 516_096}
    assert second.read["mid"] == 573_440
    assert second.written == {"y": 516_096}
    assert first.macs + second.macs == 594_542_592


def test_pass1_loads_each_plane_of_a_band_as_one_rectangle(limits: Limits, compiled: Compiled) -> None:
    report = compiled("pass1", make_plan(MC62, limits))
    assert report.counts.operations["load"] == 3 + 8 * 2  # filter, bias, scale; bands of two planes
    maps = [tile for tile in report.memory["pass1"].residents if tile.type.size == 37 * 112 * 32]
    assert {tile.type.space for tile in maps} == {Space.Mat}
    steps = report.counts.moved[("L1", "L0A")] // (112 * 32)
    assert report.counts.operations["tile.img2col"] == steps == 72 * 18  # K step 32


def test_more_planes_than_pass1_keeps_are_refused(
    limits: Limits, build: Callable[[str, Plan], Program]
) -> None:
    wide = make_plan(Geometry(16, 16, 160, 32, 32, Conv(1, 1, 0), Conv(1, 1, 0)), limits)
    with pytest.raises(PlanError, match="pass1 holds at most 4 C1 planes: x has 5"):
        build("pass1", wide)
