from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.engine import compile_program
from emulator.program import Program
from emulator.soc import SOCS
from golden.geometry import MC62, Conv, Geometry
from kernels.choice import RESIDENT, STREAMED, cheapest
from kernels.cost import Rates, Work
from kernels.plan import Limits, Plan, PlanError, Tile, Window, make_plan, tile_bands, window
from kernels.tiles import FREE, Written
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


@st.composite
def asked(draw: st.DrawFn) -> tuple[Conv, int, int, int, int]:
    """A convolution, output rows of it, the image's rows and a buffer that can hold what they read."""
    kernel, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    sides = [draw(st.integers(0, of - 1)) for of in (kernel, kernel, columns, columns)]
    conv = Conv((kernel, columns), (draw(st.integers(1, 3)), 1), tuple(sides))
    size = draw(st.integers(max(1, kernel - sides[0] - sides[1]), 40))
    row = draw(st.integers(0, conv.out_height(size) - 1))
    rows = draw(st.integers(1, conv.out_height(size) - row))
    needed = min((rows - 1) * conv.stride_rows + kernel, size)
    return conv, row, rows, size, draw(st.integers(needed, size))


@given(asked())
def test_a_window_reads_the_rows_of_the_whole_image(case: tuple[Conv, int, int, int, int]) -> None:
    conv, row, rows, size, held = case
    found = window(conv, row, rows, size, held)
    top, bottom, left, right = found.padding
    assert found.rows == held
    assert 0 <= found.row <= size - held
    assert min(top, bottom) >= 0
    assert (left, right) == conv.sides[2:]
    assert (held + top + bottom - conv.kernel_rows) // conv.stride_rows + 1 >= found.skip + rows
    for number in range(rows):
        for tap in range(conv.kernel_rows):
            wanted = (row + number) * conv.stride_rows - conv.sides[0] + tap
            buffered = (found.skip + number) * conv.stride_rows - top + tap
            inside = 0 <= buffered < held
            assert inside == (0 <= wanted < size)
            if inside:
                assert found.row + buffered == wanted


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


def test_equal_bands_are_preferred_where_they_are_nearly_as_cheap(limits: Limits) -> None:
    """Of two plans that differ by less than 1 % the one with equal bands is taken, else the cheaper one."""

    @dataclass(frozen=True)
    class Some:
        band_rows: int
        bytes: int
        sliced: bool = False

        @property
        def work(self) -> Work:
            return Work(gm_l1=self.bytes)

    assert cheapest(24, [Some(20, 1000), Some(12, 1010), Some(8, 1011)], Rates()) == Some(12, 1010)
    assert cheapest(24, [Some(20, 1000), Some(12, 1011)], Rates()) == Some(20, 1000)
    assert cheapest(24, [Some(8, 1000), Some(12, 1000)], Rates()) == Some(12, 1000)


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


def test_filters_that_do_not_fit_l1_are_streamed_by_pieces(limits: Limits) -> None:
    same = Conv(3, 1, 1)
    plan = make_plan(Geometry(7, 7, 512, 512, 512, same, same), limits)
    assert plan.streamed
    # 7 of 16 rows hold pixels; the largest piece that fits beside x and mid.
    held, tile = 2 * 16 * 7 * 512, plan.conv1
    assert 4608 * 512 > limits.l1 - held >= (tile.slice + 12) * tile.columns
    assert not make_plan(Geometry(28, 28, 128, 128, 128, same, same), limits).streamed


def test_the_acc_tile_of_a_filter_in_l1_is_the_cheapest_that_fits() -> None:
    """No other tile or K step that fits takes fewer cycles, in whole bands and a lower last one."""
    limits = memory.limits_of("a2a3")
    geometry = Geometry(23, 14, 96, 64, 96, Conv(3, 1, 1), Conv(3, 1, 1))
    tight = replace(limits, l0c=24_000, l0a=20_000)
    plan = tile_bands(geometry, tight, 9)
    costs = {
        replace(plan, conv2=Tile(0, positions, step, 576 // step)).work.cycles(tight.rates)
        for step, positions in product(range(32, 577, 32), range(16, 129, 16))
        if 576 % step == 0
        and 4 * positions * 96 <= tight.l0c
        and positions * step <= tight.l0a
        and step * 96 <= tight.l0b
    }
    assert len(costs) > 10
    assert plan.work.cycles(tight.rates) == min(costs)


def test_the_acc_tile_of_a_streamed_filter_is_the_cheapest_that_fits() -> None:
    """No other tile, block, K step or cut of K that fits takes fewer cycles; each is tried here."""
    limits = memory.limits_of("a2a3")
    geometry, band_rows = Geometry(9, 14, 96, 64, 192, Conv(3, 1, 1), Conv(3, 1, 1)), 9
    tight = replace(limits, l1=90_000, l0c=24_000, l0a=20_000)
    plan = tile_bands(geometry, tight, band_rows, STREAMED)
    held = 16 * 14 * 64  # 9 rows of mid, and zeros up to whole fractals
    costs = []
    for columns, step, positions in product((32, 64, 96, 192), range(32, 577, 32), range(16, 129, 16)):
        for slices in range(1, 19):
            if 576 % step or (576 // step) % slices:
                continue
            tile = Tile(-(-positions // 14), positions, step, 576 // step, columns, slices)
            fits = 4 * positions * columns <= tight.l0c and positions * step <= tight.l0a
            if fits and step * columns <= tight.l0b and held + (tile.slice + 12) * columns <= tight.l1:
                costs.append(replace(plan, conv2=tile).work.cycles(tight.rates))
    assert len(costs) > 50
    assert plan.work.cycles(tight.rates) == min(costs)


@pytest.mark.parametrize(
    ("change", "band_rows", "rule"),
    [
        ({}, 25, "band_rows is 25: the output has 24 rows"),
        (
            {"width": 32, "height": 2400, "conv1": Conv(3, 1, 1), "conv2": Conv(3, 1, 1)},
            2100,
            "mid rows x columns of a band: 2102 x 32 exceeds the 16-bit positions of img2col",
        ),
    ],
)  # fmt: skip
def test_rules_of_the_tiling(
    limits: Limits, change: dict[str, int | Conv], band_rows: int, rule: str
) -> None:
    with pytest.raises(PlanError) as caught:
        tile_bands(replace(GEOMETRY, **change), replace(limits, l1=2**24), band_rows)
    assert str(caught.value) == rule


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


def test_where_no_plan_fits_the_nearest_one_is_told(limits: Limits) -> None:
    pointwise = Geometry(24, 16, 32, 32, 32, Conv(1, 1, 0), Conv(1, 1, 0))
    # One row of x and of mid, and one filter at a time.
    needed = 2 * 16 * 32 + (32 + 12) * 32
    parts = (
        r"512 \(x of 1 x 16 pixels x 32 channels\) \+ 512 \(mid of 1 x 16 pixels x 32 channels\) \+ "
        r"1024 \(filter1 of 32 x 32\) \+ 384 \(bias and scale rows1\)"
    )
    who = "bands of 1 row, filters streamed"
    problem = rf"^{who} need {needed} B of L1, which has 1000: {needed - 1000} too many: {parts}"
    with pytest.raises(PlanError, match=problem):
        make_plan(pointwise, replace(limits, l1=1000))


WRITTEN = [
    (Written(positions=24), "tile_positions1 is 24: must be a multiple of 16"),
    (Written(step=48), "k_step1 is 48: must be a multiple of 32 that divides K, 288"),
    (Written(step=64), "k_step1 is 64: must be a multiple of 32 that divides K, 288"),
    (
        Written(columns=64),
        "block_columns1 is 64: must be a multiple of 32 that divides the output channels, 96",
    ),
]


@pytest.mark.parametrize(("written", "rule"), WRITTEN, ids=[rule.partition(" ")[0] for _, rule in WRITTEN])
def test_what_is_written_of_an_acc_tile_must_be_one(limits: Limits, written: Written, rule: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_plan(replace(GEOMETRY, cmid=96), limits, None, (written, FREE))
    assert str(caught.value) == rule
    assert caught.value.option == rule.partition(" ")[0]


def test_what_is_written_wins_over_the_planner(limits: Limits) -> None:
    plan = make_plan(GEOMETRY, limits, 6, (Written(positions=48, step=96), FREE))
    assert (plan.band_rows, plan.streamed) == (6, False)
    assert (plan.conv1.positions, plan.conv1.step, plan.conv1.steps) == (48, 96, 3)
    assert plan.conv2 == make_plan(GEOMETRY, limits, 6).conv2
    blocks = make_plan(replace(GEOMETRY, cout=96), limits, None, (FREE, Written(columns=32, positions=32)))
    assert blocks.streamed
    assert (blocks.conv2.columns, blocks.conv2.positions) == (32, 32)


def test_a_written_tile_that_a_memory_does_not_hold_is_refused(limits: Limits) -> None:
    with pytest.raises(PlanError, match="need 1048576 B of L0C, which has 131072: 917504 too many"):
        make_plan(GEOMETRY, limits, None, (FREE, Written(positions=8192)))
