"""The kernel of one convolution against the definition, computed here in plain NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import emulator.language
from emulator.artefact import report_data
from emulator.engine import Report, compile_program, run_program
from emulator.program import Program
from emulator.soc import SOCS, Space
from golden import vreq8
from golden.geometry import Conv, ConvGeometry
from kernels.conv2d import build_conv
from kernels.conv_plan import ConvPlan, make_conv_plan, tile_conv_bands
from kernels.plan import Limits, PlanError

Arrays = dict[str, npt.NDArray[Any]]


def case(geometry: ConvGeometry, seed: int) -> tuple[Arrays, npt.NDArray[np.int8]]:
    """Random inputs in the layouts of the kernel, and y by the definition of a convolution."""
    random = np.random.default_rng(seed)
    conv, cin, cout = geometry.conv, geometry.cin, geometry.cout
    image = random.integers(-128, 128, (geometry.height, geometry.width, cin))
    taps = random.integers(-128, 128, (conv.kernel_rows, conv.kernel_columns, cin, cout))
    bias = random.integers(-(2**15), 2**15, (1, cout))
    # Powers of two make ties.
    scales = np.where(np.arange(cout) % 2, 2.0**-10, random.uniform(-(2**-9), 2**-9, cout))
    table = vreq8.pack(scales, random.integers(-256, 256, cout))

    padded = np.pad(image, (conv.sides[:2], conv.sides[2:], (0, 0)))
    acc = np.zeros((geometry.out_height, geometry.out_width, cout), np.int64)
    for row in range(geometry.out_height):
        for column in range(geometry.out_width):
            top, left = row * conv.stride_rows, column * conv.stride_columns
            patch = padded[top : top + conv.kernel_rows, left : left + conv.kernel_columns]
            acc[row, column] = np.tensordot(patch, taps, 3)
    y = vreq8.requantise((acc.reshape(-1, cout) + bias).astype(np.int32), table)

    planes = image.reshape(geometry.height, geometry.width, cin // 32, 32).transpose(2, 0, 1, 3)
    by_plane = taps.reshape(*taps.shape[:2], cin // 32, 32, cout).transpose(2, 0, 1, 3, 4)
    arrays: Arrays = {
        "x": planes.reshape(-1, 32).astype(np.int8),
        "filter": by_plane.reshape(-1, cout).astype(np.int8),
        "bias": bias.astype(np.int32),
        "scale": table,
    }
    return arrays, y.astype(np.int8)


def program_of(plan: ConvPlan) -> Program:
    program: Program = build_conv(emulator.language, plan)
    return program


def computed(plan: ConvPlan, arrays: Arrays, soc: str = "a2a3") -> tuple[npt.NDArray[Any], Report]:
    """What the kernel leaves in an output full of a sentinel, and its report."""
    geometry = plan.geometry
    y = np.full((geometry.out_height * geometry.out_width, geometry.cout), -86, np.int8)
    report = run_program(program_of(plan), SOCS[soc], {**arrays, "y": y})
    return y, report


CASES = {
    "one band": (ConvGeometry(12, 16, 32, 32, Conv(3, 1, 1)), 12, 1),
    "two bands": (ConvGeometry(12, 16, 64, 32, Conv(3, 1, 1)), 6, 2),
    "a shorter last band": (ConvGeometry(22, 16, 32, 96, Conv(3, 1, 1)), 6, 4),
    "stride 2": (ConvGeometry(32, 32, 96, 32, Conv(3, 2, 1)), 4, 4),
    "stride 3": (ConvGeometry(48, 48, 32, 32, Conv(5, 3, 2)), 4, 4),
    "no padding": (ConvGeometry(24, 18, 32, 64, Conv(3, 1, 0)), 22, 1),
    "the widest padding": (ConvGeometry(16, 12, 32, 32, Conv(5, 1, 4)), 20, 1),
    "an even kernel": (ConvGeometry(16, 17, 32, 32, Conv(2, 1, 0)), 15, 1),
    "kernel 1": (ConvGeometry(20, 8, 64, 32, Conv(1, 1, 0)), 6, 4),
    "a row, with padding on the left alone": (
        ConvGeometry(12, 18, 32, 64, Conv((1, 4), 1, (0, 0, 3, 0))),
        4,
        3,
    ),
    "padding below and on the right alone": (ConvGeometry(28, 28, 32, 32, Conv(3, 2, (0, 1, 0, 1))), 4, 4),
    "other strides": (ConvGeometry(24, 18, 64, 32, Conv((5, 2), (1, 3), (4, 1, 0, 1))), 9, 3),
    "a buffer of more rows than are read": (ConvGeometry(32, 8, 32, 32, Conv(3, 2, 1)), 8, 2),
}


@pytest.mark.parametrize(("geometry", "band_rows", "bands"), CASES.values(), ids=CASES.keys())
def test_the_cases_of_banding(geometry: ConvGeometry, band_rows: int, bands: int, limits: Limits) -> None:
    plan = tile_conv_bands(geometry, limits, band_rows)
    assert len(plan.bands) == bands
    arrays, y = case(geometry, 1)
    assert len(np.unique(y)) > 50
    np.testing.assert_array_equal(computed(plan, arrays)[0], y)


@st.composite
def plans(draw: st.DrawFn, limits: Limits) -> ConvPlan:
    """A convolution that can be tiled, in bands of some height that is not refused."""
    kernel = rows, reach = draw(st.tuples(*[st.integers(1, 5)] * 2))
    above_below, sides = (draw(st.tuples(*[st.integers(0, of - 1)] * 2)) for of in kernel)
    conv = Conv(kernel, draw(st.tuples(*[st.integers(1, 3)] * 2)), (*above_below, *sides))
    # Output columns that are whole fractals, or nearly, allow low bands and so several of them.
    columns = draw(st.sampled_from([8, 16, 16, 4, 12, 17]))
    read = (columns - 1) * conv.stride_columns + reach
    width = max(1, reach - sum(sides), read - sum(sides) + draw(st.integers(0, 2)))
    height = draw(st.integers(max(1, rows - sum(above_below)), 40))
    channels = st.sampled_from([32, 64, 96])
    geometry = ConvGeometry(height, width, draw(channels), draw(channels), conv)
    fitting = []
    for band_rows in range(1, geometry.out_height + 1):
        try:
            fitting.append(tile_conv_bands(geometry, limits, band_rows))
        except PlanError:
            continue
    assume(fitting)
    return draw(st.sampled_from(fitting))


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 99))
def test_any_convolution_is_exact_and_moves_what_it_should(
    data: st.DataObject, seed: int, limits: Limits
) -> None:
    plan = data.draw(plans(limits))
    geometry = plan.geometry
    arrays, expected = case(geometry, seed)
    y, report = computed(plan, arrays)
    np.testing.assert_array_equal(y, expected)
    counts = report.counts
    assert counts.written == {"y": y.size}
    assert counts.read == {
        "x": sum(band.x.rows for band in plan.bands) * geometry.width * geometry.cin,
        **{name: arrays[name].nbytes for name in ("filter", "bias", "scale")},
    }
    # Positions of a band's last tile that are not wanted are multiplied, but never stored.
    tiles = sum(plan.tile.count(band.rows * geometry.out_width) for band in plan.bands)
    assert counts.macs == tiles * plan.tile.positions * geometry.depth * geometry.cout >= geometry.macs
    compiled = compile_program(program_of(plan), SOCS["a2a3"])
    assert (compiled.counts, compiled.estimate) == (counts, report.estimate)


def test_x_is_read_once_in_a_single_band_and_the_halo_twice_in_two(limits: Limits) -> None:
    geometry = ConvGeometry(24, 16, 64, 32, Conv(3, 1, 1))
    row = 16 * 64
    one = compile_program(program_of(tile_conv_bands(geometry, limits, 24)), SOCS["a2a3"])
    two = compile_program(program_of(tile_conv_bands(geometry, limits, 12)), SOCS["a2a3"])
    assert one.counts.read["x"] == 24 * row
    assert two.counts.read["x"] == (14 + 14) * row
    assert one.counts.written == two.counts.written == {"y": 24 * 16 * 32}


def test_l1_holds_what_the_plan_counts(limits: Limits) -> None:
    geometry = ConvGeometry(24, 16, 32, 64, Conv(3, 1, 1))
    plan = tile_conv_bands(geometry, limits, 6)
    memory = compile_program(program_of(plan), SOCS["a2a3"]).memory["conv"]
    needed = 8 * 16 * 32 + 288 * 64 + 64 * 4 + 64 * 8
    assert memory.peak(Space.Mat) == needed
    assert tile_conv_bands(geometry, replace(limits, l1=needed), 6).bands == plan.bands
    with pytest.raises(PlanError):
        tile_conv_bands(geometry, replace(limits, l1=needed - 1), 6)


@pytest.mark.parametrize("soc", ["a2a3", "a5"])
def test_both_socs_compute_the_same(soc: str, limits: Limits) -> None:
    geometry = ConvGeometry(16, 16, 64, 64, Conv(3, 1, 1))
    arrays, expected = case(geometry, 3)
    y, report = computed(make_conv_plan(geometry, limits), arrays, soc)
    np.testing.assert_array_equal(y, expected)
    assert report_data(report)["gm_written_bytes"] == {"y": expected.size}
