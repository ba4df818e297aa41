from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from emulator.engine import compile_program
from emulator.program import Program
from emulator.soc import SOCS
from golden.geometry import MC62, Conv, Geometry
from kernels.choice import RESIDENT, STREAMED
from kernels.plan import Limits, Plan, PlanError
from kernels.planner import make_plan, tile_bands
from kernels.tiles import Written
from kernels.windows import Window
from pipeline.ground import memory
from workloads.conv_pair import WORKLOAD
from workloads.tiling import CONTRACT

Build = Callable[[str, Plan], Program]


def test_mc62_is_tiled_as_the_specification_says(limits: Limits) -> None:
    plan = WORKLOAD.plan(MC62, limits, CONTRACT)
    assert plan == tile_bands(MC62, limits, 18, RESIDENT, (Written(112, 64), Written(112, 32)))
    assert plan.band_rows == 18
    assert [(band.row, band.rows) for band in plan.bands] == [(row, 18) for row in range(0, 144, 18)]
    assert {band.mid.rows for band in plan.bands} == {20}
    assert {band.x.rows for band in plan.bands} == {41}
    assert (plan.conv1.rows, plan.conv1.positions) == (plan.conv2.rows, plan.conv2.positions) == (2, 112)
    assert (plan.conv1.step, plan.conv1.steps) == (64, 9)
    assert (plan.conv2.step, plan.conv2.steps) == (32, 18)
    assert [x.rows for _, _, x in plan.pass1] == [37] * 8


def test_the_bands_of_mc62_have_the_padding_of_their_place(limits: Limits) -> None:
    first, *interior, last = WORKLOAD.plan(MC62, limits, CONTRACT).bands
    assert first.mid == Window(0, 20, (1, 0, 1, 1), 0)
    assert {band.mid.padding for band in interior} == {(0, 0, 1, 1)}
    assert {band.mid.skip for band in interior} == {0}
    assert last.mid == Window(124, 20, (0, 1, 1, 1), 1)  # shifted up: it starts one output row in
    assert last.mid.skip * MC62.out_width == 56
    assert first.x.padding == (1, 0, 1, 1)
    assert {band.x.padding for band in (*interior, last)} == {(0, 0, 1, 1)}


GEOMETRY = Geometry(24, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))


@pytest.mark.parametrize("band_rows", [4, 7, 8, 10, 24])
def test_bands_cut_the_image_once(limits: Limits, band_rows: int) -> None:
    plan = tile_bands(GEOMETRY, limits, band_rows)
    rows = [row for band in plan.bands for row in range(band.row, band.row + band.rows)]
    assert rows == list(range(24))
    mid = [row for first, count, _ in plan.pass1 for row in range(first, first + count)]
    assert mid == list(range(24))
    assert {band.rows for band in plan.bands[:-1]} <= {band_rows}


def test_one_band_holds_the_whole_image_with_both_paddings(limits: Limits) -> None:
    (band,) = make_plan(GEOMETRY, limits).bands
    assert band.mid == Window(0, 24, (1, 1, 1, 1), 0)
    assert band.x == Window(0, 24, (1, 1, 1, 1), 0)


@pytest.mark.parametrize("soc", ["a2a3", "a5"])
def test_what_a_plan_says_of_its_work_is_what_the_emulator_counts(soc: str, build: Build) -> None:
    geometry = Geometry(17, 15, 64, 96, 64, Conv(3, 1, 1), Conv(3, 2, 1))
    limits = memory.limits_of(soc)
    for streams, l1 in ((RESIDENT, limits.l1), (STREAMED, limits.l1), (STREAMED, 50_000)):
        plan = tile_bands(geometry, replace(limits, l1=l1), 3, streams)
        assert (plan.conv1.slices > 1) == (l1 == 50_000)
        counts = compile_program(build("fused", plan), SOCS[soc]).counts
        moved, work = counts.moved, plan.work
        assert (work.matmuls, work.fractals) == (counts.matmuls, counts.fractals)
        assert work.gm_l1 == moved["GM", "L1"]
        assert (work.l1_l0a, work.l1_l0b) == (moved["L1", "L0A"], moved["L1", "L0B"])
        assert (work.l0c_l1, work.l0c_gm) == (moved["L0C", "L1"], moved["L0C", "GM"])
        assert work.l1_tables == moved["L1", "bias table"] + moved["L1", "fixpipe table"]
        passes = [compile_program(build(name, plan), SOCS[soc]).counts for name in ("pass1", "pass2")]
        loaded = sum(each.moved["GM", "L1"] for each in passes)
        assert plan.two_pass_work.gm_l1 == loaded
        assert plan.two_pass_work.fractals == sum(each.fractals for each in passes)
        assert plan.two_pass_work.matmuls == sum(each.matmuls for each in passes)


def test_cycles_are_the_estimate_of_the_emulator(limits: Limits, build: Build) -> None:
    plan = WORKLOAD.plan(MC62, memory.limits_of("a2a3"), CONTRACT)
    found = compile_program(build("fused", plan), SOCS["a2a3"]).estimate
    assert found is not None
    units = plan.work.units(memory.limits_of("a2a3").rates)
    assert units == pytest.approx(found.units)
    assert (
        plan == WORKLOAD.plan(MC62, limits, CONTRACT) == WORKLOAD.plan(MC62, memory.limits_of("a5"), CONTRACT)
    )


def test_rows_that_are_no_whole_fractals_have_zeros_under_them(limits: Limits) -> None:
    """7 columns: 16 rows are whole fractals."""
    (band,) = make_plan(Geometry(7, 7, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)), limits).bands
    assert band.mid == Window(0, 7, (1, 1, 1, 1), 0, spare=9)
    assert band.x == Window(0, 7, (1, 1, 1, 1), 0, spare=9)


MEMORIES = [
    # x and mid rows, two filters, bias and scale rows
    ("l1", (6 + 4) * 16 * 32 + 2 * 288 * 32 + 12 * 64, "L1"),
    ("l0a", 16 * 32, "L0A"),
    ("l0b", 32 * 32, "L0B"),
    ("l0c", 4 * 16 * 32, "L0C"),
    ("bias", 4 * 32, "the bias table"),
    ("fixpipe", 8 * 32, "the fixpipe table"),
]


@pytest.mark.parametrize(("memory", "needed", "shown"), MEMORIES, ids=[memory for memory, *_ in MEMORIES])
def test_a_memory_that_is_too_small_by_a_byte(limits: Limits, memory: str, needed: int, shown: str) -> None:
    assert tile_bands(GEOMETRY, replace(limits, **{memory: needed}), 2).band_rows == 2
    with pytest.raises(PlanError) as caught:
        tile_bands(GEOMETRY, replace(limits, **{memory: needed - 1}), 2)
    start = f"bands of 2 rows need {needed} B of {shown}, which has {needed - 1}: 1 too many: "
    assert str(caught.value).startswith(start)


def test_pass1_may_need_more_of_l1_than_the_fused_kernel(limits: Limits) -> None:
    """With stride 2 and a kernel of 1 in conv2, pass1's bands are higher than the fused kernel's."""
    geometry = Geometry(64, 64, 128, 32, 32, Conv(3, 2, 1), Conv(1, 2, 0))
    fits = 5 * 64 * 128 + (1152 + 12) * 32
    assert tile_bands(geometry, replace(limits, l1=fits), 1).pass1[1][2].rows == 5
    with pytest.raises(PlanError, match=f"need {fits} B of L1 in pass1, which has {fits - 1}: 1 too many"):
        tile_bands(geometry, replace(limits, l1=fits - 1), 1)
