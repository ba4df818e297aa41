from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.geometry import MC62, Conv, Geometry
from kernels.tensor.plan import (
    PROGRAMS,
    Capacities,
    TilingError,
    plan_path,
    read_plan,
    tiling_by_rule,
    tiling_for,
    write_plan,
)

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

    for product, depth, columns in (
        (tiling.conv1, geometry.depth1, cmid),
        (tiling.conv2, geometry.depth2, cout),
    ):
        left_rows = -(-product.cube_rows // 32) * 32  # as the compiler rounds them
        assert product.k_step % 32 == 0
        assert depth % product.k_depth == product.k_depth % product.k_step == 0
        assert product.cube_rows % product.vec_rows == 0
        assert left_rows * product.k_step <= A2A3.l0a
        assert product.k_step * columns <= A2A3.l0b
        assert left_rows * columns * 4 <= A2A3.l0c
        assert (left_rows + columns) * product.k_depth <= A2A3.l1
        assert product.vec_rows * columns * 4 * 4 <= A2A3.ub


def test_a_channel_count_that_fits_no_tile_is_refused() -> None:
    geometry = Geometry(8, 8, 32, 32, 2048, Conv(1, 1, 0), Conv(1, 1, 0))

    with pytest.raises(TilingError, match=r"^conv2: 2048 output channels: no tile of them fits"):
        tiling_by_rule(geometry, A2A3)


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
    searched = read_plan(plan_path(MC62))

    assert {program: tiling_for(program, MC62, A2A3) for program in PROGRAMS} == searched
