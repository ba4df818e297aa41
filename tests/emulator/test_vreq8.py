from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.vreq8 import READINGS, ScaleError, requantise
from golden import vreq8 as golden


def value(acc: int, table: np.ndarray, variant: str, signed: bool) -> int:
    out = requantise(np.array([[acc]], np.int32), table, READINGS[variant])
    return int(out.view(np.int8 if signed else np.uint8)[0, 0])


def test_the_readings_are_the_variants() -> None:
    assert tuple(READINGS) == golden.VARIANTS


def test_the_given_cases(cases: Path) -> None:
    given_cases: list[dict[str, Any]] = json.loads((cases / "vreq8.json").read_text("utf-8"))["cases"]
    assert len(given_cases) > 40
    for case in given_cases:
        for variant in sorted(READINGS.keys() - {"fma", "exact"}):
            table = golden.pack([case["scale"]], [case["offset"]], signed=case["signed"], variant=variant)
            assert value(case["acc"], table, variant, case["signed"]) == case[variant], (case, variant)


scales = st.one_of(
    st.floats(-4, 4, width=32),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from([1 / 16, 1 / 32, -1 / 16, 0.1, 0.5, 1.0, 0.0]),
)
accs = st.one_of(
    st.integers(-(2**31), 2**31 - 1), st.integers(-600, 600), st.sampled_from([2**24 + 1, 8, 24])
)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.tuples(accs, scales, st.integers(-256, 255)), min_size=1, max_size=6),
    signed=st.booleans(),
    variant=st.sampled_from(golden.VARIANTS),
)
def test_the_two_readings_agree(rows: list[tuple[int, float, int]], signed: bool, variant: str) -> None:
    acc, scale, offset = (list(column) for column in zip(*rows, strict=True))
    try:
        table = golden.pack(scale, offset, signed=signed, variant=variant)
    except golden.Vreq8Error:
        return  # rounds to an infinite scale, which cannot be packed
    accumulators = np.array([acc, acc[::-1]], np.int32)
    expected = golden.requantise(accumulators, table, variant)
    actual = requantise(accumulators, table, READINGS[variant]).view(expected.dtype)
    np.testing.assert_array_equal(actual, expected)


def test_each_step_rounds_where_the_reading_says(
    rounding: tuple[int, float, int, Mapping[str, int]],
) -> None:
    acc, scale, offset, wanted = rounding
    table = golden.pack([scale], [offset])
    assert {variant: value(acc, table, variant, True) for variant in wanted} == wanted


@settings(max_examples=300)
@given(
    near=st.integers(-130, 260),
    step=st.integers(-3, 3),
    mantissa=st.integers(1024, 2047),
    exponent=st.integers(-46, -18),
    offset=st.integers(-256, 255),
    signed=st.booleans(),
    variant=st.sampled_from(["vreq8", "fma", "exact"]),
)
def test_near_a_tie_the_readings_agree_with_fractions(
    in_fractions: Callable[[int, float, int, str], int],
    near: int,
    step: int,
    mantissa: int,
    exponent: int,
    offset: int,
    signed: bool,
    variant: str,
) -> None:
    scale = mantissa * 2.0**exponent
    acc = round((near + 0.5 - offset) / scale) + step
    acc = min(max(acc, -(2**31)), 2**31 - 1)
    wanted = in_fractions(acc, scale, offset, variant)
    low, high = (-128, 127) if signed else (0, 255)
    table = golden.pack([scale], [offset], signed=signed)
    assert value(acc, table, variant, signed) == min(max(wanted, low), high)


def test_signed_and_unsigned_channels_may_stand_side_by_side() -> None:
    table = golden.pack([1.0, 1.0], [0, 0], signed=[True, False])
    out = requantise(np.array([[200, 200], [-200, -200]], np.int32), table, READINGS["vreq8"])
    assert out.view(np.uint8).tolist() == [[127, 200], [0x80, 0]]


@pytest.mark.parametrize(("bits", "shown"), [(0x7F800000, "inf"), (0xFF800000, "-inf"), (0x7FC00000, "nan")])
def test_a_scale_that_is_no_number_is_refused(bits: int, shown: str) -> None:
    table = golden.pack([1.0, 1.0], [0, 0])
    table[0, 1] |= np.uint64(bits)
    with pytest.raises(ScaleError, match=f"channel 1 of the scale table holds {shown}: must be finite"):
        requantise(np.zeros((1, 2), np.int32), table, READINGS["vreq8"])


@pytest.mark.parametrize("variant", READINGS)
@pytest.mark.parametrize("low_bits", [0x1000, 0x0800, 0x0400, 0x1FFF])
def test_a_scale_has_19_bits(variant: str, low_bits: int) -> None:
    """Bits 31..13 of an entry, 31..0 in scale32: 9 * 1479/2048 is below 6.5, and above with any more."""
    entry = 126 << 23 | (1479 - 1024) << 13 | low_bits | 1 << 46
    table = np.array([[entry]], np.uint64)
    assert value(9, table, variant, signed=True) == (7 if variant == "scale32" else 6)


def test_a_scale_has_all_of_its_19_bits() -> None:
    """0.5 * (1 + 2**-10): without its last bit the product is a tie, which goes to 0."""
    table = np.array([[126 << 23 | 1 << 13 | 1 << 46]], np.uint64)
    assert value(1, table, "vreq8", signed=True) == 1


@pytest.mark.parametrize("bit", range(13))
def test_none_of_the_other_bits_is_read(bit: int) -> None:
    """0.5 is a tie, which goes to 0; with any bit more it would go to 1."""
    table = np.array([[126 << 23 | 1 << bit | 1 << 46]], np.uint64)
    read = {variant: value(1, table, variant, signed=True) for variant in ("vreq8", "scale19-rne", "scale32")}
    assert read == {"vreq8": 0, "scale19-rne": 0, "scale32": 1}


@pytest.mark.parametrize(
    ("acc", "scale", "wanted"),
    [(1161179969, 1228 / 2**35, 42), (57588230, 2023 / 2**30, 109), (-17985625, 1791 / 2**32, -7)],
)
def test_the_product_is_that_of_the_accumulator_in_fp32(acc: int, scale: float, wanted: int) -> None:
    """By exact arithmetic, in `tests/golden/test_vreq8.py`: the int32's own product gives 41, 108, -8."""
    assert value(acc, golden.pack([scale], [0]), "vreq8", signed=True) == wanted
