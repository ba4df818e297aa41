"""The recipes for the data profiles of a chain of convolutions; `chain_profiles` has names and claims.

If a claim is about the accumulators (full-range, near-ties, edges, channels), the recipe computes them with
`golden.reference` and sets bias, scale and offset accordingly, for the requantisation of the default variant.
Other variants run on the same tensors; the claims do not cover them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from golden import layout, vreq8
from golden.chain import INPUT, Chain, Layer, image_of, sums_of
from golden.draw import Draw
from golden.geometry import C0, Conv
from golden.profiles import Profile
from golden.specs import Array, Int8, Int32

if TYPE_CHECKING:
    import numpy.typing as npt

Recipe = Callable[[Chain, Draw], Mapping[str, Array]]


@dataclass(frozen=True, eq=False)
class _Requant:
    """The requantisation of a convolution: bias int32 [1, C], scales fp32 [C], offsets int64 [C]."""

    bias: Int32
    scales: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]

    def apply(self, sums: Int32) -> Int8:
        return cast(Int8, vreq8.requantise(sums + self.bias, vreq8.pack(self.scales, self.offsets)))


_SMALL = (
    ((-3, -2, -1, 0, 1, 2, 3), 1 / 16, (-1, 0, 1)),
    ((-2, -1, 0, 1, 2), 1 / 32, (1, 0, -1)),
)
"""Bias, scale and offsets of the profile `small`, layer by layer."""

_TIES_TAPS = (144, 8)
"""Taps of an output channel in the profile `ties`, layer by layer; with so few, few outputs saturate."""

_NEAR_TAPS = (144, 72)
"""The same of the profile `near-ties`: more of them, as the image that a later layer reads hardly varies."""


def small(chain: Chain, draw: Draw) -> Mapping[str, Array]:
    """Few small values, cycling biases and offsets; scales 1/16 and 1/32."""
    x = _image(chain, lambda shape: draw.int8(-3, 3, shape))
    filters = [draw.int8(-2, 2, _filter(layer)) for layer in chain]
    requants = [_cycling(*cycle, layer.cout) for layer, cycle in zip(chain, _SMALL, strict=False)]
    return _named(chain, x, filters, requants)


def full_range(chain: Chain, draw: Draw) -> Mapping[str, Array]:
    """All int8 values in x and filters; each output covers the whole range and saturates at both ends."""
    x = _image(chain, draw.every_int8)
    filters = [draw.every_int8(_filter(layer)) for layer in chain]
    return _fitted(chain, draw, x, filters, _spread)


def ties(chain: Chain, draw: Draw) -> Mapping[str, Array]:
    """Accumulators on .5: all of every even channel, by construction, and about half of every odd one.

    The scale is 1/2. Even channels have taps +-2 and an odd bias. If all channels were like that, all values
    of mid would be even (ties go to even), and an offset that is off by one would not show in y. Therefore
    odd channels have taps +-1. Few taps of an output channel are non-zero, so that few outputs saturate.
    """
    x = _image(chain, lambda shape: draw.int8(-2, 2, shape))
    filters = [_sparse(draw, layer, count) for layer, count in zip(chain, _TIES_TAPS, strict=False)]
    requants = [_cycling((1, -2, -3, 0, 5, 3), 1 / 2, (0, 1, -1, 2, -2), layer.cout) for layer in chain]
    return _named(chain, x, filters, requants)


def near_ties(chain: Chain, draw: Draw) -> Mapping[str, Array]:
    """Accumulators so large, and so near a tie, that the roundings of fp32 decide many outputs.

    The values are few and the taps sparse: the sums of a channel lie close together, all near one tie.
    """
    x = _image(chain, lambda shape: draw.int8(-2, 2, shape))
    filters = [_sparse(draw, layer, count) for layer, count in zip(chain, _NEAR_TAPS, strict=False)]
    return _fitted(chain, draw, x, filters, _near)


def edges(chain: Chain, draw: Draw) -> Mapping[str, Array]:
    """All elements in the outermost rows and columns of x are non-zero; all others are 0."""
    x = _image(chain, lambda shape: draw.int8(1, 255, shape))
    image = x.reshape(-1, chain[0].height, chain[0].width, C0)
    image[:, 1:-1, 1:-1] = 0
    filters = [draw.int8(-8, 8, _filter(layer)) for layer in chain]
    return _fitted(chain, draw, x, filters, _centred)


def channels(chain: Chain, draw: Draw) -> Mapping[str, Array]:
    """Every channel has its own scale and its own offset; the offsets go from -256 to 255.

    float19 has 1024 scales in an octave, and an offset has 512 values: with more channels they repeat.
    """
    x = _image(chain, lambda shape: draw.int8(-128, 127, shape))
    filters = [draw.int8(-32, 32, _filter(layer)) for layer in chain]
    return _fitted(chain, draw, x, filters, _own)


def impulse(row_parity: int, column_parity: int) -> Recipe:
    """A recipe for an x that is 1 in one channel of one pixel and 0 elsewhere, to show the first filter.

    The pixel is the one nearest the centre that reaches the last output and has the given parities (0 even,
    1 odd). If no such pixel reaches it, the nearest one that does is taken. The taps that the impulse meets
    are non-zero. Up to 255 of them are distinct within an output channel; int8 has no more, so then they
    repeat. In later layers each output channel reads only as many input channels as are needed so that every
    input channel is read. Its sums stay small: with kernels of 3 and equal channels they need no scaling, and
    the output is the exact response.
    """

    def build(chain: Chain, draw: Draw) -> Mapping[str, Array]:
        first = chain[0]
        row = _nearest_centre([_rows_of(layer) for layer in chain], row_parity)
        column = _nearest_centre([_columns_of(layer) for layer in chain], column_parity)
        channel = int(draw.integers(0, first.cin - 1, (1,))[0])
        x = _image(chain, lambda shape: np.zeros(shape, np.int8))
        x[(channel // C0 * first.height + row) * first.width + column, channel % C0] = 1

        distance = (np.arange(first.reads) - channel) % first.reads
        filters = [_distinct_taps(np.repeat(distance[:, None], first.cout, axis=1), first.conv)]
        filters += [_distinct_taps(_linked(layer), layer.conv) for layer in chain[1:]]

        def fit(sums: Int32, draw: Draw) -> _Requant:
            peak = max(1, int(np.abs(sums).max()))
            return _cycling((0,), min(1, _power_of_two_up_to(127 / peak)), (0,), sums.shape[1])

        return _fitted(chain, draw, x, filters, fit)

    return build


def _linked(layer: Layer) -> npt.NDArray[np.int64]:
    """The rank [Cin, Cout] of each input channel that an output channel reads, -1 for the others."""
    linked = min(layer.reads, layer.cout)
    channel, out_channel = np.arange(layer.reads)[:, None], np.arange(layer.cout)[None, :]
    return np.where(channel % linked == out_channel % linked, channel // linked, -1)


def _named(
    chain: Chain, x: Int8, filters: Sequence[Int8], requants: Sequence[_Requant]
) -> Mapping[str, Array]:
    """The arrays of a chain by the names under which its tensors are kept."""
    return {INPUT: x, **dict(_of_layers(chain, filters, requants))}


def _of_layers(
    chain: Chain, filters: Sequence[Int8], requants: Sequence[_Requant]
) -> Iterator[tuple[str, Array]]:
    for layer, taps, requant in zip(chain, filters, requants, strict=True):
        yield layer.filter, taps
        yield layer.bias, requant.bias
        yield layer.scales, requant.scales
        yield layer.offsets, requant.offsets


def _fitted(
    chain: Chain, draw: Draw, x: Int8, filters: Sequence[Int8], fit: Callable[[Int32, Draw], _Requant]
) -> Mapping[str, Array]:
    """The arrays of a chain with this data; each requantisation is fitted to the sums of its layer."""
    rows, requants = image_of(chain, x), []
    for layer, taps in zip(chain, filters, strict=True):
        sums = sums_of(layer, rows, taps)
        requants.append(fit(sums, draw))
        rows = requants[-1].apply(sums)
    return _named(chain, x, filters, requants)


def _spread(sums: Int32, draw: Draw) -> _Requant:
    """Outputs over the whole range: the ends are at about two standard deviations of most channels.

    Of 16 channels, one is shifted up until its largest sum saturates and one is shifted down, so that both
    ends are reached even if there are few outputs.
    """
    count = sums.shape[1]
    typical = _typical(sums)
    beyond = int(3.2 * typical)  # times 51 / typical is 163: past 127 and -128 by more than any offset below
    bias = draw.integers(-int(typical) // 2, int(typical) // 2, (count,))
    up, down = (3, 11) if count > 11 else (0, count - 1)
    bias[up::16] = beyond - sums[:, up::16].max(axis=0)
    bias[down::16] = -beyond - sums[:, down::16].min(axis=0)
    # Finer than float19, so that it drops less than half a step of some scales and more than that of others.
    scales = 51 / typical * draw.integers(2**20, 3 * 2**19, (count,)) / 2**20
    return _requant(bias, scales, draw.integers(-20, 20, (count,)))


def _centred(sums: Int32, draw: Draw) -> _Requant:
    """Outputs around 0, about 30 wide, rarely saturated; the bias keeps them off 0 where the sum is 0."""
    count = sums.shape[1]
    typical = _typical(sums)
    sign = 2 * draw.integers(0, 1, (count,)) - 1
    bias = sign * draw.integers(math.ceil(typical / 4), math.ceil(typical), (count,))
    scales = _power_of_two_up_to(40 / typical) * np.resize([1, 0.75, 0.625], count)
    return _requant(bias, scales, draw.integers(-2, 2, (count,)))


def _own(sums: Int32, draw: Draw) -> _Requant:
    """A scale and an offset for each channel; the bias brings its median sum to an output within -48..48."""
    count = sums.shape[1]
    scales = _power_of_two_up_to(20 / _typical(sums)) * (1 + draw.shuffled(count) % 1024 / 1024)
    span = vreq8.OFFSET_MAX - vreq8.OFFSET_MIN
    offsets = vreq8.OFFSET_MIN + draw.shuffled(count) * span // max(1, count - 1)
    wanted = draw.integers(-48, 48, (count,))
    return _requant(np.rint((wanted - offsets) / scales) - _median(sums), scales, offsets)


def _near(sums: Int32, draw: Draw) -> _Requant:
    """The median sum of each channel near a tie in +-4.5..8.5, and a rounding of fp32 there.

    The channels go through three kinds. In the first the accumulator itself is rounded to the tie, and the
    offset is 0. In the second it is the sum of product and offset. In the third it is the product, which is
    larger than the output: the offset cancels the rest of it.
    """
    count = sums.shape[1]
    kind, middle = np.arange(count) % 3, _median(sums)
    # What is rounded to a tie lies within 2**power of it: about half of the sums, or fewer.
    power = min(max(2, int(_median(np.abs(sums - middle).reshape(-1, 1))[0]).bit_length() - 1), 5)
    below = draw.integers(4, 7, (count,))
    below = np.where(draw.integers(0, 1, (count,)) == 1, below, -1 - below)  # the tie is above it by 1/2
    cancelling = below - draw.integers(132, 156, (count,))
    offsets = np.select([kind == 0, kind == 1], [0, np.where(below < 0, below + 1, below)], cancelling)
    product = below + 0.5 - offsets
    scales = np.where(kind < 2, 2.0 ** -(22 + power), product / (1.75 * 2 ** (24 + power)))
    packed = vreq8.unpack(vreq8.pack(scales, offsets)).scale.astype(np.float64)
    acc = (product / packed).astype(np.float32).astype(np.float64)
    # The rounded product is a tie, which goes to the even side: the exact one shall be on the other.
    moved = (kind == 2) & (below % 2 != (acc * packed < product))
    # Off the tie by less than 2**power, to either side, also where all sums are alike.
    jitter = np.resize([-3, -1, 1, 3], count) * 2 ** (power - 2)
    return _requant(acc + jitter - middle, scales, offsets + moved)


def _cycling(bias: tuple[int, ...], scale: float, offsets: tuple[int, ...], count: int) -> _Requant:
    return _requant(np.resize(bias, count), np.full(count, scale), np.resize(offsets, count))


def _requant(bias: npt.ArrayLike, scales: npt.ArrayLike, offsets: npt.ArrayLike) -> _Requant:
    return _Requant(
        np.asarray(bias).astype(np.int32).reshape(1, -1),
        np.asarray(scales).astype(np.float32),
        np.asarray(offsets).astype(np.int64),
    )


def _median(sums: Int32) -> Int32:
    """The median sum of each channel, int32 [C]."""
    middle = sums.shape[0] // 2
    return cast(Int32, np.partition(sums, middle, axis=0)[middle])


def _typical(sums: Int32) -> float:
    """Mean magnitude of the non-zero sums, at least 1; from integers, so it is the same on every machine."""
    total = int(np.abs(sums.astype(np.int64)).sum())
    return max(1.0, total / max(1, int(np.count_nonzero(sums))))


def _power_of_two_up_to(value: float) -> float:
    return math.ldexp(0.5, math.frexp(value)[1])


def _image(chain: Chain, made: Callable[[tuple[int, ...]], Int8]) -> Int8:
    """The image that a chain reads, int8 [C1*H*W, C0].

    `made` gives the elements of whole C1 planes, and those of the channels of a last plane that has fewer.
    """
    first = chain[0]
    planes, pixels = -(-first.cin // C0), first.height * first.width
    if first.cin % C0 == 0:
        return made((planes * pixels, C0))
    real = np.zeros((planes, pixels, C0), bool)
    real[:-1], real[-1, :, : first.cin % C0] = True, True
    image = np.zeros((planes * pixels, C0), np.int8)
    image[real.reshape(image.shape)] = made((first.cin * pixels,))
    return image


def _filter(layer: Layer) -> tuple[int, int]:
    """Shape of a layer's filter."""
    return layer.depth, layer.cout


def _sparse(draw: Draw, layer: Layer, count: int) -> Int8:
    """A filter [K, Cout] with `count` taps an output channel: +-2 in even ones, +-1 in odd ones.

    The taps go through the input channels in order, and in each round to another place of the window, so that
    they are spread evenly and an output channel reads even and odd input channels alike.
    """
    cin, cout, conv = layer.reads, layer.cout, layer.conv
    area, columns = conv.taps, conv.kernel_columns
    count = min(count, cin * area)
    order = np.arange(cout * count)
    channel, out_channel = order % cin, order // count
    tap = draw.shuffled(area)[(order // cin + channel) % area]
    size = np.where(out_channel % 2 == 0, 2, 1)
    weights = np.zeros((cout, cin, conv.kernel_rows, columns), np.int8)
    weights[out_channel, channel, tap // columns, tap % columns] = size * (
        2 * draw.integers(0, 1, order.shape) - 1
    )
    return layout.filter_to_matrix(weights)


def _distinct_taps(rank: npt.NDArray[np.int64], conv: Conv) -> Int8:
    """A filter [K, Cout] with taps that differ within an output channel.

    An input channel whose `rank` [Cin, Cout] is 0 has the first values, one of rank 1 the next, and so on; a
    negative rank leaves the taps 0. The values are 1, 2, -1, 3, -2, ... 127, -126, -127, -128, then repeat.
    The sum of the first few is always above 0, so a constant image shows too.
    """
    values = np.array([1, *(v for i in range(1, 127) for v in (i + 1, -i)), -127, -128], np.int8)
    area = conv.taps
    # Neighbouring output channels start at different values, so that swapped channels show.
    turned = (np.arange(area)[:, None] + np.arange(rank.shape[1])) % area
    taps = values[(rank[:, None] * area + turned) % values.size] * (rank >= 0)[:, None]
    shape = rank.shape[1], -1, conv.kernel_rows, conv.kernel_columns
    return layout.filter_to_matrix(taps.transpose(2, 0, 1).reshape(shape))


@dataclass(frozen=True)
class _Lines:
    """The rows of a layer, or its columns: those of its input and output, and what its windows are there."""

    size: int
    out: int
    taps: range
    stride: int
    before: int


def _rows_of(layer: Layer) -> _Lines:
    conv = layer.conv
    taps = range(0, conv.window_rows, conv.dilation_rows)
    return _Lines(layer.height, layer.out_height, taps, conv.stride_rows, conv.sides[0])


def _columns_of(layer: Layer) -> _Lines:
    conv = layer.conv
    taps = range(0, conv.window_columns, conv.dilation_columns)
    return _Lines(layer.width, layer.out_width, taps, conv.stride_columns, conv.sides[2])


def _nearest_centre(layers: Sequence[_Lines], parity: int) -> int:
    """The input row (or column) nearest the middle that reaches the last output, of this parity if possible.

    Args:
        layers: the rows (or columns) of each layer.
        parity: 0 even, 1 odd.
    """
    read = np.arange(layers[-1].out)
    for lines in reversed(layers):
        read = _read(lines, read)
    fitting = read[read % 2 == parity]
    candidates = fitting if fitting.size else read
    return int(candidates[np.abs(candidates - layers[0].size // 2).argmin()])


def _read(lines: _Lines, outputs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The input rows (or columns), ascending, that some window of these output rows covers."""
    read = np.unique(outputs[:, None] * lines.stride - lines.before + np.array(lines.taps))
    return read[(read >= 0) & (read < lines.size)]


def chain_profiles(chain_of: Callable[[Any], Chain], suffixes: Sequence[str]) -> Mapping[str, Profile]:
    """The profiles of a workload that is a chain of convolutions, by name.

    Args:
        chain_of: the chain of a geometry.
        suffixes: the suffixes of its layers; they name the filters for which a claim has an exception.
    """
    first, *later = (f"filter{suffix}" for suffix in suffixes)

    def profile(claim: str, recipe: Recipe, exceptions: Mapping[str, str] | None = None) -> Profile:
        return Profile(claim, lambda geometry, draw: recipe(chain_of(geometry), draw), exceptions or {})

    unmet = {
        first: "taps of other input channels meet zeros only, and so do taps the stride steps over",
        **dict.fromkeys(
            later, "taps that conv2's stride never puts on a non-zero pixel of mid meet zeros only"
        ),
    }
    impulses = {
        f"impulse-{row}-{column}": profile(
            f"one non-zero input, on an {row} row and an {column} column: shows where every tap lands",
            impulse(row == "odd", column == "odd"),
            unmet,
        )
        for row in ("even", "odd")
        for column in ("even", "odd")
    }
    return {
        "small": profile("few small values: sums that can be followed by hand", small),
        "full-range": profile(
            "all int8 values; each output covers the whole range and saturates at both ends", full_range
        ),
        "ties": profile("most accumulators exactly on .5 and not saturated", ties),
        "near-ties": profile(
            "accumulators so large and so near a tie that the roundings of fp32 decide many outputs",
            near_ties,
        ),
        "edges": profile(
            "non-zero on the image border only",
            edges,
            {first: "taps that the stride never puts on the border meet zeros only"},
        ),
        **impulses,
        "channels": profile("every channel has its own scale and its own 9-bit offset", channels),
    }
