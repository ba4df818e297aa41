from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.diff.compare import FIRST_LIMIT, compare, digest, untouched
from pipeline.ground.results import Diff, Mismatch

WIDTH, BAND_ROWS, CHANNELS = 4, 3, 32
Rows = npt.NDArray[np.int8]


def golden_rows(rows: int = 8) -> Rows:
    values = np.arange(rows * WIDTH * CHANNELS) % 251 - 125
    return values.astype(np.int8).reshape(rows * WIDTH, CHANNELS)


def diff_of(
    actual: npt.NDArray[np.generic], golden: npt.NDArray[np.generic], sentinel: int | None = None
) -> Diff:
    return compare("y", actual, golden, width=WIDTH, band_rows=BAND_ROWS, sentinel=sentinel)


def test_equal_outputs_are_clean_and_both_hashes_are_recorded() -> None:
    golden = golden_rows()
    diff = diff_of(golden.copy(), golden)
    assert diff.clean
    assert (diff.count, diff.mismatches, diff.max_abs) == (1024, 0, 0)
    assert diff.actual_sha == diff.golden_sha == digest(golden)
    assert (diff.bands, diff.channels, diff.crcs) == ((), (), ())  # thousands of outputs are right


def test_an_output_with_wrong_elements_is_divided_into_bands_and_channels() -> None:
    golden = golden_rows()
    actual = golden.copy()
    actual[0, 0] += 1
    diff = diff_of(actual, golden)
    assert [band.name for band in diff.bands] == [
        "band 0 (first) rows 0..2",
        "band 1 (interior) rows 3..5",
        "band 2 (last) rows 6..7",
    ]
    assert [band.count for band in diff.bands] == [384, 384, 256]
    assert {channel.count for channel in diff.channels} == {32}


def test_a_digest_covers_dtype_shape_and_bytes() -> None:
    array = np.zeros((2, 3), np.int8)
    assert digest(array) == hashlib.sha256(b"|i1 (2, 3) " + bytes(6)).hexdigest()
    others = [np.zeros((3, 2), np.int8), np.zeros((2, 3), np.uint8), np.eye(2, 3, dtype=np.int8)]
    assert len({digest(each) for each in [array, *others]}) == 4
    assert digest(np.asfortranarray(np.eye(2, 3, dtype=np.int8))) == digest(np.eye(2, 3, dtype=np.int8))


@pytest.mark.parametrize(("actual", "expected"), [(127, -128), (-128, 127)])
def test_int8_differences_are_widened_before_subtracting(actual: int, expected: int) -> None:
    golden = np.full((WIDTH, CHANNELS), expected, np.int8)
    diff = diff_of(np.full_like(golden, actual), golden)
    assert diff.max_abs == 255
    assert diff.differences == ((actual - expected, WIDTH * CHANNELS),)


def test_int32_differences_are_widened_too() -> None:
    golden = np.full((WIDTH, CHANNELS), -(2**31), np.int32)
    assert diff_of(np.full_like(golden, 2**31 - 1), golden).max_abs == 2**32 - 1


def test_one_wrong_element_is_found_in_its_band_its_channel_and_its_place() -> None:
    golden = golden_rows()
    actual = golden.copy()
    actual[7 * WIDTH + 2, 5] += 3
    diff = diff_of(actual, golden)
    assert not diff.clean
    assert [(r.name, r.mismatches, r.max_abs) for r in diff.bands if r.mismatches] == [
        ("band 2 (last) rows 6..7", 1, 3)
    ]
    assert [(r.name, r.mismatches, r.max_abs) for r in diff.channels if r.mismatches] == [("channel 5", 1, 3)]
    expected = int(golden[7 * WIDTH + 2, 5])
    assert diff.first == (Mismatch((7, 2, 5), expected + 3, expected),)


@given(
    st.lists(
        st.tuples(st.integers(0, 31), st.integers(0, 31), st.integers(-128, 127)), min_size=1, max_size=60
    )
)
def test_every_table_sums_up_to_the_mismatches(edits: list[tuple[int, int, int]]) -> None:
    golden = golden_rows()
    actual = golden.copy()
    for pixel, channel, value in edits:
        actual[pixel, channel] = value
    wrong = {
        (int(m), int(c)): int(actual[m, c]) - int(golden[m, c])
        for m in range(32)
        for c in range(32)
        if actual[m, c] != golden[m, c]
    }
    diff = diff_of(actual, golden)
    assert diff.mismatches == len(wrong)
    assert diff.max_abs == max((abs(value) for value in wrong.values()), default=0)
    assert sum(band.mismatches for band in diff.bands) == len(wrong)
    assert sum(channel.mismatches for channel in diff.channels) == len(wrong)
    assert len(diff.first) == min(len(wrong), FIRST_LIMIT)
    assert [m.index for m in diff.first] == [(m // 4, m % 4, c) for m, c in sorted(wrong)][:FIRST_LIMIT]


def test_the_one_value_of_all_wrong_elements_is_found() -> None:
    golden = golden_rows()
    assert diff_of(np.zeros_like(golden), golden).single == 0
    assert diff_of(golden + np.int8(1), golden).single is None
    assert diff_of(golden, golden).single is None


def test_a_channel_has_a_checksum_of_what_the_output_holds_there() -> None:
    golden = golden_rows()
    one, two = golden.copy(), golden.copy()
    one[0, 0] = two[0, 0] = golden[0, 0] + 1
    two[3, 5] += 1
    sums = [diff_of(output, golden).crcs for output in (one, two)]
    assert [a != b for a, b in zip(*sums, strict=True)] == [channel == 5 for channel in range(CHANNELS)]


def test_elements_that_still_hold_the_sentinel_are_counted_where_they_are_wrong() -> None:
    golden = golden_rows()
    golden[-1, :3] = -86
    actual = golden.copy()
    actual[-1] = -86
    actual[0, 5] = -86  # by chance: its block was written
    assert diff_of(actual, golden, sentinel=-86).unwritten == CHANNELS - 3
    assert diff_of(actual, golden).unwritten == 0


def test_a_tile_that_ends_inside_an_image_row_is_compared_whole() -> None:
    golden = golden_rows(2)[: WIDTH + 2]
    diff = diff_of(~golden, golden)
    assert diff.mismatches == golden.size
    assert [(band.name, band.count) for band in diff.bands] == [("band 0 (only) rows 0..1", golden.size)]


@pytest.mark.parametrize(
    ("actual", "golden", "problem"),
    [
        (np.zeros((8, 32), np.uint8), np.zeros((8, 32), np.int8), "dtype is uint8, must be int8"),
        (
            np.zeros((4, 32), np.int8),
            np.zeros((8, 32), np.int8),
            "shape is [4, 32] (128 elements), must be [8, 32] (256)",
        ),
        (
            np.zeros((16, 16), np.int8),
            np.zeros((8, 32), np.int8),
            "shape is [16, 16] (256 elements), must be [8, 32] (256)",
        ),
        (
            np.zeros((0, 32), np.int8),
            np.zeros((0, 32), np.int8),
            "nothing to compare: the golden has no elements",
        ),
        (np.zeros(8, np.int8), np.zeros(8, np.int8), "the golden has shape [8]"),
        (np.zeros((8, 32), np.float32), np.zeros((8, 32), np.float32), "the golden is float32"),
    ],
)
def test_what_cannot_be_compared_is_said_and_never_clean(
    actual: npt.NDArray[np.generic], golden: npt.NDArray[np.generic], problem: str
) -> None:
    diff = diff_of(actual, golden)
    assert problem in diff.problem
    assert not diff.clean
    assert diff.mismatches == golden.size


WIDE_SENTINEL = -1431655766
"""0xAA in each byte of an int32."""


@pytest.mark.parametrize(("dtype", "sentinel", "block"), [(np.int8, -86, 32), (np.int32, WIDE_SENTINEL, 16)])
def test_a_block_that_was_never_written_is_as_wide_as_what_a_store_writes(
    dtype: type[np.generic], sentinel: int, block: int
) -> None:
    actual = np.zeros((3, 64), dtype)
    actual[0, :block] = sentinel
    actual[1, block : 2 * block] = sentinel
    actual[1, 2 * block - 1] = 0  # one element of the block was written
    actual[2, block // 2 : block // 2 + block] = sentinel  # across two blocks, each written in part
    expected = np.zeros(actual.shape, bool)
    expected[0, :block] = True
    assert np.array_equal(untouched(actual, sentinel), expected)
    assert not untouched(actual, None).any()


@given(st.integers(1, 80), st.data())
def test_a_whole_position_was_never_written_whatever_its_channels(channels: int, data: st.DataObject) -> None:
    actual = np.zeros((4, channels), np.int32)
    row = data.draw(st.integers(0, 3))
    actual[row] = WIDE_SENTINEL
    expected = np.zeros(actual.shape, bool)
    expected[row] = True
    assert np.array_equal(untouched(actual, WIDE_SENTINEL), expected)


def test_a_frame_of_one_column_has_a_row_a_position() -> None:
    golden = np.zeros((20, 32), np.int32)
    actual = golden.copy()
    actual[17, 3] = 1
    diff = compare("c", actual, golden, width=1, band_rows=16, sentinel=WIDE_SENTINEL)
    assert [(band.name, band.count, band.mismatches) for band in diff.bands] == [
        ("band 0 (first) rows 0..15", 16 * 32, 0),
        ("band 1 (last) rows 16..19", 4 * 32, 1),
    ]
    assert diff.first == (Mismatch((17, 3), 1, 0),)


@pytest.mark.parametrize("channels", [1, 3, 35])
def test_a_single_element_of_a_narrow_output_may_have_the_sentinels_value(channels: int) -> None:
    """What was cut off cannot tell: as many positions as make a block must have it."""
    actual = np.zeros((100, channels), np.int8)
    actual[7] = -86
    narrow = channels % 32
    assert not untouched(actual, -86)[:, -narrow:].any()
    actual[66:] = -86
    found = untouched(actual, -86)
    assert not found[:65].any(axis=1)[8:].any()
    assert found[-1].all()
    assert untouched(np.full_like(actual, -86), -86).all()
