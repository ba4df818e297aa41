from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.diff.compare import compare
from pipeline.diff.render import full, hint, verdict
from pipeline.ground.results import Diff


def diff_with(change: slice, channel: slice, by: int, sentinel: int | None = None) -> Diff:
    golden = np.zeros((12 * 4, 32), np.int8)
    actual = golden.copy()
    actual[change, channel] += by
    return compare("y", actual, golden, width=4, band_rows=3, sentinel=sentinel)


def test_a_clean_diff_says_how_many_elements_were_compared_and_both_hashes() -> None:
    diff = diff_with(slice(0), slice(None), 1)
    assert verdict(diff) == "y: 0 of 1536 elements differ"
    assert full(diff).splitlines() == [
        verdict(diff),
        f"  actual sha256 {diff.actual_sha}",
        f"  golden sha256 {diff.golden_sha}",
    ]


def test_a_fault_of_the_last_band_is_named_in_one_line() -> None:
    assert verdict(diff_with(slice(36, None), slice(None), -3)) == (
        "y: 384 of 1536 elements differ; max |diff| 3; "
        "only in band 3 (last) rows 9..11; every difference is -3"
    )


def test_a_fault_of_some_channels_and_unwritten_elements_are_named() -> None:
    line = verdict(diff_with(slice(None), slice(8, 10), -86, sentinel=-86))
    assert "in 2 of 32 channels: 8, 9" in line
    assert "never written" not in line
    assert "band" not in line
    assert "64 of them never written" in verdict(diff_with(slice(2), slice(None), -86, sentinel=-86))


def test_the_tables_show_the_worst_regions_and_say_how_many_more() -> None:
    text = full(diff_with(slice(36, None), slice(None), 1))
    assert "bands with mismatches: 1 of 4" in text
    assert "band 0" not in text
    assert "channels with mismatches: 32 of 32" in text
    assert "and 24 more" in text
    assert "actual - expected: +1 x 384" in text
    assert "(9, 0, 0): actual 1, expected 0" in text


def test_a_matrix_is_told_by_rows_and_columns() -> None:
    golden = np.zeros((20, 32), np.int32)
    actual = golden.copy()
    actual[17, 3:5] = 1
    text = full(compare("c", actual, golden, width=1, band_rows=20, sentinel=None))
    assert "in 2 of 32 columns: 3, 4" in text
    assert "  columns with mismatches: 2 of 32, the worst first\n    column 3  1 of 20" in text
    assert "  first 2 mismatches at (row, column)\n    (17, 3): actual 1, expected 0" in text
    assert "channel" not in text


def test_a_problem_is_the_verdict() -> None:
    golden = np.zeros((4, 32), np.int8)
    diff = compare("mid", golden[:2], golden, width=2, band_rows=1, sentinel=None)
    assert verdict(diff).startswith("mid: not comparable: shape is [2, 32]")


def test_facts_stand_in_the_line_and_are_the_hint() -> None:
    diff = diff_with(slice(None), slice(8, 10), 1)
    assert hint(diff) == "rounding: the platform's requantisation variant, or ties rounded differently"
    told = replace(diff, facts=("every wrong element is 1", "only the image's border is wrong"))
    assert verdict(told) == f"{verdict(diff)}; every wrong element is 1; only the image's border is wrong"
    assert hint(told) == "every wrong element is 1; only the image's border is wrong"


def test_an_output_held_against_another_stages_says_so() -> None:
    rows = np.zeros((4, 32), np.int8)
    diff = compare("y", rows, ~rows, width=2, band_rows=1, sentinel=None, against="fused")
    assert verdict(diff).startswith("y: 128 of 128 elements differ from that of fused; max |diff| 1;")
    assert f"  fused sha256 {diff.golden_sha}" in full(diff)
