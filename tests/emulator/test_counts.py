from __future__ import annotations

import pytest

from emulator.counts import Counts, estimate, pair
from emulator.soc import SOCS, Space


def test_a_product_is_counted_in_fractals_and_macs() -> None:
    counts = Counts()
    counts.matmul(112, 64, 64)
    assert counts.fractals == 7 * 2 * 4
    assert counts.macs == 112 * 64 * 64
    counts.matmul(17, 33, 17)
    assert counts.fractals == 56 + 2 * 2 * 2


def test_a_112x64x64_step_takes_62_cycles() -> None:
    counts = Counts()
    counts.matmul(112, 64, 64)
    counts.operations["tile.matmul_acc"] += 1
    found = estimate(counts, SOCS["a2a3"])
    assert found is not None
    assert found.units["cube"] == 62


@pytest.mark.parametrize(
    ("source", "target", "rate", "unit"),
    [
        ("GM", Space.Mat, 78, "GM load"),
        (Space.Mat, Space.Left, 256, "L1 load"),
        (Space.Mat, Space.Right, 128, "L1 load"),
        (Space.Mat, Space.Bias, 19, "L1 load"),
        (Space.Mat, Space.LeftScale, 19, "L1 load"),
        (Space.Acc, Space.Mat, 74, "fixpipe"),
        (Space.Acc, "GM", 41, "fixpipe"),
    ],
)
def test_a_transfer_takes_its_bytes_at_the_published_rate(
    source: Space | str, target: Space | str, rate: int, unit: str
) -> None:
    counts = Counts()
    counts.moved[pair(source, target)] += 1000 * rate
    found = estimate(counts, SOCS["a2a3"])
    assert found is not None
    assert {name: cycles for name, cycles in found.units.items() if cycles} == {unit: 1000}
    assert found.serial == found.overlap == 1000


def test_units_are_summed_and_the_busiest_bounds_them() -> None:
    counts = Counts()
    counts.moved[pair("GM", Space.Mat)] += 7800
    counts.moved[pair(Space.Acc, "GM")] += 410
    found = estimate(counts, SOCS["a2a3"])
    assert found is not None
    assert (found.serial, found.overlap) == (110, 100)


def test_there_is_no_estimate_without_public_rates() -> None:
    counts = Counts()
    assert estimate(counts, SOCS["a5"]) is None
    counts.moved[pair("GM", Space.Vec)] += 1  # a2a3's rate of this pair is not in the table
    assert estimate(counts, SOCS["a2a3"]) is None
