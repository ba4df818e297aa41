"""VREQ8: the 64-bit table entry of a channel and the requantisation int32 -> int8 that follows it.

The format and the variants are those of the specification's page on the conv pair; field positions are
defined only here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from golden.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt

VARIANTS: tuple[str, ...] = (
    "vreq8",
    "round-then-add",
    "half-away",
    "offset-unsigned",
    "scale32",
    "scale19-rne",
    "fma",
    "exact",
)
"""How known toolchains read the table; the first is the default."""

OFFSET_MIN, OFFSET_MAX = -256, 255
"""The range of a 9-bit two's complement offset."""

_SCALE_BITS = 0xFFFF_FFFF
_SCALE_LOW_BITS = 0x1FFF  # the bits of an fp32 that float19 drops
_EXPONENT_BITS = 0x7F80_0000
_OFFSET_SHIFT = 37
_OFFSET_BITS = 0x1FF
_SIGNED_SHIFT = 46
_FIELD_BITS = _SCALE_BITS | _OFFSET_BITS << _OFFSET_SHIFT | 1 << _SIGNED_SHIFT

Floats: TypeAlias = "npt.NDArray[np.float32 | np.float64]"
Table: TypeAlias = "npt.NDArray[np.uint64]"


class Vreq8Error(UserError):
    """A table cannot be packed, read or applied; the message names the channel."""


@dataclass(frozen=True)
class Fields:
    """The fields of a table by channel: `scale` f32[C], `offset` int64[C], `signed` bool[C]."""

    scale: npt.NDArray[np.float32]
    offset: npt.NDArray[np.int64]
    signed: npt.NDArray[np.bool_]


def pack(
    scales: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    signed: bool | Sequence[bool] | npt.NDArray[np.bool_] = True,
    variant: str = "vreq8",
) -> Table:
    """Pack scales f32[C] and offsets int[C] into a table uint64[1, C].

    The scale is truncated to float19; `scale19-rne` rounds it to nearest even and `scale32` keeps all its
    bits.

    Args:
        scales: one fp32 scale for each channel.
        offsets: one integer in -256..255 for each channel.
        signed: whether the output is int8 (bit 46), one value for all channels or one for each.
        variant: one of `VARIANTS`.

    Raises:
        Vreq8Error: a scale is NaN or infinite (or becomes so by rounding), an offset does not fit 9 bits, the
            numbers of scales and offsets differ, or the variant is unknown.
    """
    _check_variant(variant)
    with np.errstate(over="ignore"):  # a value too large for fp32 becomes infinite and is refused below
        scale = np.asarray(scales, dtype=np.float32)
    offset = np.asarray(offsets)
    if scale.ndim != 1 or offset.ndim != 1 or not np.issubdtype(offset.dtype, np.integer):
        raise Vreq8Error(
            f"scales of shape {list(scale.shape)} and offsets of shape {list(offset.shape)}, {offset.dtype}: "
            "both must be one-dimensional, offsets of an integer type"
        )
    _check_channels(("scale", scale.size), ("offset", offset.size))
    _refuse(~np.isfinite(scale), "scale", scale, "finite")
    _refuse(
        (offset < OFFSET_MIN) | (offset > OFFSET_MAX),
        "offset",
        offset,
        f"{OFFSET_MIN}..{OFFSET_MAX} (9 bits)",
    )

    bits = scale.view(np.uint32).astype(np.uint64)
    if variant == "scale19-rne":
        half_to_even = (_SCALE_LOW_BITS >> 1) + (bits >> np.uint64(13) & np.uint64(1))
        bits = bits + half_to_even
        _refuse(bits & _EXPONENT_BITS == _EXPONENT_BITS, "scale", scale, "finite after rounding to float19")
    if variant != "scale32":
        bits = bits & ~np.uint64(_SCALE_LOW_BITS)
    bits |= (offset.astype(np.int64) & _OFFSET_BITS).astype(np.uint64) << np.uint64(_OFFSET_SHIFT)
    bits |= np.asarray(signed, dtype=np.uint64) << np.uint64(_SIGNED_SHIFT)
    return bits.reshape(1, -1)


def unpack(table: Table) -> Fields:
    """Read a table uint64[1, C] back into its fields, with all 32 bits of the scale.

    Raises:
        Vreq8Error: the shape or dtype is wrong, a bit outside the fields is set, a scale is NaN or infinite.
    """
    if table.ndim != 2 or table.shape[0] != 1 or table.dtype != np.uint64:
        raise Vreq8Error(f"table of shape {list(table.shape)}, {table.dtype}: must be uint64 [1, channels]")
    entries = table[0]
    _refuse(
        entries & ~np.uint64(_FIELD_BITS) != 0, "table entry", entries, "0 outside bits 31..0, 45..37 and 46"
    )
    scale = (entries & np.uint64(_SCALE_BITS)).astype(np.uint32).view(np.float32)
    _refuse(~np.isfinite(scale), "scale", scale, "finite")
    raw = (entries >> np.uint64(_OFFSET_SHIFT)).astype(np.int64) & _OFFSET_BITS
    signed = (entries >> np.uint64(_SIGNED_SHIFT) & np.uint64(1)).astype(np.bool_)
    return Fields(scale, np.where(raw > OFFSET_MAX, raw - (_OFFSET_BITS + 1), raw), signed)


def requantise(
    acc: npt.NDArray[np.int32], table: Table, variant: str = "vreq8"
) -> npt.NDArray[np.int8 | np.uint8]:
    """Requantise accumulators int32[N, C] to int8[N, C] (or uint8 where bit 46 is 0), every step in fp32.

    The default is `saturate(rne(f32(acc) * scale + f32(offset)))`; the other variants differ as the
    specification says. Two round less often: `fma` rounds product and sum together, once, to fp32, and
    `exact` rounds `acc * scale + offset` to a whole number only.

    Args:
        acc: accumulators, bias included.
        table: packed for this same variant, one entry a channel, all signed or all unsigned.
        variant: one of `VARIANTS`.

    Raises:
        Vreq8Error: the variant is unknown, the channel counts differ, `unpack` refuses the table, the table
            mixes signed and unsigned, or scale bits 12..0 are set for a variant other than `scale32`.
    """
    _check_variant(variant)
    fields = unpack(table)
    if acc.ndim != 2 or acc.dtype != np.int32:
        raise Vreq8Error(
            f"accumulators of shape {list(acc.shape)}, {acc.dtype}: must be int32 [rows, channels]"
        )
    _check_channels(("accumulator", acc.shape[1]), ("table entry", table.shape[1]))
    _refuse(fields.signed != fields.signed[:1], "bit 46", fields.signed, "the same in every channel")
    if variant != "scale32":
        low_bits = table[0] & np.uint64(_SCALE_LOW_BITS)
        _refuse(low_bits != 0, "scale bits 12..0", low_bits, "0 unless packed for scale32")

    rounded = unsaturated(acc, fields.scale, fields.offset, variant)
    kind: type[np.int8 | np.uint8] = np.int8 if fields.signed[0] else np.uint8
    limits = np.iinfo(kind)
    saturated: Floats = np.clip(rounded, limits.min, limits.max)
    return saturated.astype(kind)


def unsaturated(
    acc: npt.NDArray[np.int32], scale: Floats, offset: npt.NDArray[np.int64], variant: str
) -> Floats:
    """What `requantise` saturates: the rounded values of accumulators int32[N, C], as `unrounded` gives them.

    Args:
        acc: accumulators, bias included.
        scale: fp32 as a table for this variant holds it; anything that broadcasts to the accumulators' shape.
        offset: integers, broadcast likewise.
        variant: one of `VARIANTS`.
    """
    value = unrounded(acc, scale, offset, variant)
    if variant == "half-away":
        return _round_half_away(value)
    np.rint(value, out=value)
    return value + offset.astype(np.float32) if variant == "round-then-add" else value


def unrounded(
    acc: npt.NDArray[np.int32], scale: Floats, offset: npt.NDArray[np.int64], variant: str
) -> Floats:
    """The values that `unsaturated` rounds, fp32, or double if `exact`; same arguments.

    `round-then-add` adds no offset yet.
    """
    if variant == "exact":
        return _sum_in_double(acc, scale, offset)
    value = acc.astype(np.float32)
    with np.errstate(over="ignore"):  # an infinite product saturates, as it should
        if variant == "fma":
            return _sum_in_double(value, scale, offset).astype(np.float32)
        value *= scale
    if variant == "round-then-add":
        return np.clip(value, OFFSET_MIN, OFFSET_MAX)
    if variant == "offset-unsigned":
        offset = offset & _OFFSET_BITS
    value += offset.astype(np.float32)
    return value


def _sum_in_double(
    acc: npt.NDArray[np.int32 | np.float32], scale: Floats, offset: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """`acc * scale + offset`, exact as far as any later rounding can tell, for a float19 scale M * 2**E.

    M has 11 bits and acc at most 32, so the product is n * 2**E with |n| <= 2**42, which a double holds.
    Where -44 <= E <= 0, the sum is less than 2**53 times 2**E: exact. Where E < -44, the product is below
    1/4, and the sum, even rounded, rounds to the offset, as it must. Where E > 0, the sum is a whole number,
    exact unless it is so large that it saturates.
    """
    product = acc.astype(np.float64) * scale
    return product + offset


def _round_half_away(value: Floats) -> Floats:
    # Not trunc(value + 0.5): that sum itself rounds, and 0.49999997 would become 1.
    whole = np.trunc(value)
    with np.errstate(invalid="ignore"):  # infinities: their difference is NaN, and NaN >= 0.5 is false
        away = np.abs(value - whole) >= 0.5
    return whole + np.copysign(away.astype(np.float32), value)


def _check_variant(variant: str) -> None:
    if variant not in VARIANTS:
        raise Vreq8Error(f"unknown variant {variant!r}: known are {', '.join(VARIANTS)}")


def _check_channels(one: tuple[str, int], other: tuple[str, int]) -> None:
    if one[1] != other[1]:
        more, less = (one, other) if one[1] > other[1] else (other, one)
        raise Vreq8Error(
            f"channel {less[1]}: has {more[0]} but no {less[0]} ({one[1]} against {other[1]} channels): "
            "must have both"
        )
    if one[1] == 0:
        raise Vreq8Error("channel 0: missing, there are no channels at all: must be one or more")


def _refuse(bad: npt.NDArray[np.bool_], field: str, values: npt.NDArray[np.generic], rule: str) -> None:
    if bad.any():
        channel = int(bad.argmax())
        raise Vreq8Error(f"channel {channel}: {field} is {values[channel]}: must be {rule}")
