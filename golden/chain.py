"""The golden of a chain of convolutions with VREQ8, each on the output of the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from golden import layout, vreq8
from golden.geometry import C0, Conv
from golden.reference import convolve
from golden.specs import Int8, Int32, Role, Tensors, TensorSpec
from golden.terms import Index, Sums, matrix, row

INPUT = "x"
"""The image that the first convolution reads."""


@dataclass(frozen=True)
class Layer:
    """One convolution of a chain, with its bias and requantisation.

    Attributes:
        height, width: size of its input image, in pixels.
        cin, cout: channels of its input and output.
        conv: kernel, stride, padding and dilation.
        suffix: suffix of the names of its filter, bias and table: its number, or empty.
        output: name of its output tensor.
        groups: into which its channels are divided; each group of the output reads its group of the input.
    """

    height: int
    width: int
    cin: int
    cout: int
    conv: Conv
    suffix: str
    output: str
    groups: int = 1

    @property
    def out_height(self) -> int:
        """Rows of its output."""
        return self.conv.out_height(self.height)

    @property
    def out_width(self) -> int:
        """Columns of its output."""
        return self.conv.out_width(self.width)

    @property
    def depth(self) -> int:
        """K of the convolution as a matrix product: kh * kw * the channels that an output channel reads."""
        return self.conv.taps * self.reads

    @property
    def reads(self) -> int:
        """Channels of its input that an output channel reads: those of its group."""
        return self.cin // self.groups

    def taps_and_channels(self, depths: Index) -> tuple[Index, Index]:
        """The tap, row by row, and the channel of its group that depths of its sums have.

        Depth runs as in the filter: (c1, kh, kw, c0), c0 fastest; the last C1 plane may have fewer channels.
        """
        area, whole = self.conv.taps, self.reads // C0
        plane = np.minimum(depths // (area * C0), whole)
        channels = np.where(plane < whole, C0, self.reads % C0 or C0)  # of the plane
        tap, within = np.divmod(depths - plane * (area * C0), channels)
        return tap, plane * C0 + within

    @property
    def name(self) -> str:
        """How a geometry names it: `conv`, with its number if there are several."""
        return f"conv{self.suffix}"

    @property
    def filter(self) -> str:
        """Name of its filter."""
        return f"filter{self.suffix}"

    @property
    def bias(self) -> str:
        """Name of its bias row."""
        return f"bias{self.suffix}"

    @property
    def scale(self) -> str:
        """Name of its table."""
        return f"scale{self.suffix}"

    @property
    def scales(self) -> str:
        """Name under which the scales of its table are kept."""
        return f"scales{self.suffix}"

    @property
    def offsets(self) -> str:
        """Name under which the offsets of its table are kept."""
        return f"offsets{self.suffix}"


Chain = Sequence[Layer]
"""Convolutions in their order; the output of each is the input of the next."""


@dataclass(frozen=True, eq=False)
class Computed:
    """The results of a chain by the name of each layer's output, all as NHWC rows [H*W, C].

    `sums` are the int32 accumulators with bias, `outputs` the int8 images.
    """

    sums: Mapping[str, Int32]
    outputs: Mapping[str, Int8]


def specs_of(chain: Chain) -> tuple[TensorSpec, ...]:
    """The tensors of a chain: the image, each layer's filter, bias and table, then the outputs."""
    first = chain[0]
    planes = -(-first.cin // C0)
    specs = [
        TensorSpec(INPUT, (planes * first.height * first.width, C0), "int8", Role.IMAGE, channels=first.cin)
    ]
    for layer in chain:
        specs += [
            TensorSpec(layer.filter, (layer.depth, layer.cout), "int8", Role.FILTER),
            TensorSpec(layer.bias, (1, layer.cout), "int32", Role.BIAS, of=layer.filter),
            TensorSpec(layer.scale, (1, layer.cout), "uint64", Role.TABLE),
        ]
    outputs = (
        TensorSpec(layer.output, (layer.out_height * layer.out_width, layer.cout), "int8", Role.OUTPUT)
        for layer in chain
    )
    return (*specs, *outputs)


def terms_of(chain: Chain) -> tuple[Sums, ...]:
    """What the sums of a chain hold: a block for each group of each layer, a column for each channel."""
    images = [INPUT, *(layer.output for layer in chain)]
    return tuple(
        _sums(layer, image, group)
        for layer, image in zip(chain, images, strict=False)
        for group in range(layer.groups)
    )


def _sums(layer: Layer, image: str, group: int) -> Sums:
    """What the sums of one group of a layer hold."""
    columns = layer.cout // layer.groups
    first = group * columns
    return Sums(
        (layer.out_height * layer.out_width, layer.depth, columns),
        left=(image, _windows(layer, group, in_planes=image == INPUT)),
        right=(layer.filter, matrix(layer.cout, first)),
        result=(layer.output, matrix(layer.cout, first)),
        bias=(layer.bias, partial(row, first=first)),
        table=(layer.scale, partial(row, first=first)),
    )


def _windows(layer: Layer, group: int, *, in_planes: bool) -> Callable[[Index, Index], Index]:
    """The pixels that the windows of a layer's group cover, in an image of C1 planes or of NHWC rows."""
    conv, height, width, first = layer.conv, layer.height, layer.width, group * layer.reads
    unit, plane = (C0, height * width * C0) if in_planes else (layer.cin, C0)
    bits = 32 if height * width * (layer.cin + C0) < 2**31 else 64  # 32 are much faster
    kind, outside = np.dtype(f"int{bits}"), -(2 ** (bits - 1))  # negative with any offset added
    (top, _, left, _), taps = conv.sides, np.arange(conv.taps)
    tap_row, tap_column = np.divmod(taps, conv.kernel_columns)
    tap_row, tap_column = tap_row * conv.dilation_rows, tap_column * conv.dilation_columns

    def elements(positions: Index, depths: Index) -> Index:
        down = (positions // layer.out_width * conv.stride_rows - top)[:, None] + tap_row
        right = (positions % layer.out_width * conv.stride_columns - left)[:, None] + tap_column
        inside = (down >= 0) & (down < height) & (right >= 0) & (right < width)
        pixels = np.where(inside, (down * width + right) * unit, outside).astype(kind)
        tap, channel = layer.taps_and_channels(depths)
        c1, c0 = np.divmod(first + channel, C0)
        found: Index = pixels[:, tap] + (c1 * plane + c0).astype(kind)
        return found

    return elements


def compute(chain: Chain, tensors: Tensors, variant: str = "vreq8") -> Computed:
    """Compute a chain on `tensors`, exact to the bit, requantised as `variant` says.

    Raises:
        TensorsError: the scales cannot be packed for the variant, or the variant is unknown.
        TorchError: torch is missing or broken.
    """
    tables = [tensors.table(layer.scale, variant) for layer in chain]
    rows = image_of(chain, tensors[INPUT])
    sums: dict[str, Int32] = {}
    outputs: dict[str, Int8] = {}
    for layer, table in zip(chain, tables, strict=True):
        sums[layer.output] = sums_of(layer, rows, tensors[layer.filter]) + tensors[layer.bias]
        rows = outputs[layer.output] = cast(Int8, vreq8.requantise(sums[layer.output], table, variant))
    return Computed(sums, outputs)


def image_of(chain: Chain, x: Int8) -> Int8:
    """The image of a chain, converted from NC1HWC0 to NHWC rows [H*W, C]."""
    first = chain[0]
    return np.ascontiguousarray(layout.nc1hwc0_to_nhwc(x, first.height, first.width)[:, : first.cin])


def sums_of(layer: Layer, rows: Int8, taps: Int8) -> Int32:
    """Sums of a layer without bias, int32 [Hout*Wout, Cout], from its input as NHWC rows and its filter."""
    return convolve(rows, layer.height, layer.width, taps, layer.conv, layer.groups)
