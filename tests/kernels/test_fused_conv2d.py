from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from emulator.counts import Estimate
from emulator.engine import Report, compile_program
from emulator.program import Program
from emulator.soc import SOCS, Space
from golden.conv_pair import DEFINITION
from golden.geometry import MC62, Conv, Geometry
from kernels.plan import Limits, Plan
from kernels.planner import tile_bands
from workloads.conv_pair import WORKLOAD
from workloads.tiling import CONTRACT

Compiled = Callable[[str, Plan], Report]
Computed = Callable[..., npt.NDArray[np.int8]]


@pytest.fixture(scope="module")
def mc62(limits: Limits, compiled: Compiled) -> Report:
    return compiled("fused", WORKLOAD.plan(MC62, limits, CONTRACT))


def test_mid_never_touches_gm(mc62: Report) -> None:
    """Proof of fusion: conv1's results go from L0C to L1 and from there to conv2 only."""
    counts = mc62.counts
    assert counts.read["mid"] == counts.written["mid"] == 0
    assert set(counts.read) == {"x", "filter1", "bias1", "scale1", "filter2", "bias2", "scale2"}
    assert set(counts.written) == {"y"}
    assert counts.moved[("L0C", "L1")] == 8 * 20 * 56 * 64  # every band's mid, halo included
    assert counts.moved[("L0C", "GM")] == 144 * 56 * 64  # y and nothing else
    assert not any("UB" in pair for pair in counts.moved)


def test_gm_bytes_of_mc62(mc62: Report) -> None:
    counts = mc62.counts
    assert counts.read["x"] == 2_351_104
    assert counts.read["filter1"] + counts.read["filter2"] == 73_728
    assert counts.written == {"y": 516_096}


def test_l1_residents_of_mc62(mc62: Report) -> None:
    memory = mc62.memory["fused"]
    bands = [tile for tile in memory.residents if tile.name == "feature_map"]
    mids = [tile for tile in memory.residents if tile.name == "mid"]
    assert {tile.type.size for tile in bands} == {293_888}
    assert {tile.type.size for tile in mids} == {71_680}
    assert len({tile.address for tile in bands}) == len({tile.address for tile in mids}) == 1
    staged = {tile.name: tile.type.size for tile in memory.residents if tile.type.space is Space.Mat}
    assert (staged["f1"], staged["f2"]) == (36_864, 36_864)
    assert staged["b1"] + staged["s1"] + staged["b2"] + staged["s2"] == 1_536
    assert memory.peak(Space.Mat) == 293_888 + 71_680 + 2 * 36_864 + 1_536


def test_the_last_bands_conv2_starts_one_row_in(limits: Limits) -> None:
    last = WORKLOAD.plan(MC62, limits, CONTRACT).bands[-1]
    assert last.mid.skip * MC62.out_width == 56


def test_work_of_mc62(mc62: Report) -> None:
    mid_halo = 8 * 20 - 144  # rows of mid that two bands compute
    assert mc62.counts.macs == 594_542_592 + mid_halo * 56 * 576 * 64


def test_estimate_of_mc62(mc62: Report) -> None:
    found = mc62.estimate
    assert isinstance(found, Estimate)
    assert found.units["cube"] == 88_704
    assert found.units["GM load"] == pytest.approx(31_100, rel=1e-3)
    assert mc62.counts.moved[("L1", "L0B")] / 128 == pytest.approx(43_800, rel=1e-3)


def test_a5_moves_the_same_and_has_no_estimate(
    mc62: Report, limits: Limits, build: Callable[[str, Plan], Program]
) -> None:
    report = compile_program(build("fused", WORKLOAD.plan(MC62, limits, CONTRACT)), SOCS["a5"])
    assert report.counts == mc62.counts
    assert report.estimate is None


def test_k_steps_of_288_would_take_78432_cycles(limits: Limits, compiled: Compiled) -> None:
    plan = WORKLOAD.plan(MC62, limits, CONTRACT)
    deep = replace(
        plan, conv1=replace(plan.conv1, step=288, steps=2), conv2=replace(plan.conv2, step=288, steps=2)
    )
    found = compiled("fused", deep).estimate
    assert isinstance(found, Estimate)
    assert found.units["cube"] == 78_432


PAIR = Geometry(48, 16, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))


@pytest.mark.parametrize(("padding", "skip"), [((1, 0, 1, 1), 1), ((1, 0, 1, 1), 0), ((0, 0, 1, 1), 0)])
def test_a_wrong_padding_in_the_last_band_shows_there_alone(
    limits: Limits, computed: Computed, padding: tuple[int, int, int, int], skip: int
) -> None:
    plan = tile_bands(PAIR, limits, 8)
    *others, last = plan.bands
    assert (last.mid.padding, last.mid.skip) == ((0, 1, 1, 1), 1)
    faulty = replace(last, mid=replace(last.mid, padding=padding, skip=skip))
    arrays: dict[str, Any] = DEFINITION.make("small", PAIR).arrays("vreq8")
    right = computed("fused", plan, arrays)
    wrong = computed("fused", replace(plan, bands=(*others, faulty)), arrays)
    rows = np.flatnonzero((right != wrong).any(axis=1)) // PAIR.out_width
    assert rows.size
    assert rows.min() >= last.row
