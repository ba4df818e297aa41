from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from golden.vreq8 import VARIANTS, Vreq8Error, pack, requantise, unpack, unrounded

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
OFFSET = st.integers(-256, 255)
INT32 = st.integers(-(2**31), 2**31 - 1)
IN_INTEGERS = ("fma", "exact")
OTHERS = tuple(variant for variant in VARIANTS[1:] if variant not in IN_INTEGERS)


def before_rounding(acc: int, scale: float, offset: int, variant: str) -> float:
    values = unrounded(np.array([[acc]], np.int32), np.float32([scale]), np.array([offset]), variant)
    return float(values[0, 0])


def one(acc: int, scale: float, offset: int, variant: str = "vreq8", *, signed: bool = True) -> int:
    table = pack([scale], [offset], signed=signed, variant=variant)
    return int(requantise(np.array([[acc]], np.int32), table, variant)[0, 0])


@pytest.mark.parametrize("variant", ["vreq8", *OTHERS])
def test_given_cases(cases: Path, variant: str) -> None:
    rows = json.loads((cases / "vreq8.json").read_text())["cases"]
    assert len(rows) == 64
    wrong = [
        row
        for row in rows
        if one(row["acc"], row["scale"], row["offset"], variant, signed=row["signed"]) != row[variant]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("acc", "scale", "offset", "variant", "wanted"),
    [
        (8, 1 / 16, 0, "vreq8", 0),
        (24, 1 / 16, 0, "vreq8", 2),
        (8, 1 / 16, 1, "vreq8", 2),
        (8, 1 / 16, 1, "round-then-add", 1),
        (8, 1 / 16, -1, "vreq8", 0),
        (8, 1 / 16, -1, "round-then-add", -1),
        (15, 0.1, 0, "vreq8", 1),
        (15, 0.1, 0, "scale32", 2),
    ],
)
def test_worked_values_of_the_specification(
    acc: int, scale: float, offset: int, variant: str, wanted: int
) -> None:
    assert one(acc, scale, offset, variant) == wanted


def test_fields_stand_where_the_specification_says() -> None:
    assert int(pack([1.0], [-1])[0, 0]) == 0x3F80_0000 | 0x1FF << 37 | 1 << 46
    assert int(pack([-2.0], [5], signed=False)[0, 0]) == 0xC000_0000 | 5 << 37


def test_a_scale_is_truncated_to_float19_and_rounded_or_kept_where_the_variant_says() -> None:
    def scale(value: float, variant: str) -> float:
        return float(unpack(pack([value], [0], variant=variant)).scale[0])

    assert scale(0.1, "vreq8") == 0.0999755859375
    assert scale(0.3, "vreq8") == 1228 / 4096  # 0.3 * 4096 = 1228.8
    assert scale(0.3, "scale19-rne") == 1229 / 4096
    assert scale(0.3, "scale32") == np.float32(0.3)


@pytest.mark.parametrize(
    ("low_bits", "kept", "wanted"),
    [(0x0FFF, 0, 0), (0x1000, 0, 0), (0x1000, 1, 2), (0x1001, 0, 1), (0x1FFF, 1, 2)],
)
def test_rounding_to_float19_goes_to_nearest_and_on_ties_to_even(
    low_bits: int, kept: int, wanted: int
) -> None:
    bits = np.uint32(0x3F80_0000 | kept << 13 | low_bits)
    table = pack(bits[None].view(np.float32), [0], variant="scale19-rne")
    assert int(table[0, 0]) & 0xFFFF_FFFF == 0x3F80_0000 | wanted << 13


@given(st.lists(st.tuples(FINITE, OFFSET, st.booleans()), min_size=1, max_size=40))
def test_unpack_gives_back_what_was_packed(rows: list[tuple[float, int, bool]]) -> None:
    scales, offsets, signed = (list(column) for column in zip(*rows, strict=True))
    fields = unpack(pack(scales, offsets, signed=signed, variant="scale32"))
    assert fields.scale.tobytes() == np.array(scales, np.float32).tobytes()
    assert fields.offset.tolist() == offsets
    assert fields.signed.tolist() == signed


def test_each_step_rounds_where_the_variant_says(
    rounding: tuple[int, float, int, Mapping[str, int]], in_fractions: Callable[[int, float, int, str], int]
) -> None:
    acc, scale, offset, wanted = rounding
    assert {variant: one(acc, scale, offset, variant) for variant in wanted} == wanted
    assert {variant: in_fractions(acc, scale, offset, variant) for variant in wanted} == wanted


@given(
    st.one_of(INT32, st.integers(-4, 4)),
    st.one_of(FINITE, st.builds(lambda m, e: m * 2.0**e, st.integers(1024, 2047), st.integers(-46, -18))),
    OFFSET,
    st.one_of(st.none(), st.integers(-130, 260)),
    st.booleans(),
    st.sampled_from(["vreq8", *IN_INTEGERS]),
)
@example(-(2**31), 2047 * 2.0**-44, -256, None, True, "exact")
@example(2**31 - 1, 2047 * 2.0**-45, 255, None, True, "fma")
@example(1, 2.0**11, -256, None, True, "exact")
@example(-1, 1023 * 2.0**-149, 1, None, True, "exact")
def test_agrees_with_fractions(
    in_fractions: Callable[[int, float, int, str], int],
    acc: int,
    scale: float,
    offset: int,
    near: int | None,
    signed: bool,
    variant: str,
) -> None:
    """Also of accumulators as near to a tie as they can be: there a single bit decides."""
    held = float(unpack(pack([scale], [0])).scale[0])
    if near is not None and held and abs(tie := (near + 0.5 - offset) / held) < 2**31 - 4:
        acc = round(tie) + max(-3, min(acc, 3))
    assume(abs(acc * held) < 2.0**127)
    low, high = (-128, 127) if signed else (0, 255)
    wanted = min(max(in_fractions(acc, held, offset, variant), low), high)
    assert one(acc, scale, offset, variant, signed=signed) == wanted


@given(INT32, FINITE, OFFSET, st.booleans(), st.sampled_from(["vreq8", *OTHERS]))
@example(1, float(np.nextafter(np.float32(2.0**127 * (2 - 2.0**-11)), np.float32(0))), 0, True, "scale19-rne")
def test_agrees_with_exact_arithmetic_rounded_once_a_step(
    acc: int, scale: float, offset: int, signed: bool, variant: str
) -> None:
    # From halfway between the largest float19 and 2**128 on, rounding the scale would make it infinite.
    assume(variant != "scale19-rne" or abs(scale) < 2.0**127 * (2 - 2.0**-11))
    # Doubles hold the product and sum of two fp32 numbers closely enough that rounding them once more is one
    # fp32 step (the product exactly; the sum by the innocuous double rounding of 53 >= 2 * 24 + 2 bits).
    fields = unpack(pack([scale], [offset], signed=signed, variant=variant))
    with np.errstate(over="ignore"):
        product = float(np.float32(float(np.float32(acc)) * float(fields.scale[0])))
        added = offset % 512 if variant == "offset-unsigned" else offset
        if variant == "round-then-add":
            wanted = np.rint(min(max(product, -256.0), 255.0)) + added
        else:
            value = float(np.float32(product + added))
            if variant == "half-away" and abs(value) < 2**30:
                wanted = np.sign(value) * np.floor(abs(value) + 0.5)
            else:
                wanted = np.rint(value)
    low, high = (-128, 127) if signed else (0, 255)
    assert one(acc, scale, offset, variant, signed=signed) == min(max(wanted, low), high)


def test_half_away_does_not_round_up_just_below_a_half() -> None:
    just_below = float(np.nextafter(np.float32(0.5), np.float32(0)))
    table = pack([just_below], [0], variant="scale32")
    low_bits_dropped = table & ~np.uint64(0x1FFF)
    assert one(1, 0.5, 0, "half-away") == 1
    assert int(requantise(np.ones((1, 1), np.int32), low_bits_dropped, "half-away")[0, 0]) == 0


def test_accumulators_beyond_2_to_the_24_round_to_fp32_first() -> None:
    # 2**24 + 1 is no fp32 number: it becomes 2**24, so the result is 64 exactly and not the next value above.
    assert one(2**24 + 1, 2.0**-18, 0) == 64
    assert one(2**24 + 3, 1.0, -256) == 127


@pytest.mark.parametrize(
    ("acc", "fp32", "scale", "product", "wanted", "of_the_int32"),
    [
        # In fp32 the product is a tie; that of the int32 is beside it, in fp32 and in double.
        (1161179969, 1161180032, Fraction(1228, 2**35), Fraction(83, 2), 42, 41),
        (-560213152, -560213120, Fraction(1288, 2**36), Fraction(-21, 2), -10, -11),
        # In fp32 the product is beside a tie; that of the int32 rounds to it.
        (57588230, 57588232, Fraction(2023, 2**30), Fraction(217 * 2**16 + 1, 2**17), 109, 108),
        (-17985625, -17985624, Fraction(1791, 2**32), Fraction(-15 * 2**20 + 1, 2**21), -7, -8),
    ],
)
def test_the_product_is_that_of_the_accumulator_in_fp32(
    acc: int, fp32: int, scale: Fraction, product: Fraction, wanted: int, of_the_int32: int
) -> None:
    """By exact arithmetic: each step rounds to 24 bits, the last to a whole number, ties to even."""

    def in_24_bits(value: Fraction) -> Fraction:
        last = Fraction(2) ** (math.frexp(value)[1] - 24)
        return round(value / last) * last

    assert in_24_bits(Fraction(acc)) == fp32
    assert in_24_bits(fp32 * scale) == product
    assert round(product) == wanted
    assert round(in_24_bits(acc * scale)) == of_the_int32
    assert one(acc, float(scale), 0) == wanted
    assert one(acc, float(scale), 0, "offset-unsigned") == wanted
    assert one(acc, float(scale), 0, "round-then-add") == wanted


def test_channels_do_not_mix() -> None:
    acc = np.array([[8, 8, 8], [16, 16, 16]], np.int32)
    out = requantise(acc, pack([1 / 16, 1.0, -1.0], [1, 0, -3]))
    assert out.dtype == np.int8
    assert out.tolist() == [[2, 8, -11], [2, 16, -19]]


@pytest.mark.parametrize(
    ("scales", "offsets", "variant", "message"),
    [
        ([1.0, float("nan")], [0, 0], "vreq8", "channel 1: scale is nan: must be finite"),
        ([float("-inf"), 1.0], [0, 0], "vreq8", "channel 0: scale is -inf"),
        ([1e39], [0], "vreq8", "channel 0: scale is inf"),
        ([1.0, 3.4028235e38], [0, 0], "scale19-rne", "channel 1: scale is 3.4028"),
        (
            [2.0**127 * (2 - 2.0**-11)],
            [0],
            "scale19-rne",
            "channel 0: scale is 3.40",
        ),  # a tie, up to infinity
        ([1.0, 1.0], [0, 256], "vreq8", "channel 1: offset is 256: must be -256..255"),
        ([1.0], [-257], "vreq8", "channel 0: offset is -257"),
        ([1.0], [2**40], "vreq8", "channel 0: offset is 1099511627776"),
        ([1.0, 1.0], [0], "vreq8", "channel 1: has scale but no offset"),
        ([1.0], [0, 0, 0], "vreq8", "channel 1: has offset but no scale"),
        ([], np.zeros(0, np.int64), "vreq8", "no channels"),
        ([1.0], [0.5], "vreq8", "offsets of an integer type"),
        ([1.0], [0], "vreq9", "unknown variant 'vreq9'"),
    ],
)
def test_refuses_what_cannot_be_encoded(
    scales: list[float], offsets: list[int], variant: str, message: str
) -> None:
    with pytest.raises(Vreq8Error, match=message):
        pack(scales, offsets, variant=variant)


@pytest.mark.parametrize("bit", [*range(32, 37), *range(47, 64)])
def test_refuses_bits_outside_the_fields(bit: int) -> None:
    table = pack([1.0, 1.0], [0, 0])
    table[0, 1] |= np.uint64(1 << bit)
    with pytest.raises(Vreq8Error, match="channel 1: table entry"):
        unpack(table)


def test_refuses_tables_that_do_not_fit_the_accumulators() -> None:
    acc = np.zeros((4, 3), np.int32)
    table = pack([1.0] * 3, [0] * 3)
    with pytest.raises(Vreq8Error, match="channel 2: has accumulator but no table entry"):
        requantise(acc, table[:, :2])
    with pytest.raises(Vreq8Error, match="channel 3: has table entry but no accumulator"):
        requantise(acc, pack([1.0] * 4, [0] * 4))
    with pytest.raises(Vreq8Error, match="channel 1: bit 46"):
        requantise(acc, pack([1.0] * 3, [0] * 3, signed=[True, False, True]))
    with pytest.raises(Vreq8Error, match=r"channel 0: scale bits 12\.\.0"):
        requantise(acc, pack([0.1] * 3, [0] * 3, variant="scale32"))
    with pytest.raises(Vreq8Error, match=r"must be int32"):
        requantise(acc.astype(np.int64), table)  # type: ignore[arg-type]
    with pytest.raises(Vreq8Error, match=r"must be uint64 \[1, channels\]"):
        requantise(acc, table[0])
    with pytest.raises(Vreq8Error, match="unknown variant"):
        requantise(acc, table, "vreq9")
    inverted = table | np.uint64(0x7F80_0000)
    with pytest.raises(Vreq8Error, match="channel 0: scale is inf"):
        requantise(acc, inverted)


@pytest.mark.parametrize(
    ("acc", "offset", "variant", "value"),
    [
        (24, 1, "vreq8", 2.5),
        (24, 1, "half-away", 2.5),
        (24, -1, "offset-unsigned", 512.5),
        (24, 1, "round-then-add", 1.5),
        (16 * 300, 1, "round-then-add", 255.0),
        (24, 1, "fma", 2.5),
        (2**28 + 16, 0, "fma", 2.0**24),
        (2**28 + 16, 0, "exact", 2**24 + 1),
    ],
)
def test_what_is_rounded_is_what_the_variant_rounds(
    acc: int, offset: int, variant: str, value: float
) -> None:
    """By hand, of scale 1/16: the offset comes before rounding, save in round-then-add, which clips first."""
    assert before_rounding(acc, 1 / 16, offset, variant) == value
