"""Hardly any shape is refused, and each refusal is true: no plan of any kind fits, tried one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest

from benchmarks.plans import drawn_pair, drawn_single
from golden.geometry import Conv, ConvGeometry, Geometry
from kernels.conv_plan import make_conv_plan
from kernels.plan import Limits, PlanError
from kernels.planner import make_plan

C0 = 32
SMALLEST_PIECE = C0 * C0 + C0 * (4 + 8)
"""Bytes of 32 x 32 of a filter, and of a bias (int32) and a table entry (uint64) for each column."""


def held(conv: Conv, rows: int, height: int, width: int) -> tuple[int, int]:
    """Input rows that output rows read, and rows of the buffer, whose pixels are a multiple of 16."""
    read = min((rows - 1) * conv.stride_rows + conv.kernel_rows, height)
    return read, next(each for each in range(read, read + 16) if each * width % 16 == 0)


def fused_needs(geometry: Geometry) -> Iterator[int]:
    """Bytes of L1 for each height of bands, with x and mid in L1 throughout or one C1 plane at a time.

    conv1 needs what is held of x and of mid, and the smallest piece of its filter. conv2 needs no more than
    that. pass1 needs x and a piece; its bands have the rows of mid that the rows of y span.
    """
    for rows in range(1, geometry.out_height + 1):
        mid_rows, mid_held = held(geometry.conv2, rows, geometry.mid_height, geometry.mid_width)
        _, x_held = held(geometry.conv1, mid_rows, geometry.height, geometry.width)
        spanned = min(rows * geometry.conv2.stride_rows, geometry.mid_height)
        _, pass1_held = held(geometry.conv1, spanned, geometry.height, geometry.width)
        for x_channels in (geometry.cin, C0):
            for mid_channels in (geometry.cmid, C0):
                mid = mid_held * geometry.mid_width * mid_channels
                x, pass1_x = (each * geometry.width * x_channels for each in (x_held, pass1_held))
                yield max(x + mid, pass1_x) + SMALLEST_PIECE


def conv_needs(geometry: ConvGeometry) -> Iterator[int]:
    """Bytes of L1 for each height of bands, with x in L1 throughout or one C1 plane at a time."""
    for rows in range(1, geometry.out_height + 1):
        for channels in (geometry.cin, C0):
            _, x_held = held(geometry.conv, rows, geometry.height, geometry.width)
            yield x_held * geometry.width * channels + SMALLEST_PIECE


def refused(geometry: Geometry | ConvGeometry, limits: Limits) -> bool:
    """Whether the planner refuses it; it does so if and only if nothing fits."""
    needs = fused_needs(geometry) if isinstance(geometry, Geometry) else conv_needs(geometry)
    fits = min(needs) <= limits.l1
    try:
        if isinstance(geometry, Geometry):
            make_plan(geometry, limits)
        else:
            make_conv_plan(geometry, limits)
    except PlanError:
        assert not fits, geometry
        return True
    assert fits, geometry
    return False


def share_refused(number: int, seed: int, limits: Limits) -> float:
    random = Random(seed)
    draws = [draw(random, 300, 1024) for _ in range(number // 2) for draw in (drawn_pair, drawn_single)]
    return sum(refused(geometry, limits) for geometry in draws) / len(draws)


def test_at_most_one_shape_of_a_hundred_is_refused(limits: Limits) -> None:
    assert share_refused(150, 1, limits) <= 0.01


def test_a_plan_stays_where_cheaper_tiles_would_need_too_much_padding(
    limits_of: Callable[[str], Limits],
) -> None:
    geometry = Geometry(280, 11, 64, 320, 672, Conv(3, 3, 0), Conv(4, 3, 2))
    assert not refused(geometry, limits_of("a5"))


@pytest.mark.thorough
@pytest.mark.parametrize("soc", ["a2a3", "a5"])
def test_at_most_one_of_a_hundred_of_many_shapes_is_refused(
    soc: str, limits_of: Callable[[str], Limits]
) -> None:
    assert share_refused(1000, 2, limits_of(soc)) <= 0.01


@pytest.mark.parametrize("draw", [drawn_pair, drawn_single], ids=["pair", "conv"])
def test_in_little_memory_a_shape_is_refused_only_if_no_plan_fits(
    draw: Callable[[Random, int, int], Geometry | ConvGeometry], limits: Limits
) -> None:
    random = Random(3)
    shapes = [(draw(random, 30, 192), random.randint(2_000, 80_000)) for _ in range(150)]
    assert {refused(shape, replace(limits, l1=l1)) for shape, l1 in shapes} == {True, False}
