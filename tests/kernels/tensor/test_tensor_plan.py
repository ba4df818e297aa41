from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.geometry import MC62, Conv, ConvGeometry, GemmGeometry, Geometry
from kernels.tensor.plan import (
    PLANS,
    PROGRAMS,
    Capacities,
    GemmTiling,
    Product,
    TilingError,
    conv_tiling,
    gemm_tiling,
    plan_path,
    read_plan,
    tiling_by_rule,
    tiling_for,
    write_plan,
)
from pipeline.commands.selection import read_matrix
from pipeline.ground.subject import geometry_of
from workloads.registry import workload_named

KIB = 1024
A2A3 = Capacities(l1=512 * KIB, l0a=64 * KIB, l0b=64 * KIB, l0c=128 * KIB, ub=192 * KIB)

channels = st.integers(1, 16).map(lambda blocks: 32 * blocks)


@given(
    height=st.integers(3, 300),
    width=st.integers(3, 200),
    cin=channels,
    cmid=channels,
    cout=channels,
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_tiles_by_rule_fit_the_memories(
    height: int, width: int, cin: int, cmid: int, cout: int, strides: tuple[int, int]
) -> None:
    convs = Conv(3, strides[0], 1), Conv(1, strides[1], 0)
    geometry = Geometry(height, width, cin, cmid, cout, *convs)
    tiling = tiling_by_rule(geometry, A2A3)

    assert_fits(tiling.conv1, geometry.depth1, cmid)
    assert_fits(tiling.conv2, geometry.depth2, cout)


def assert_fits(product: Product, depth: int, columns: int) -> None:
    left_rows = -(-product.cube_rows // 32) * 32  # as the compiler rounds them
    assert product.k_step % 32 == 0
    assert depth % product.k_depth == product.k_depth % product.k_step == 0
    assert product.cube_rows % product.vec_rows == 0
    assert left_rows * product.k_step <= A2A3.l0a
    assert product.k_step * columns <= A2A3.l0b
    assert left_rows * columns * 4 <= A2A3.l0c
    assert (left_rows + columns) * product.k_depth <= A2A3.l1
    assert product.vec_rows * columns * 4 * 4 <= A2A3.ub


@given(
    size=st.tuples(st.integers(5, 300), st.integers(5, 200)),
    cin=channels,
    cout=channels,
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
)
def test_tiles_of_one_convolution_fit_the_memories(
    size: tuple[int, int], cin: int, cout: int, kernel: int, stride: int
) -> None:
    geometry = ConvGeometry(*size, cin, cout, Conv(kernel, stride, kernel // 2))
    assert_fits(conv_tiling(geometry, A2A3), geometry.depth, cout)


@given(m=st.integers(1, 500), k=st.integers(1, 300), n=st.integers(1, 200))
def test_tiles_of_a_product_fit_the_memories(m: int, k: int, n: int) -> None:
    geometry = GemmGeometry(16 * m, 32 * k, 32 * n)
    tiling = gemm_tiling(geometry, A2A3)
    assert tiling.cube_rows % 32 == tiling.k_step % 32 == tiling.cube_columns % 32 == 0
    assert geometry.n % tiling.cube_columns == 0
    assert geometry.k % tiling.k_depth == tiling.k_depth % tiling.k_step == 0
    assert tiling.cube_rows * tiling.k_step <= A2A3.l0a
    assert tiling.k_step * tiling.cube_columns <= A2A3.l0b
    assert tiling.cube_rows * tiling.cube_columns * 4 <= A2A3.l0c
    assert (tiling.cube_rows + tiling.cube_columns) * tiling.k_depth <= A2A3.l1


def test_a_tiling_is_described_in_a_line() -> None:
    assert Product(cube_rows=96, k_step=288, k_depth=576, vec_rows=48).describe() == "96/48x288/576"
    assert GemmTiling(cube_rows=96, cube_columns=256, k_step=64, k_depth=512).describe() == "96x256x64/512"


def test_a_channel_count_that_fits_no_tile_is_refused() -> None:
    geometry = Geometry(8, 8, 32, 32, 2048, Conv(1, 1, 0), Conv(1, 1, 0))

    with pytest.raises(TilingError, match=r"^conv2: 2048 output channels: no tile of them fits"):
        tiling_by_rule(geometry, A2A3)


def test_what_fits_no_tile_of_the_other_workloads_is_refused() -> None:
    with pytest.raises(TilingError, match=r"^conv: 2048 output .*: no tile .*; fewer output channels help$"):
        conv_tiling(ConvGeometry(8, 8, 32, 2048, Conv(1, 1, 0)), A2A3)
    smallest = GemmGeometry(16, 32, 32)
    assert gemm_tiling(smallest, replace(A2A3, l0a=2048, l0b=2048, l0c=4096)).cube_rows == 32
    for memory, size in (("l0a", 2047), ("l0b", 2047), ("l0c", 4095)):
        with pytest.raises(
            TilingError,
            match=r"^gemm: .* needs 2048 B of L0A .* 4096 of L0C, .*; only larger memories help$",
        ):
            gemm_tiling(smallest, replace(A2A3, **{memory: size}))


def test_sums_of_a_product_beyond_the_framework_s_tensors_are_refused() -> None:
    """Its operands have a byte for each element, and a geometry bounds those."""
    with pytest.raises(TilingError) as caught:
        gemm_tiling(GemmGeometry(2**20, 32, 512), A2A3)
    rows = "1048576 rows of 2048 bytes"
    assert str(caught.value) == (
        f"c of gemm: {rows}: a tensor of CANN PyPTO holds 2147483647; a smaller geometry helps"
    )


def test_columns_beyond_the_framework_s_tensors_are_refused() -> None:
    with pytest.raises(TilingError, match=r"^columns of conv: 4194304 rows of 576 bytes: a tensor of CANN"):
        conv_tiling(ConvGeometry(2048, 2048, 64, 32, Conv(3, 1, 1)), A2A3)


def test_windows_beyond_the_framework_s_tensors_are_refused() -> None:
    geometry = Geometry(2048, 2048, 32, 64, 32, Conv(3, 1, 1), Conv(3, 1, 1))

    with pytest.raises(TilingError, match=r"^windows of conv2: .* holds 2147483647"):
        tiling_by_rule(geometry, A2A3)


def test_a_plan_file_reads_back_as_written(tmp_path: Path) -> None:
    start = tiling_by_rule(MC62, A2A3)
    tilings = {program: replace(start, spread_rows=number) for number, program in enumerate(PROGRAMS, 1)}
    write_plan(tmp_path / "plan.json", tilings)

    assert read_plan(tmp_path / "plan.json") == tilings


def test_a_plan_file_wins_over_the_rule() -> None:
    assert plan_path(MC62).name == "288x112-64-64-64-k3s2p1-k3s1p1.json"
    turned = replace(MC62, conv1=Conv((1, 7), (2, 1), (0, 0, 3, 3)))
    assert plan_path(turned).name == "288x112-64-64-64-k1x7s2x1p0x0x3x3-k3s1p1.json"
    dilated = replace(MC62, conv2=Conv(3, 1, 1, 2))
    assert plan_path(dilated).name == "288x112-64-64-64-k3s2p1-k3s1p1d2.json"
    searched = read_plan(plan_path(MC62))

    assert {program: tiling_for(program, MC62, A2A3) for program in PROGRAMS} == searched


def test_every_plan_file_is_that_of_a_pair_of_the_matrix() -> None:
    pairs = [each for each in read_matrix([]).geometries.values() if each.workload.name == "conv-pair"]
    workload = workload_named("conv-pair")
    known = {plan_path(geometry_of(workload, pair.shapes)) for pair in pairs}

    assert set(PLANS.glob("*.json")) <= known
