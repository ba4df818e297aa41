from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from golden.geometry import Conv, ConvGeometry
from kernels.conv_plan import make_conv_plan, tile_conv_bands
from kernels.plan import Limits, PlanError
from kernels.windows import Window

SAME = Conv(3, 1, 1)
GEOMETRY = ConvGeometry(24, 16, 32, 32, SAME)


def test_one_band_holds_the_whole_image_with_both_paddings(limits: Limits) -> None:
    plan = make_conv_plan(GEOMETRY, limits)
    (band,) = plan.bands
    assert (band.row, band.rows) == (0, 24)
    assert band.x == Window(0, 24, (1, 1, 1, 1), 0)
    assert (plan.tile.count(24 * 16), plan.tile.step * plan.tile.steps) == (1, 9 * 32)
    assert plan.planes == 1


def test_the_bands_have_the_padding_of_their_place(limits: Limits) -> None:
    first, second, third = tile_conv_bands(GEOMETRY, limits, 8).bands
    assert first.x == Window(0, 10, (1, 0, 1, 1), 0)
    assert second.x == Window(7, 10, (0, 0, 1, 1), 0)
    assert third.x == Window(14, 10, (0, 1, 1, 1), 1)  # shifted up: it starts one output row in


def test_the_buffer_is_made_of_whole_fractals_by_rows_of_zeros(limits: Limits) -> None:
    """8 columns: two rows are a fractal. 4 output rows with stride 2 read 9 rows; one lies under them."""
    plan = tile_conv_bands(ConvGeometry(24, 8, 32, 32, Conv(3, 2, 1)), limits, 4)
    assert {(band.x.rows, band.x.spare) for band in plan.bands} == {(9, 1)}


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_bands_cut_the_image_once_and_read_inside_it(data: st.DataObject, limits: Limits) -> None:
    kernel = data.draw(st.integers(1, 5))
    conv = Conv(kernel, data.draw(st.integers(1, 3)), data.draw(st.integers(0, kernel - 1)))
    height, width = data.draw(st.integers(kernel, 40)), data.draw(st.sampled_from([7, 8, 15, 16, 17, 24]))
    geometry = ConvGeometry(height, width, 32, 32, conv)
    band_rows = data.draw(st.integers(1, geometry.out_height))
    try:
        plan = tile_conv_bands(geometry, limits, band_rows)
    except PlanError:
        assume(False)
    rows = [row for band in plan.bands for row in range(band.row, band.row + band.rows)]
    assert rows == list(range(geometry.out_height))
    assert {band.rows for band in plan.bands[:-1]} <= {band_rows}
    for band in plan.bands:
        assert 0 <= band.x.row <= height - band.x.rows
        assert band.x.held * width % 16 == 0


@pytest.mark.parametrize(
    ("change", "band_rows", "rule"),
    [
        ({}, 25, "band_rows is 25: the output has 24 rows"),
        (
            {"width": 32, "height": 2400},
            2100,
            "x rows x columns of a band: 2102 x 32 exceeds the 16-bit positions of img2col",
        ),
        (
            {"width": 12, "conv": Conv(5, 1, 4)},
            2,
            "bands of 2 rows: padding reaches past the first or last band",
        ),
    ],
)  # fmt: skip
def test_rules_of_the_tiling(limits: Limits, change: dict[str, Any], band_rows: int, rule: str) -> None:
    with pytest.raises(PlanError) as caught:
        tile_conv_bands(replace(GEOMETRY, **change), replace(limits, l1=2**24), band_rows)
    assert str(caught.value) == rule


MEMORIES = [
    ("l1", 4 * 16 * 32 + 288 * 32 + 12 * 32, "L1"),  # x rows, filter, bias and scale rows
    ("l0a", 16 * 32, "L0A"),
    ("l0b", 32 * 32, "L0B"),
    ("l0c", 4 * 16 * 32, "L0C"),
    ("bias", 4 * 32, "the bias table"),
    ("fixpipe", 8 * 32, "the fixpipe table"),
]


@pytest.mark.parametrize(("memory", "needed", "shown"), MEMORIES, ids=[memory for memory, *_ in MEMORIES])
def test_a_memory_that_is_too_small_by_a_byte(limits: Limits, memory: str, needed: int, shown: str) -> None:
    assert tile_conv_bands(GEOMETRY, replace(limits, **{memory: needed}), 2).band_rows == 2
    with pytest.raises(PlanError) as caught:
        tile_conv_bands(GEOMETRY, replace(limits, **{memory: needed - 1}), 2)
    start = f"bands of 2 rows need {needed} B of {shown}, which has {needed - 1}: 1 too many: "
    assert str(caught.value).startswith(start)


def test_where_no_plan_fits_the_nearest_one_is_told(limits: Limits) -> None:
    pointwise = ConvGeometry(24, 16, 32, 32, Conv(1, 1, 0))
    needed = 16 * 32 + (32 + 12) * 32
    with pytest.raises(PlanError, match=rf"^bands of 1 row need {needed} B of L1, which has 1000: "):
        make_conv_plan(pointwise, replace(limits, l1=1000))
