"""How the data of each profile is made. Names, claims and seeds are in `golden.profiles`.

Where a claim is about the accumulators (full-range, edges, channels) the recipe looks at them: it convolves
with `golden.reference` and sets bias, scale and offset by what it finds, as the default variant requantises.
Other variants run on the same tensors; the claims are not made for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from golden import layout, vreq8
from golden.draw import Draw
from golden.geometry import C0, Conv, Geometry
from golden.reference import sums1, sums2
from golden.specs import Int8, Int32, Tensors, pair_specs

Recipe = Callable[[Geometry, Draw], Tensors]


@dataclass(frozen=True, eq=False)
class _Requant:
    """What follows a convolution: bias int32 [1, C], scales fp32 [C], offsets int64 [C]."""

    bias: Int32
    scales: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]

    def apply(self, sums: Int32) -> Int8:
        return cast(Int8, vreq8.requantise(sums + self.bias, vreq8.pack(self.scales, self.offsets)))


def small(geometry: Geometry, draw: Draw) -> Tensors:
    """Few small values, cycling biases and offsets; scales 1/16 and 1/32."""
    return _tensors(
        _drawn(draw, -3, 3, _shape(geometry, "x")),
        _drawn(draw, -2, 2, _shape(geometry, "filter1")),
        _cycling((-3, -2, -1, 0, 1, 2, 3), 1 / 16, (-1, 0, 1), geometry.cmid),
        _drawn(draw, -2, 2, _shape(geometry, "filter2")),
        _cycling((-2, -1, 0, 1, 2), 1 / 32, (1, 0, -1), geometry.cout),
    )


def full_range(geometry: Geometry, draw: Draw) -> Tensors:
    """All int8 values in x and filters; mid and y over the whole range, saturated at both ends."""
    x = _every_value(draw, _shape(geometry, "x"))
    filter1 = _every_value(draw, _shape(geometry, "filter1"))
    filter2 = _every_value(draw, _shape(geometry, "filter2"))
    return _fitted(geometry, draw, x, filter1, filter2, _spread)


def ties(geometry: Geometry, draw: Draw) -> Tensors:
    """Accumulators on .5: all of every even channel, by construction, and about half of every odd one.

    The scale is 1/2. Even channels have taps +-2 and an odd bias. Were all channels like that, mid would be
    even throughout (ties go to even) and y could not tell an offset from the next one; odd channels have taps
    +-1. So that little saturates, only some taps of an output channel are non-zero.
    """
    bias, offsets = (1, -2, -3, 0, 5, 3), (0, 1, -1, 2, -2)
    return _tensors(
        _drawn(draw, -2, 2, _shape(geometry, "x")),
        _sparse(draw, geometry.cin, geometry.cmid, geometry.conv1.kernel, count=144),
        _cycling(bias, 1 / 2, offsets, geometry.cmid),
        _sparse(draw, geometry.cmid, geometry.cout, geometry.conv2.kernel, count=8),
        _cycling(bias, 1 / 2, offsets, geometry.cout),
    )


def edges(geometry: Geometry, draw: Draw) -> Tensors:
    """Non-zero on the outermost rows and columns of x, everywhere there, and nowhere else."""
    image = _drawn(draw, 1, 255, _shape(geometry, "x")).reshape(-1, geometry.height, geometry.width, C0)
    image[:, 1:-1, 1:-1] = 0
    filter1 = _drawn(draw, -8, 8, _shape(geometry, "filter1"))
    filter2 = _drawn(draw, -8, 8, _shape(geometry, "filter2"))
    return _fitted(geometry, draw, image.reshape(-1, C0), filter1, filter2, _centred)


def channels(geometry: Geometry, draw: Draw) -> Tensors:
    """A scale and an offset of its own for every channel, the offsets from -256 to 255.

    float19 has 1024 scales an octave and offsets 512 values: with more channels than that they repeat.
    """
    x = _drawn(draw, -128, 127, _shape(geometry, "x"))
    filter1 = _drawn(draw, -32, 32, _shape(geometry, "filter1"))
    filter2 = _drawn(draw, -32, 32, _shape(geometry, "filter2"))
    return _fitted(geometry, draw, x, filter1, filter2, _own)


def impulse(row_parity: int, column_parity: int) -> Recipe:
    """A recipe of an x that is 1 in one channel of one pixel and 0 elsewhere; mid is the taps of filter1.

    The pixel is the one nearest the centre that reaches y and has the parities asked for (0 even, 1 odd);
    where a geometry reads none of those, the nearest one that reaches y. The taps that the impulse meets are
    non-zero and distinct within an output channel while there are at most 255 (int8 has no more): above that
    they repeat. Each output channel of conv2 looks at as few mid channels as it takes for all of them to be
    looked at, so its sums stay small; with kernels of 3 and equal channels they need no scaling, and y is the
    exact response.
    """

    def build(geometry: Geometry, draw: Draw) -> Tensors:
        row = _nearest_centre(geometry, geometry.height, row_parity)
        column = _nearest_centre(geometry, geometry.width, column_parity)
        channel = int(draw.integers(0, geometry.cin - 1, (1,))[0])
        x = np.zeros(_shape(geometry, "x"), np.int8)
        x[(channel // C0 * geometry.height + row) * geometry.width + column, channel % C0] = 1

        distance = (np.arange(geometry.cin) - channel) % geometry.cin
        filter1 = _distinct_taps(np.repeat(distance[:, None], geometry.cmid, axis=1), geometry.conv1.kernel)
        linked = min(geometry.cmid, geometry.cout)
        mid_channel, out_channel = np.arange(geometry.cmid)[:, None], np.arange(geometry.cout)[None, :]
        rank = np.where(mid_channel % linked == out_channel % linked, mid_channel // linked, -1)
        filter2 = _distinct_taps(rank, geometry.conv2.kernel)

        first = _cycling((0,), 1, (0,), geometry.cmid)
        sums = sums2(geometry, first.apply(sums1(geometry, x, filter1)), filter2)
        peak = max(1, int(np.abs(sums).max()))
        second = _cycling((0,), min(1, _power_of_two_up_to(127 / peak)), (0,), geometry.cout)
        return _tensors(x, filter1, first, filter2, second)

    return build


def _tensors(x: Int8, filter1: Int8, first: _Requant, filter2: Int8, second: _Requant) -> Tensors:
    return Tensors(
        x=x,
        filter1=filter1,
        bias1=first.bias,
        scales1=first.scales,
        offsets1=first.offsets,
        filter2=filter2,
        bias2=second.bias,
        scales2=second.scales,
        offsets2=second.offsets,
    )


def _fitted(
    geometry: Geometry,
    draw: Draw,
    x: Int8,
    filter1: Int8,
    filter2: Int8,
    fit: Callable[[Int32, Draw], _Requant],
) -> Tensors:
    """The pair on this data with both requantisations fitted to the sums they meet."""
    sums = sums1(geometry, x, filter1)
    first = fit(sums, draw)
    second = fit(sums2(geometry, first.apply(sums), filter2), draw)
    return _tensors(x, filter1, first, filter2, second)


def _spread(sums: Int32, draw: Draw) -> _Requant:
    """Outputs over the whole range: the ends are at about two standard deviations of most channels.

    One channel in 16 is pushed up until its largest sum saturates, and one down, so that both ends are
    reached however few outputs there are.
    """
    count = sums.shape[1]
    typical = _typical(sums)
    beyond = int(3.2 * typical)  # times 51 / typical is 163: past 127 and -128 by more than any offset below
    bias = draw.integers(-int(typical) // 2, int(typical) // 2, (count,))
    bias[3::16] = beyond - sums[:, 3::16].max(axis=0)
    bias[11::16] = -beyond - sums[:, 11::16].min(axis=0)
    # Finer than float19, so that it drops less than a half of some scales and more of others.
    scales = 51 / typical * draw.integers(2**20, 3 * 2**19, (count,)) / 2**20
    return _requant(bias, scales, draw.integers(-20, 20, (count,)))


def _centred(sums: Int32, draw: Draw) -> _Requant:
    """Outputs around 0, some 30 wide, hardly ever saturated; the bias keeps them off 0 where the sum is 0."""
    count = sums.shape[1]
    typical = _typical(sums)
    sign = 2 * draw.integers(0, 1, (count,)) - 1
    bias = sign * draw.integers(math.ceil(typical / 4), math.ceil(typical), (count,))
    scales = _power_of_two_up_to(40 / typical) * np.resize([1, 0.75, 0.625], count)
    return _requant(bias, scales, draw.integers(-2, 2, (count,)))


def _own(sums: Int32, draw: Draw) -> _Requant:
    """Scale and offset of a channel's own; its bias brings its median sum to an output within -48..48."""
    count = sums.shape[1]
    scales = _power_of_two_up_to(20 / _typical(sums)) * (1 + draw.shuffled(count) % 1024 / 1024)
    offsets = vreq8.OFFSET_MIN + draw.shuffled(count) * (vreq8.OFFSET_MAX - vreq8.OFFSET_MIN) // (count - 1)
    wanted = draw.integers(-48, 48, (count,))
    middle = sums.shape[0] // 2
    median = np.partition(sums, middle, axis=0)[middle]
    return _requant(np.rint((wanted - offsets) / scales) - median, scales, offsets)


def _cycling(bias: tuple[int, ...], scale: float, offsets: tuple[int, ...], count: int) -> _Requant:
    return _requant(np.resize(bias, count), np.full(count, scale), np.resize(offsets, count))


def _requant(bias: npt.ArrayLike, scales: npt.ArrayLike, offsets: npt.ArrayLike) -> _Requant:
    return _Requant(
        np.asarray(bias).astype(np.int32).reshape(1, -1),
        np.asarray(scales).astype(np.float32),
        np.asarray(offsets).astype(np.int64),
    )


def _typical(sums: Int32) -> float:
    """Mean size of the sums that are not 0, at least 1; from exact integers, so the same on every machine."""
    total = int(np.abs(sums.astype(np.int64)).sum())
    return max(1.0, total / max(1, int(np.count_nonzero(sums))))


def _power_of_two_up_to(value: float) -> float:
    return math.ldexp(0.5, math.frexp(value)[1])


def _shape(geometry: Geometry, name: str) -> tuple[int, ...]:
    return next(spec.shape for spec in pair_specs(geometry) if spec.name == name)


def _drawn(draw: Draw, low: int, high: int, shape: tuple[int, ...]) -> Int8:
    """Drawn int8 values; 128..255 stand for -128..-1."""
    return draw.integers(low, high, shape).astype(np.int8)


def _every_value(draw: Draw, shape: tuple[int, ...]) -> Int8:
    """Drawn int8 values with each of the 256 among them, evenly strewn, if there is room for so many."""
    values = _drawn(draw, -128, 127, shape)
    if values.size >= 256:
        values.reshape(-1)[:: values.size // 256][:256] = draw.shuffled(256) - 128
    return values


def _sparse(draw: Draw, cin: int, cout: int, kernel: int, count: int) -> Int8:
    """A filter [K, Cout] with `count` taps an output channel: +-2 in even ones, +-1 in odd ones.

    The taps run through the input channels in order and through the window from one round to the next, so
    that they are spread evenly and an output channel looks at even and odd input channels alike.
    """
    area = kernel**2
    count = min(count, cin * area)
    order = np.arange(cout * count)
    channel, out_channel = order % cin, order // count
    tap = draw.shuffled(area)[(order // cin + channel) % area]
    size = np.where(out_channel % 2 == 0, 2, 1)
    weights = np.zeros((cout, cin, kernel, kernel), np.int8)
    weights[out_channel, channel, tap // kernel, tap % kernel] = size * (
        2 * draw.integers(0, 1, order.shape) - 1
    )
    return layout.filter_to_matrix(weights)


def _distinct_taps(rank: npt.NDArray[np.int64], kernel: int) -> Int8:
    """A filter [K, Cout] with taps that differ within an output channel.

    An input channel of `rank` [Cin, Cout] 0 has the smallest taps, one of rank 1 the next, and so on; a
    negative rank leaves them 0. Values run 1, 2, -1, 3, -2, ... 127, -126, -127, -128 and then again: any
    first few of them have a sum above 0, so a constant image shows too.
    """
    values = np.array([1, *(v for i in range(1, 127) for v in (i + 1, -i)), -127, -128], np.int8)
    area = kernel**2
    # Neighbouring output channels start at another value, so that a swap of channels shows.
    turned = (np.arange(area)[:, None] + np.arange(rank.shape[1])) % area
    taps = values[(rank[:, None] * area + turned) % values.size] * (rank >= 0)[:, None]
    return layout.filter_to_matrix(taps.transpose(2, 0, 1).reshape(rank.shape[1], -1, kernel, kernel))


def _nearest_centre(geometry: Geometry, size: int, parity: int) -> int:
    """The row (or column, by `size`) of x nearest its middle that reaches y, of this parity if one does."""
    mid_size = geometry.conv1.out_size(size)
    outputs = np.arange(geometry.conv2.out_size(mid_size))
    read = _read(geometry.conv1, size, _read(geometry.conv2, mid_size, outputs))
    fitting = read[read % 2 == parity]
    candidates = fitting if fitting.size else read
    return int(candidates[np.abs(candidates - size // 2).argmin()])


def _read(conv: Conv, size: int, outputs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The input rows, ascending, that some window of these output rows covers."""
    rows = np.unique(outputs[:, None] * conv.stride - conv.padding + np.arange(conv.kernel))
    return rows[(rows >= 0) & (rows < size)]
