"""The matrix product: its tiling, and the kernel against NumPy's product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import emulator.language
from emulator.artefact import report_data
from emulator.counts import Estimate
from emulator.engine import Report, compile_program, run_program
from emulator.listing import listing
from emulator.program import Program
from emulator.soc import SOCS, Space
from golden.geometry import GemmGeometry
from kernels.gemm import build_gemm
from kernels.gemm_plan import GemmPlan, make_gemm_plan
from kernels.plan import Limits, PlanError


def program_of(plan: GemmPlan) -> Program:
    program: Program = build_gemm(emulator.language, plan)
    return program


def compiled(plan: GemmPlan, soc: str = "a2a3") -> Report:
    return compile_program(program_of(plan), SOCS[soc])


def operands(geometry: GemmGeometry, seed: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Random a and b; the first row and column have the largest sum there is."""
    random = np.random.default_rng(seed)
    a = random.integers(-128, 128, (geometry.m, geometry.k)).astype(np.int8)
    b = random.integers(-128, 128, (geometry.k, geometry.n)).astype(np.int8)
    a[0], b[:, 0] = -128, -128
    return a, b


def computed(
    plan: GemmPlan, a: npt.NDArray[Any], b: npt.NDArray[Any], soc: str = "a2a3"
) -> tuple[npt.NDArray[np.int32], Report]:
    c = np.full((plan.geometry.m, plan.geometry.n), -0x55555556, np.int32)
    return c, run_program(program_of(plan), SOCS[soc], {"a": a, "b": b, "c": c})


def test_a_product_that_fits_is_read_once(limits: Limits) -> None:
    plan = make_gemm_plan(GemmGeometry(256, 256, 256), limits)
    # 32 K sums fit L0C: of the tiles of so many, 128 x 256 and 256 x 128 move the fewest bytes into L0, and
    # the higher one moves fewer of them into L0B.
    assert (plan.tile_m, plan.tile_n) == (256, 128)
    assert plan.step == 256  # 64 KB of L0A hold 256 rows of 256
    assert (plan.bands, plan.blocks, plan.steps) == (1, 1, 1)
    counts = compiled(plan).counts
    assert counts.read == {"a": 256 * 256, "b": 256 * 256}
    assert counts.written == {"c": 256 * 256 * 4}


def test_a_is_read_in_bands_where_the_whole_does_not_fit_l1(limits: Limits) -> None:
    plan = make_gemm_plan(GemmGeometry(2048, 512, 256), limits)
    assert plan.blocks == 1
    assert plan.band_rows * 512 + 256 * 512 <= 512 * 1024 < 2 * plan.band_rows * 512 + 256 * 512
    report = compiled(plan)
    assert report.counts.read == {"a": 2048 * 512, "b": 512 * 256}
    assert report.counts.operations["load"] == 1 + plan.bands
    assert report.memory["gemm"].peak(Space.Mat) == (plan.band_rows + 256) * 512


def test_b_is_read_in_blocks_where_the_whole_does_not_fit_l1(limits: Limits) -> None:
    """a is read once for each block."""
    plan = make_gemm_plan(GemmGeometry(64, 1024, 1024), limits)
    assert plan.blocks > 1
    counts = compiled(plan).counts
    assert counts.read == {"a": plan.blocks * 64 * 1024, "b": 1024 * 1024}
    assert counts.written == {"c": 64 * 1024 * 4}


@st.composite
def plans(draw: st.DrawFn, limits: Limits) -> GemmPlan:
    """A product, tiled for memories of which some are scarce."""
    m, k, n = (draw(st.integers(1, 8)) * unit for unit in (16, 32, 32))
    scarce = replace(
        limits,
        l1=draw(st.sampled_from([4096, 16384, limits.l1])),
        l0a=draw(st.sampled_from([512, 2048, limits.l0a])),
        l0b=draw(st.sampled_from([1024, 4096, limits.l0b])),
        l0c=draw(st.sampled_from([2048, 16384, limits.l0c])),
    )
    try:
        return make_gemm_plan(GemmGeometry(m, k, n), scarce)
    except PlanError:
        assume(False)
        raise


@settings(max_examples=60)
@given(data=st.data(), seed=st.integers(0, 99))
def test_any_product_is_exact_and_moves_what_it_should(
    data: st.DataObject, seed: int, limits: Limits
) -> None:
    plan = data.draw(plans(limits))
    geometry = plan.geometry
    a, b = operands(geometry, seed)
    c, report = computed(plan, a, b)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))
    counts = report.counts
    assert counts.written == {"c": c.nbytes}
    assert counts.read == {"a": plan.blocks * a.size, "b": b.size}
    assert counts.moved[("L0C", "GM")] == c.nbytes
    assert counts.macs == geometry.macs
    work = plan.work
    assert (work.gm_l1, work.l0c_gm) == (sum(counts.read.values()), c.nbytes)
    assert work.l1_l0a == counts.moved[("L1", "L0A")]
    assert work.l1_l0b == counts.moved[("L1", "L0B")]
    assert (work.matmuls, work.fractals) == (counts.matmuls, counts.fractals)
    assert compiled(plan).counts == counts


@settings(max_examples=60)
@given(
    m=st.integers(1, 200),
    k=st.integers(1, 300),
    n=st.integers(1, 100),
    soc=st.sampled_from(sorted(SOCS)),
)
def test_every_plan_fits_the_memories_it_was_made_for(
    m: int, k: int, n: int, soc: str, limits_of: Callable[[str], Limits]
) -> None:
    limits = limits_of(soc)
    geometry = GemmGeometry(16 * m, 32 * k, 32 * n)
    plan = make_gemm_plan(geometry, limits)
    assert (plan.band_rows + plan.block_columns) * geometry.k <= limits.l1
    assert plan.tile_m * plan.step <= limits.l0a
    assert plan.step * plan.tile_n <= limits.l0b
    assert 4 * plan.tile_m * plan.tile_n <= limits.l0c
    for part, unit, whole in (
        (plan.tile_m, 16, plan.band_rows),
        (plan.band_rows, 16, geometry.m),
        (plan.tile_n, 32, plan.block_columns),
        (plan.block_columns, 32, geometry.n),
        (plan.step, 32, geometry.k),
    ):
        assert part % unit == whole % part == 0


SMALLEST = GemmGeometry(16, 64, 32)
MEMORIES = [
    ("l1", (16 + 32) * 64, "L1"),
    ("l0a", 16 * 32, "L0A"),
    ("l0b", 32 * 32, "L0B"),
    ("l0c", 4 * 16 * 32, "L0C"),
]


@pytest.mark.parametrize(("memory", "needed", "shown"), MEMORIES, ids=[memory for memory, *_ in MEMORIES])
def test_a_memory_that_is_too_small_by_a_byte(limits: Limits, memory: str, needed: int, shown: str) -> None:
    exact = make_gemm_plan(SMALLEST, replace(limits, **{memory: needed}))
    assert compiled(exact).counts.written == {"c": 16 * 32 * 4}
    with pytest.raises(PlanError) as caught:
        make_gemm_plan(SMALLEST, replace(limits, **{memory: needed - 1}))
    start = f"tiles of 16 x 32 need {needed} B of {shown}, which has {needed - 1}: 1 too many: "
    assert str(caught.value).startswith(start)


def test_a_depth_of_which_the_smallest_tile_does_not_fit_l1_is_refused(limits: Limits) -> None:
    assert make_gemm_plan(GemmGeometry(64, 10912, 64), limits).tile_m == 16
    with pytest.raises(
        PlanError, match=r"^tiles of 16 x 32 need 525312 B of L1, which has 524288: 1024 too many: "
    ):
        make_gemm_plan(GemmGeometry(64, 10944, 64), limits)


def test_no_tile_has_more_columns_than_a_store_takes(limits: Limits) -> None:
    roomy = replace(limits, l0b=2**20, l0c=2**20)
    plan = make_gemm_plan(GemmGeometry(16, 32, 4096), roomy)
    assert plan.tile_n == 2048
    assert compile_program(program_of(plan), SOCS["a5"]).counts.written == {"c": 16 * 4096 * 4}


@pytest.mark.parametrize("soc", ["a2a3", "a5"])
def test_both_socs_compute_the_same(soc: str, limits: Limits) -> None:
    geometry = GemmGeometry(48, 2080, 96)  # a sum of extremes passes 2**24
    a, b = operands(geometry, 5)
    c, report = computed(make_gemm_plan(geometry, limits), a, b, soc)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))
    assert c[0, 0] == 2080 * 128 * 128
    assert report_data(report)["gm_written_bytes"] == {"c": 48 * 96 * 4}
    assert "c: out 48x96 int32" in listing(report.program)


def test_the_cycles_of_a_product_are_those_of_the_cost_model(limits: Limits) -> None:
    """One 112 x 64 x 64 product: 62 cycles; 28,672 bytes of int32 leave L0C at 41 a cycle."""
    found = compiled(make_gemm_plan(GemmGeometry(112, 64, 64), limits)).estimate
    assert isinstance(found, Estimate)
    assert found.units["cube"] == 62
    assert found.units["fixpipe"] == pytest.approx(112 * 64 * 4 / 41)
    assert found.units["GM load"] == pytest.approx((112 + 64) * 64 / 78)
