from __future__ import annotations

import pytest

from golden.geometry import MC62
from kernels.tensor.candidates import numbers
from kernels.tensor.plan import Capacities, Tiling, tiling_by_rule

KIB = 1024
START = tiling_by_rule(
    MC62, Capacities(l1=512 * KIB, l0a=64 * KIB, l0b=64 * KIB, l0c=128 * KIB, ub=192 * KIB)
)


def changed(program: str) -> list[set[str]]:
    """Of each number, the parts of a tiling in which its candidates differ from the start."""
    parts = ("conv1", "conv2", "spread_rows")
    return [
        {part for tiling in of_one(START) for part in parts if getattr(tiling, part) != getattr(START, part)}
        for of_one in numbers(program, MC62)
    ]


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        ("fused", [{"conv1", "spread_rows"}, {"conv1"}, {"conv2"}, {"conv2"}]),
        ("pass1", [{"conv1", "spread_rows"}, {"conv1"}]),
        ("pass2", [{"spread_rows"}, {"conv2"}, {"conv2"}]),
    ],
)
def test_a_number_changes_what_its_program_has_and_nothing_else(program: str, parts: list[set[str]]) -> None:
    assert changed(program) == parts


@pytest.mark.parametrize("program", ["fused", "pass1", "pass2"])
def test_candidates_are_cut_in_whole_tiles(program: str) -> None:
    for of_one in numbers(program, MC62):
        tilings: list[Tiling] = list(of_one(START))
        assert tilings
        for tiling in tilings:
            assert tiling.spread_rows > 0
            for product in (tiling.conv1, tiling.conv2):
                assert product.cube_rows % product.vec_rows == 0
                assert product.k_step % 32 == product.k_depth % product.k_step == 0
