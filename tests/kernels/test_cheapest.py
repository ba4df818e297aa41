"""The plan that is chosen is the cheapest of all that fit; in plans of every kind, what is written wins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from math import inf
from random import Random
from typing import Any

import pytest

from benchmarks.plans import drawn_pair, drawn_single
from golden.geometry import Conv, ConvGeometry, Geometry
from kernels import conv_plan, planner, windows
from kernels.choice import STREAMED, TOLD
from kernels.plan import Limits, PlanError, Tile
from kernels.tiles import FREE, Written, conv_work, least_work
from pipeline.ground.memory import limits_of

SOCS = ["a2a3", "a5"]
DRAWS = [drawn_pair, drawn_single]


def every_plan(geometry: Any, limits: Limits, *written: Any) -> Iterator[Any]:
    """The plans of all kinds in bands of all heights that fit."""
    pair = isinstance(geometry, Geometry)
    ways, tile = (
        (planner.ways(geometry), planner.tile_bands)
        if pair
        else (conv_plan.ways(geometry), conv_plan.tile_conv_bands)
    )
    for streams in ways:
        for rows in range(1, geometry.out_height + 1):
            try:
                yield tile(geometry, limits, rows, streams, *written)
            except PlanError:
                continue


def made(geometry: Any, limits: Limits, *written: Any) -> Any:
    if isinstance(geometry, Geometry):
        return planner.make_plan(geometry, limits, None, *written)
    return conv_plan.make_conv_plan(geometry, limits, None, *written)


def check_cheapest(shapes: int, seed: int) -> None:
    """The cheapest plan with equal bands is taken if at most 1 % dearer than any, else the cheapest."""
    random = Random(seed)
    for number in range(shapes):
        geometry = DRAWS[number % 2](random, 24, 256)
        limits = replace(limits_of(SOCS[number // 2 % 2]), l1=random.choice([524_288, 100_000, 40_000]))
        written = [some_written_of(random, geometry)] if number % 3 == 0 else []
        plans = list(every_plan(geometry, limits, *written))
        if not plans:
            continue
        cost = {id(each): each.work.cycles(limits.rates) for each in plans}
        even = [cost[id(each)] for each in plans if geometry.out_height % each.band_rows == 0]
        least = min(cost.values())
        wanted = min(even) if min(even, default=inf) <= least * 1.01 else least
        assert made(geometry, limits, *written).work.cycles(limits.rates) == wanted, geometry


def test_no_plan_of_any_kind_or_height_is_cheaper() -> None:
    check_cheapest(12, 1)


@pytest.mark.thorough
def test_for_many_shapes_no_plan_of_any_kind_or_height_is_cheaper() -> None:
    check_cheapest(200, 2)


def test_rules_hold_for_all_bands_though_only_those_that_differ_are_tried() -> None:
    random, limits = Random(4), limits_of("a2a3")
    for _ in range(12):
        for each in every_plan(drawn_pair(random, 40, 64), limits):
            for band in each.bands:
                windows.check_unfolded("mid", each.shape2, band.mid, each.conv2, band.rows)
                windows.check_unfolded("x", each.shape1, band.x, each.conv1, band.mid.rows)
            for _, rows, x in each.pass1:
                windows.check_unfolded("x", each.shape1, x, each.conv1, rows)
            if not each.streamed:
                windows.check_uniform(each.band_rows, [band.mid for band in each.bands])
                windows.check_uniform(each.band_rows, [band.x for band in each.bands])
                windows.check_uniform(each.band_rows, [x for _, _, x in each.pass1])


def some_written(random: Random, depth: int, channels: int) -> Written:
    """Numbers that a matrix accepts for an ACC tile, some of them left out."""
    steps = [step for step in range(32, depth + 1, 32) if depth % step == 0]
    columns = [each for each in range(32, channels + 1, 32) if channels % each == 0]
    return Written(*(random.choice([0, *of]) for of in ((16, 48, 112), steps, columns)))


def some_written_of(random: Random, geometry: Any) -> Any:
    """The same for all convolutions of a geometry."""
    if isinstance(geometry, ConvGeometry):
        return some_written(random, geometry.depth, geometry.cout)
    first = some_written(random, geometry.depth1, geometry.cmid)
    return first, some_written(random, geometry.depth2, geometry.cout)


def kept(tile: Tile, written: Written, channels: int) -> bool:
    """Whether a tile has all that is written of it."""
    has = Written(tile.positions, tile.step, tile.columns or channels)
    return all(getattr(written, name) in (0, value) for name, value in asdict(has).items())


def check_written_wins(shapes: int, seed: int) -> int:
    """Whatever is written, each plan has it or is refused; returns how many plans there were."""
    random, plans = Random(seed), 0
    for number in range(shapes):
        geometry = DRAWS[number % 2](random, 12, 128)
        written = some_written_of(random, geometry)
        for each in every_plan(geometry, limits_of("a2a3"), written):
            if isinstance(geometry, ConvGeometry):
                assert kept(each.tile, written, geometry.cout), (geometry, written, str(each))
            else:
                assert kept(each.conv1, written[0], geometry.cmid), (geometry, written, str(each))
                assert kept(each.conv2, written[1], geometry.cout), (geometry, written, str(each))
            plans += 1
    return plans


def test_what_is_written_wins_in_plans_of_every_kind_or_they_are_refused() -> None:
    assert check_written_wins(30, 3) > 50


@pytest.mark.parametrize(
    ("geometry", "written", "reason"),
    [
        (ConvGeometry(56, 56, 128, 128, Conv(3, 1, 1)), Written(64, 1152), "73728 B of L0A"),
        (ConvGeometry(56, 56, 128, 128, Conv(3, 1, 1)), Written(0, 576, 128), "73728 B of L0B"),
        (
            Geometry(17, 17, 192, 192, 192, Conv((1, 7), 1, (0, 0, 3, 3)), Conv((7, 1), 1, (3, 3, 0, 0))),
            (Written(0, 448, 192), FREE),
            "86016 B of L0B",
        ),
    ],
)
def test_no_geometry_helps_that_what_is_written_does_not_divide(
    geometry: Any, written: Any, reason: str
) -> None:
    with pytest.raises(PlanError, match=rf" need {reason}, which has 65536: .* \(an ACC tile\)$"):
        made(geometry, limits_of("a2a3"), written)


def test_a_smaller_geometry_that_is_said_to_fit_does_so_with_what_is_written() -> None:
    random, told = Random(5), 0
    for number in range(40):
        geometry, limits = DRAWS[number % 2](random, 24, 256), replace(limits_of("a2a3"), l1=20_000)
        written = some_written_of(random, geometry)
        try:
            made(geometry, limits, written)
        except PlanError as error:
            if smaller := re.search(r"; with (\w+) (\d+) it fits$", str(error)):
                made(replace(geometry, **{smaller[1]: int(smaller[2])}), limits, written)
                told += 1
    assert told > 2


def test_no_acc_tile_undercuts_the_bound_by_which_the_search_ends() -> None:
    random, tiles = Random(11), 0
    for number in range(16):
        geometry, limits = drawn_single(random, 40, 128), limits_of(SOCS[number % 2])
        written = some_written(random, geometry.depth, geometry.cout) if number % 3 == 0 else FREE
        bound = least_work(limits, geometry.depth, geometry.cout, written)
        for each in every_plan(geometry, limits, written):
            positions = each.band_rows * geometry.out_width
            work = replace(conv_work(each.tile, positions, geometry.cout, to_gm=True), l0c_gm=0)
            assert work.cycles(limits.rates) >= 0.999_999 * bound * positions, (geometry, str(each))
            tiles += 1
    assert tiles > 100


def test_a_piece_of_a_filter_that_is_a_byte_too_large_comes_in_by_smaller_ones() -> None:
    geometry, limits = ConvGeometry(24, 16, 64, 64, Conv(3, 1, 1)), limits_of("a2a3")
    # L1 holds 10 rows of 16 pixels x 64 channels, and a block of the filter of 576 x 64 with its rows.
    needed = 10 * 16 * 64 + (576 + 12) * 64
    for l1, in_slices in ((needed, False), (needed - 1, True)):
        little = replace(limits, l1=l1)
        made_of = conv_plan.tile_conv_bands(geometry, little, 8, STREAMED, Written(columns=64))
        assert (made_of.tile.slices > 1) == in_slices


def test_a_piece_that_the_fused_kernel_could_hold_is_no_larger_than_pass1_can() -> None:
    geometry = Geometry(24, 16, 64, 32, 32, Conv(3, 1, 1), Conv(1, 4, 0))
    # Two rows of y span 8 rows of mid, for which pass1 holds 10 of x. The fused kernel needs 5 and 7, and
    # so fewer bytes for both.
    needed = 10 * 16 * 64 + (576 + 12) * 32
    for l1, in_slices in ((needed, False), (needed - 1, True)):
        little = replace(limits_of("a2a3"), l1=l1)
        assert (planner.tile_bands(geometry, little, 2, STREAMED).conv1.slices > 1) == in_slices


def test_blocks_of_conv1_are_c1_planes_where_mid_comes_by_planes() -> None:
    shapes, limits = Geometry(9, 7, 64, 128, 64, Conv(3, 1, 1), Conv(3, 1, 1)), limits_of("a2a3")
    by_planes = [each for each in planner.ways(shapes) if each.mid]
    for streams in by_planes:
        assert planner.tile_bands(shapes, limits, 3, streams, (Written(columns=32), FREE)).conv1.columns == 32
        with pytest.raises(PlanError) as caught:
            planner.tile_bands(shapes, limits, 3, streams, (Written(columns=64), FREE))
        assert str(caught.value) == "block_columns1 is 64: where mid comes by planes it must be 32"
        assert caught.value.option == "block_columns1"
    assert len(by_planes) == 2


def test_a_k_step_divides_k_of_one_plane_where_maps_come_by_planes() -> None:
    shapes, limits = ConvGeometry(9, 7, 64, 64, Conv(3, 1, 1)), limits_of("a2a3")
    *_, by_planes = conv_plan.ways(shapes)
    with pytest.raises(PlanError) as caught:
        conv_plan.tile_conv_bands(shapes, limits, 3, by_planes, Written(step=64))
    rule = "k_step is 64: where x comes by planes it must divide K of one C1 plane, 288"
    assert (str(caught.value), caught.value.option) == (rule, "k_step")


@pytest.mark.parametrize(
    ("geometry", "rule"),
    [
        (
            ConvGeometry(60, 60, 256, 32, Conv(3, 1, 1, 23)).device,
            "x: windows of 47 x 47 pixels have 70688 of K at a time, which exceeds the 65536 that img2col "
            "addresses; a smaller kernel or dilation helps",
        ),
        (
            Geometry(60, 60, 64, 32, 64, Conv(1, 1, 0), Conv(47, 1, 0)),
            "mid: windows of 47 x 47 pixels have 70688 of K at a time",
        ),
        (
            ConvGeometry(9, 65_535, 32, 32, Conv(3, 1, 1)),
            "x rows x columns of a band: 16 x 65535 exceeds the 16-bit positions of img2col; with width ",
        ),
    ],
)
def test_a_rule_that_no_plan_escapes_is_the_reason_and_no_memory(geometry: Any, rule: str) -> None:
    with pytest.raises(PlanError) as caught:
        made(geometry, limits_of("a2a3"))
    assert str(caught.value).startswith(rule)


@pytest.mark.parametrize(("width", "stride"), [(1, 17), (1, 255), (2, 40), (5, 100), (300, 255)])
def test_long_strides_are_no_reason_to_refuse(width: int, stride: int) -> None:
    """Rows that only unwanted positions of an ACC tile read are padding, up to 255, and rows of zeros."""
    shapes = ConvGeometry(300, width, 32, 32, Conv((3, 1), (stride, 1), 0))
    limits = limits_of("a2a3")
    found = conv_plan.make_conv_plan(shapes, limits)
    for band in found.bands:
        wanted = band.rows * shapes.out_width
        below = windows.unfolded_padding(found.shape, band.x, found.tile, wanted)[1]
        asked = found.tile.count(wanted) * found.tile.positions
        rows = below + band.x.held + band.x.padding[0]
        assert below <= 255
        assert ((rows - 3) // stride + 1) * shapes.out_width >= asked


def test_of_an_image_of_the_most_rows_few_heights_of_bands_are_tried() -> None:
    shapes = ConvGeometry(65_535, 16, 64, 64, Conv(3, 1, 1))
    assert 5 < len(conv_plan.considered(shapes, limits_of("a2a3"), told=TOLD).fitting) < 300
