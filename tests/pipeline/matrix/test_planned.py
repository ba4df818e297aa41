"""`list --plan`: how a job's geometry is tiled, what that needs and costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.soc import SOCS
from pipeline.matrix.load import load
from pipeline.matrix.planned import plan_of
from pipeline.matrix.schema import Matrix
from pipeline.matrix.select import FilterError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load([ROOT / "matrix.yaml"])


def test_the_plan_of_mc62_is_that_of_the_contract(matrix: Matrix) -> None:
    head, *lines = plan_of(matrix, "device/emu-a2a3/mc62/fused/small")
    assert head == "mc62 on a2a3:"
    assert "  bands: 8 of 18 output rows, with 20 rows of mid and 41 of x" in lines
    assert "  conv1: ACC tiles of 112 positions x 64 of 64 channels, 9 K steps of 64" in lines
    (l1,) = (line for line in lines if line.startswith("  L1: "))
    # Feature map, mid, two filters, 1,536 B of staged rows.
    assert l1.startswith(f"  L1: {293_888 + 71_680 + 2 * 36_864 + 1_536} of 524288 B: 293888 (x of 41 x 112")
    (fused,) = (line for line in lines if line.startswith("  estimated cycles of fused: "))
    assert fused.endswith("cube 88704")
    others = [line for line in lines if line.startswith("  also fits: ")]
    assert others
    assert all(", +" in line for line in others)
    # The contract's tiling is written; another one takes fewer cycles.
    assert lines[-1].startswith("  the planner's own choice: -")
    assert "conv1: ACC tiles of " in lines[-1]


def test_of_the_other_plans_that_fit_the_cheapest_are_told(matrix: Matrix) -> None:
    _, *lines = plan_of(matrix, "device/emu-a2a3/resnet18-56/fused/small")
    others = [line for line in lines if line.startswith("  also fits: ")]
    assert len(others) == 5
    costs = [float(line.rpartition(", ")[2].rstrip("%")) for line in others]
    assert costs == sorted(costs)
    assert not any("own choice" in line for line in lines)


def test_where_a_fusion_would_lose_the_plan_says_so(tmp_path: Path) -> None:
    lines = lines_of(
        tmp_path,
        "{height: 40, width: 120, cin: 64, cmid: 512, cout: 256, conv1: {kernel: 5, stride: 1, padding: 2}, "
        "conv2: {kernel: 11, stride: 1, padding: 5}}",
    )
    assert any(
        line.startswith("  estimated: fused takes ") and "more than two-pass" in line for line in lines
    )
    assert "  filters: streamed: each band brings them in" in lines
    assert any(
        line.startswith("  mid: by C1 planes: each ACC tile of conv2 has conv1 compute") for line in lines
    )


def test_what_is_written_is_what_is_planned(tmp_path: Path) -> None:
    lines = lines_of(
        tmp_path,
        "{height: 24, width: 16, cin: 64, cmid: 64, cout: 64, "
        "band_rows: 6, tile_positions1: 32, k_step1: 96, block_columns2: 32, "
        "conv1: {kernel: 3, stride: 2, padding: 1}, conv2: {kernel: 3, stride: 1, padding: 1}}",
    )
    assert any(line.startswith("  bands: 2 of 6 output rows") for line in lines)
    assert any(
        line.startswith("  conv1: ACC tiles of 32 positions x ") and "6 K steps of 96" in line
        for line in lines
    )
    assert any(" x 32 of 64 channels" in line for line in lines if line.startswith("  conv2: "))


def lines_of(folder: Path, geometry: str) -> list[str]:
    """The plan of the fused kernel for a geometry of an overlay."""
    overlay = folder / "overlay.yaml"
    overlay.write_text(
        f"geometries:\n  own: {geometry}\n"
        "lanes: {compile: {include: [{platforms: [emu-a2a3], geometries: [own], kernels: [fused]}]}}\n"
    )
    return plan_of(load([ROOT / "matrix.yaml", overlay]), "compile/emu-a2a3/own/fused")


def test_the_plan_says_how_the_host_packs(matrix: Matrix) -> None:
    _, first, *_ = plan_of(matrix, "device/emu-a2a3/mobilenet2-14-depthwise/conv/near-ties")
    assert first == "  packing: 96 groups as a block-diagonal filter; 96 times the products"


def test_a_packed_geometry_without_a_plan_is_refused_with_its_own_numbers(tmp_path: Path) -> None:
    (line,) = lines_of(
        tmp_path,
        "{height: 60, width: 12000, cin: 3, cmid: 40, cout: 64, conv1: {kernel: 3, stride: 1, padding: 1}, "
        "conv2: {kernel: 3, stride: 1, padding: 1}}",
    )
    assert line.startswith("own on a2a3: cannot be tiled: bands of 1 row")
    assert line.endswith(" it fits (packed: cin 3 -> 32, cmid 40 -> 64)")


def test_no_cycles_are_estimated_without_a_public_cost_model(matrix: Matrix) -> None:
    lines = plan_of(matrix, "device/emu-a5/mc62/fused/small")
    assert [line for line in lines if "cycles" in line] == [
        "  estimated cycles: unavailable: a5 has no public cost model; all bytes count the same"
    ]


def test_what_has_no_plan_is_refused_in_one_line(matrix: Matrix) -> None:
    with pytest.raises(FilterError, match="no line makes job `device/emu-a2a3/mc63/fused/small`"):
        plan_of(matrix, "device/emu-a2a3/mc63/fused/small")


def test_a_workload_without_an_account_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from dataclasses import replace\nfrom workloads.gemm import WORKLOAD as GEMM\n"
        'WORKLOAD = replace(GEMM, definition=replace(GEMM.definition, name="own"), account=None)\n'
    )
    overlay = tmp_path / "own.yaml"
    overlay.write_text(
        "workloads: {own: {file: own.py}}\n"
        "geometries: {own: {workload: own, m: 32, k: 64, n: 32}}\n"
        "lanes: {compile: {include: [{platforms: [emu-a2a3], geometries: [own], kernels: [gemm]}]}}\n"
    )
    with pytest.raises(FilterError, match=r"^workload own gives no account of its plans; name a job of"):
        plan_of(load([ROOT / "matrix.yaml", overlay]), "compile/emu-a2a3/own/gemm")


def test_the_plan_of_a_product_is_told(matrix: Matrix) -> None:
    head, *lines = plan_of(matrix, "device/emu-a2a3/gemm-128/gemm/small")
    assert head == "gemm-128 on a2a3:"
    # 128 x 128 sums of 4 B are half of L0C; all of K is one step of 16 KB of L0A and L0B.
    assert lines[:6] == [
        "  bands: 1 of 128 rows of a",
        "  blocks: 1 of 128 columns of b, for each of which a comes in",
        "  tiles: ACC tiles of 128 x 128, 1 K steps of 128",
        "  L1: 32768 of 524288 B: 16384 (rows of a) + 16384 (columns of b)",
        "  L0A: 16384 of 65536 B: 16384 (rows of a)",
        "  L0B: 16384 of 65536 B: 16384 (columns of b)",
    ]
    (cycles,) = (line for line in lines if line.startswith("  estimated cycles of gemm: "))
    # 8 x 4 x 8 fractals, and the cycles with which one matmul begins.
    assert cycles.endswith(f"cube {8 * 4 * 8 + SOCS['a2a3'].rates.matmul_start:.0f}")
    assert any(line.startswith("  also fits: tiles of 128 x 64, +") for line in lines)


def test_a_geometry_that_no_plan_fits_is_told_with_the_reason(tmp_path: Path) -> None:
    overlay = tmp_path / "wide.yaml"
    overlay.write_text(
        "geometries:\n"
        "  wide: {workload: conv, height: 9, width: 20000, cin: 32, cout: 32, "
        "conv: {kernel: 3, stride: 1, padding: 1}}\n"
        "lanes: {compile: {include: [{platforms: [emu-a2a3], geometries: [wide], kernels: [conv]}]}}\n"
    )
    (line,) = plan_of(load([ROOT / "matrix.yaml", overlay]), "compile/emu-a2a3/wide/conv")
    assert line.startswith("wide on a2a3: cannot be tiled: bands of 1 row")
    assert line.endswith("it fits")
