from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import pytest

from golden.geometry import Conv, Geometry
from kernels.choice import STREAMED, cheapest
from kernels.cost import Rates, Work
from kernels.plan import Limits, PlanError, Tile
from kernels.planner import make_plan, tile_bands
from kernels.tiles import FREE, Written
from pipeline.ground import memory

GEOMETRY = Geometry(24, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))


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
