"""All programs against the golden: the given cases, and random geometries and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from emulator.counts import Counts
from emulator.engine import Report
from golden.conv_pair import DEFINITION
from golden.geometry import Conv, Geometry
from kernels.choice import RESIDENT, STREAMED, Streams
from kernels.cost import Work
from kernels.plan import Limits, Plan, PlanError
from kernels.planner import make_plan, tile_bands, ways
from workloads.conv_pair import WORKLOAD

Compiled = Callable[[str, Plan], Report]
Computed = Callable[..., npt.NDArray[np.int8]]
PROGRAMS = [program.name for program in WORKLOAD.programs]
GIVEN = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))


@pytest.mark.parametrize("band_rows", [4, 6, 8, 10, 12])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("case", ["full-range", "ties"])
def test_the_given_cases(
    case: str, name: str, band_rows: int, cases: Path, limits: Limits, computed: Computed
) -> None:
    with np.load(cases / f"conv-pair-24x16-{case}.npz") as file:
        arrays = dict(file)
    plan = tile_bands(GIVEN, limits, band_rows)
    expected = {"y": arrays["y"], "mid": arrays["mid"], "tile": arrays["mid"][: plan.first_tile]}
    np.testing.assert_array_equal(computed(name, plan, arrays), expected[WORKLOAD.program(name).output])


@st.composite
def convs(draw: st.DrawFn) -> Conv:
    kernel = draw(st.sampled_from([3, 3, 3, 1, 5, 2, (1, 7), (7, 1), (3, 5), (4, 2)]))
    rows, columns = kernel if isinstance(kernel, tuple) else (kernel, kernel)

    def padding(size: int) -> int:
        return draw(st.sampled_from([size // 2, size // 2, size // 2, 0, min(size - 1, 2)]))

    if isinstance(kernel, int) and draw(st.booleans()):
        return Conv(kernel, draw(st.sampled_from([1, 1, 2, 3])), padding(kernel))
    sides = padding(rows), padding(rows), padding(columns), padding(columns)
    return Conv(kernel, draw(st.sampled_from([1, (1, 2), (2, 1), (3, 2)])), sides)


@st.composite
def plans(draw: st.DrawFn, limits: Limits) -> Plan:
    """A geometry that can be tiled, in bands of some height that is not refused."""
    conv1, conv2 = draw(convs()), draw(convs())
    width = draw(st.sampled_from([16, 32, 64, 48, 8, 7, 14, 15, 17, 4]))
    height = draw(st.sampled_from([16, 32, 24, 40, 12, 20, 21, 3, 5, 1, 2]))
    channels = st.sampled_from([32, 32, 64, 96])
    try:
        geometry = Geometry(height, width, draw(channels), draw(channels), draw(channels), conv1, conv2)
    except ValueError:
        assume(False)
    streams = draw(st.sampled_from(list(ways(geometry))))
    # In less L1 than there is, filters come in by slices of K too.
    room = draw(st.sampled_from([limits.l1, 50_000, 25_000])) if streams.filters else limits.l1
    plan = tiled(geometry, replace(limits, l1=room), draw(st.integers(1, geometry.out_height)), streams)
    assume(plan is not None)
    assert plan is not None
    return plan


def tiled(geometry: Geometry, limits: Limits, band_rows: int, streams: Streams = RESIDENT) -> Plan | None:
    try:
        return tile_bands(geometry, limits, band_rows, streams)
    except PlanError:
        return None


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(data=st.data())
def test_every_plan_compiles_and_moves_what_it_should(
    data: st.DataObject, limits: Limits, compiled: Compiled
) -> None:
    plan = data.draw(plans(limits))
    geometry = plan.geometry
    reports = {name: compiled(name, plan) for name in PROGRAMS}
    fused = reports["fused"].counts
    y_bytes = geometry.out_height * geometry.out_width * geometry.cout
    mid_bytes = geometry.mid_height * geometry.mid_width * geometry.cmid
    assert fused.written == {"y": y_bytes}
    assert "mid" not in fused.read
    assert_counted(plan.work, [fused])
    assert_counted(plan.two_pass_work, [reports[name].counts for name in ("pass1", "pass2")])
    assert reports["pass1"].counts.written == {"mid": mid_bytes}
    assert reports["pass2"].counts.written == {"y": y_bytes}
    assert fused.moved["L0C", "L1"] >= mid_bytes or plan.bands[0].mid.rows < geometry.mid_height


def assert_counted(work: Work, counts: Sequence[Counts]) -> None:
    """What a plan says of its work is what the emulator counts."""

    def moved(source: str, target: str) -> int:
        return sum(each.moved.get((source, target), 0) for each in counts)

    assert work == Work(
        gm_l1=moved("GM", "L1"),
        l1_l0a=moved("L1", "L0A"),
        l1_l0b=moved("L1", "L0B"),
        l0c_l1=moved("L0C", "L1"),
        l0c_gm=moved("L0C", "GM"),
        l1_tables=moved("L1", "bias table") + moved("L1", "fixpipe table"),
        matmuls=sum(each.matmuls for each in counts),
        fractals=sum(each.fractals for each in counts),
    )


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(data=st.data(), profile=st.sampled_from(sorted(DEFINITION.profiles)), seed=st.integers(0, 99))
def test_fused_is_two_pass_is_golden(
    data: st.DataObject, profile: str, seed: int, limits: Limits, computed: Computed
) -> None:
    pytest.importorskip("torch", reason="the golden reference needs torch")
    plan = data.draw(plans(limits))
    tensors = DEFINITION.make(f"{profile}@{seed}", plan.geometry)
    expected = DEFINITION.compute(plan.geometry, tensors, "vreq8")
    arrays: dict[str, Any] = tensors.arrays("vreq8")
    mid = computed("pass1", plan, arrays)
    np.testing.assert_array_equal(mid, expected["mid"])
    np.testing.assert_array_equal(computed("pass2", plan, arrays | {"mid": mid}), expected["y"])
    np.testing.assert_array_equal(computed("fused", plan, arrays), expected["y"])
    for name in ("first-tile-load", "first-tile-packed", "first-tile-fused-alloc"):
        tile = computed(name, plan, arrays)
        np.testing.assert_array_equal(tile, expected["mid"][: plan.first_tile])


CUTS = {
    "one band": (Geometry(12, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)), 12, 1),
    "two bands": (Geometry(12, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)), 6, 2),
    "a shorter last band": (Geometry(14, 16, 32, 64, 32, Conv(3, 1, 1), Conv(3, 1, 1)), 4, 4),
    "stride 2 then 2": (Geometry(64, 64, 96, 32, 64, Conv(3, 2, 1), Conv(3, 2, 1)), 4, 4),
    "no padding": (Geometry(26, 16, 64, 32, 32, Conv(3, 1, 1), Conv(3, 1, 0)), 8, 3),
    "padding 2": (Geometry(16, 16, 32, 32, 32, Conv(5, 1, 2), Conv(5, 1, 2)), 8, 2),
    "kernel 1": (Geometry(16, 16, 32, 64, 96, Conv(1, 1, 0), Conv(1, 1, 0)), 5, 4),
    "widths of no whole fractal": (Geometry(17, 17, 64, 64, 64, Conv(3, 1, 1), Conv(3, 1, 1)), 5, 4),
    "narrow": (Geometry(9, 3, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)), 4, 3),
    "one pixel": (Geometry(1, 1, 32, 32, 32, Conv(1, 1, 0), Conv(1, 1, 0)), 1, 1),
    "one pixel and its padding": (Geometry(1, 1, 32, 64, 32, Conv(3, 1, 1), Conv(5, 1, 2)), 1, 1),
    "rows, then columns": (
        Geometry(17, 17, 64, 32, 32, Conv((1, 7), 1, (0, 0, 3, 3)), Conv((7, 1), 1, (3, 3, 0, 0))),
        6,
        3,
    ),
    "padding below and on the right alone": (
        Geometry(22, 20, 32, 32, 32, Conv(3, 2, (0, 1, 0, 1)), Conv((2, 4), (1, 2), (0, 1, 1, 3))),
        5,
        3,
    ),
    "five planes": (Geometry(6, 7, 160, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)), 6, 1),
    "four planes": (Geometry(12, 16, 128, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)), 6, 2),
}


@pytest.mark.parametrize("streams", [RESIDENT, STREAMED], ids=["resident", "streamed"])
@pytest.mark.parametrize(("geometry", "band_rows", "bands"), CUTS.values(), ids=CUTS.keys())
def test_the_cases_of_banding(
    geometry: Geometry, band_rows: int, bands: int, streams: Streams, limits: Limits, computed: Computed
) -> None:
    pytest.importorskip("torch", reason="the golden reference needs torch")
    plan = tile_bands(geometry, limits, band_rows, streams)
    assert len(plan.bands) == bands
    tensors = DEFINITION.make("full-range", geometry)
    expected = DEFINITION.compute(geometry, tensors, "vreq8")
    arrays: dict[str, Any] = tensors.arrays("vreq8")
    np.testing.assert_array_equal(computed("fused", plan, arrays), expected["y"])
    np.testing.assert_array_equal(computed("pass1", plan, arrays), expected["mid"])
    np.testing.assert_array_equal(computed("pass2", plan, {**arrays, "mid": expected["mid"]}), expected["y"])


def test_tight_memories_make_lower_bands_not_other_numbers(limits: Limits, computed: Computed) -> None:
    pytest.importorskip("torch", reason="the golden reference needs torch")
    tight = replace(limits, l1=100_000)
    plan = make_plan(GIVEN, tight)
    assert (plan.band_rows, plan.streamed) != (12, False)
    tensors = DEFINITION.make("channels", GIVEN)
    arrays: dict[str, Any] = tensors.arrays("vreq8")
    np.testing.assert_array_equal(
        computed("fused", plan, arrays), DEFINITION.compute(GIVEN, tensors, "vreq8")["y"]
    )


@pytest.mark.parametrize("l1", [60_000, 40_000, 14_000, 12_000], ids=["blocks", "slices", "x", "x and mid"])
def test_filters_that_l1_does_not_hold_are_brought_in(limits: Limits, l1: int, computed: Computed) -> None:
    pytest.importorskip("torch", reason="the golden reference needs torch")
    geometry = Geometry(7, 7, 64, 64, 96, Conv(3, 1, 1), Conv(3, 1, 1))
    plan = make_plan(geometry, replace(limits, l1=l1))
    by_planes = {14_000: (True, False), 12_000: (True, True)}.get(l1, (False, False))
    assert plan.streams == Streams(True, *by_planes)
    assert (plan.conv1.slices > 1) == (l1 < 60_000)
    tensors = DEFINITION.make("full-range", geometry)
    expected = DEFINITION.compute(geometry, tensors, "vreq8")
    arrays: dict[str, Any] = {**tensors.arrays("vreq8"), "mid": expected["mid"]}
    of = {"tile": expected["mid"][: plan.first_tile], **expected}
    for name in PROGRAMS:
        np.testing.assert_array_equal(computed(name, plan, arrays), of[WORKLOAD.program(name).output])
