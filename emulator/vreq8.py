"""FIXPIPE's VREQ8 as the emulator reads it.

It is decoded here independently: the golden must agree with it without shared code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_SCALE_19_BITS = 0xFFFFE000
_SCALE_32_BITS = 0xFFFFFFFF
_MANTISSA_BITS = 11  # of a float19, with its leading one
_FP32_BITS = 24
_FRACTION_BITS = 44
"""Binary places that are kept of a product: one that has more is below 1/4 and decides nothing."""


class ScaleError(ValueError):
    """The scale of a table entry is NaN or infinite; the message names the channel."""


@dataclass(frozen=True)
class Reading:
    """How a platform reads table entries and rounds; the names are the variants of the requantisation."""

    scale_bits: int = _SCALE_19_BITS
    offset_signed: bool = True
    half_away: bool = False
    add_after_rounding: bool = False
    fused: bool = False
    exact: bool = False


READINGS: Mapping[str, Reading] = {
    "vreq8": Reading(),
    "round-then-add": Reading(add_after_rounding=True),
    "half-away": Reading(half_away=True),
    "offset-unsigned": Reading(offset_signed=False),
    "scale32": Reading(scale_bits=_SCALE_32_BITS),
    "scale19-rne": Reading(),  # differs only in how the table was packed
    "fma": Reading(fused=True),
    "exact": Reading(exact=True),
}


def requantise(
    acc: npt.NDArray[np.int32], table: npt.NDArray[np.uint64], reading: Reading
) -> npt.NDArray[np.generic]:
    """Requantise accumulators [M, N] with a table [1, N], as a reading does: by default every step in fp32.

    Returns the output values as int8 [M, N]; if bit 46 of an entry is 0, the bit pattern of the uint8 value.

    Raises:
        ScaleError: a scale is NaN or infinite.
    """
    value = rounded(acc, table, reading)
    entries = _decoded(table.tobytes(), reading)
    np.maximum(value, entries.low, out=value)
    np.minimum(value, entries.high, out=value)
    return value.astype(np.int16).astype(np.int8)


def rounded(
    acc: npt.NDArray[np.int32], table: npt.NDArray[np.uint64], reading: Reading
) -> npt.NDArray[np.float32 | np.float64]:
    """The value [M, N] before it is saturated: a whole number. Raises as `requantise`."""
    entries = _decoded(table.tobytes(), reading)
    if reading.exact:
        return _in_integers(acc.astype(np.int64), entries.scale, entries.offset, None)
    if reading.fused:
        wide = acc.astype(np.float32).astype(np.int64)
        return _in_integers(wide, entries.scale, entries.offset, _FP32_BITS)
    shift = entries.offset.astype(np.float32)
    value = acc.astype(np.float32)
    with np.errstate(over="ignore"):  # an infinite product saturates
        value *= entries.scale
    if reading.add_after_rounding:
        np.clip(value, -256, 255, out=value)
        np.rint(value, out=value)
        value += shift
    else:
        value += shift
        _round(value, reading.half_away)
    return value


@dataclass(frozen=True, eq=False)
class _Entries:
    """A table as a reading has it: for each channel a scale, an offset, the least and the largest output."""

    scale: npt.NDArray[np.float32]
    offset: npt.NDArray[np.int32]
    low: npt.NDArray[np.float32]
    high: npt.NDArray[np.float32]


@lru_cache(maxsize=16)
def _decoded(table: bytes, reading: Reading) -> _Entries:
    """The entries of a table, which serves many accumulators. Raises as `requantise`."""
    entries = np.frombuffer(table, np.uint64)
    scale = (entries & np.uint64(reading.scale_bits)).astype(np.uint32).view(np.float32)
    if not np.isfinite(scale).all():
        channel = int(np.argmin(np.isfinite(scale)))
        raise ScaleError(f"channel {channel} of the scale table holds {scale[channel]}: must be finite")
    offset = ((entries >> np.uint64(37)) & np.uint64(0x1FF)).astype(np.int32)
    if reading.offset_signed:
        offset = np.where(offset > 255, offset - 512, offset)
    signed = (entries >> np.uint64(46)) & np.uint64(1) == 1
    low = np.where(signed, np.float32(-128), np.float32(0))
    return _Entries(scale, offset, low, np.where(signed, np.float32(127), np.float32(255)))


def _round(value: npt.NDArray[np.float32], half_away: bool) -> None:
    """Round in place, ties to even or away from zero; never by adding 0.5, which rounds in fp32 itself."""
    if not half_away:
        np.rint(value, out=value)
        return
    whole = np.trunc(value)
    with np.errstate(invalid="ignore"):  # infinite: no fraction to round, and NaN >= 0.5 is false
        away = np.abs(value - whole) >= 0.5
    np.copyto(value, whole + np.where(away, np.copysign(np.float32(1), value), np.float32(0)))


def _in_integers(
    acc: npt.NDArray[np.int64],
    scale: npt.NDArray[np.float32],
    offset: npt.NDArray[np.int32],
    significant: int | None,
) -> npt.NDArray[np.float64]:
    """The sum acc * scale + offset, rounded to so many bits (None: not at all), then to a whole number.

    The scale is mantissa * 2**exponent; the sum is an integer of at most 53 bits, times 2**-places.
    """
    fraction, exponent = np.frexp(scale)
    mantissa, exponent = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64), exponent - _MANTISSA_BITS
    product = np.where(exponent < -_FRACTION_BITS, 0, acc * mantissa)
    places = np.clip(-exponent, 0, _FRACTION_BITS)
    # Ten places to the left are enough for any product but 0 to saturate.
    total = (product << np.clip(exponent, 0, 10)) + (offset.astype(np.int64) << places)
    if significant is not None:
        dropped = np.maximum(np.frexp(total.astype(np.float64))[1] - significant, 0)
        total = _half_to_even(total, dropped) << dropped
    return _half_to_even(total, places).astype(np.float64)


def _half_to_even(value: npt.NDArray[np.int64], places: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """The whole number nearest to value / 2**places, of two the even one."""
    whole: npt.NDArray[np.int64] = value >> places
    twice_the_rest, one = (value - (whole << places)) * 2, np.int64(1) << places
    whole += (twice_the_rest > one) | ((twice_the_rest == one) & (whole & 1 == 1))
    return whole
