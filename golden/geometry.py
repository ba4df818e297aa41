"""The shapes of the shipped workloads, validated; all other packages use these types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Annotated, TypeVar

from golden.errors import UserError

C0 = 32
"""Channels of one int8 C0 block (NC1HWC0)."""

FRACTAL_ROWS = 16
"""Rows of a matrix in one fractal of the cube."""

OPTIONAL = MappingProxyType({"optional": True})
"""Metadata of a shape that may be left out; where it has its default, it is no part of a geometry's name."""

_SUM_LIMIT = 2**31
_IMAGE_LIMIT = 2**16 - 1
_CHANNEL_LIMIT = _IMAGE_LIMIT // C0 * C0
_TENSOR_LIMIT = 2**31


class GeometryError(UserError, ValueError):  # msgspec reports a ValueError as an error of what it decodes
    """A geometry breaks a rule; the message names the field, its value and the rule.

    `field` is that field, such as `cin` or `conv1.kernel`; `part` says which of several numbers is wrong,
    such as `top`.
    """

    def __init__(self, field: str, value: object, rule: str, part: str = "") -> None:
        super().__init__(f"{field}{part and f' ({part})'} is {value}: must be {rule}")
        self.field = field


def _require(holds: bool, field: str, value: object, rule: str, part: str = "") -> None:
    if not holds:
        raise GeometryError(field, value, rule, part)


def _check_size(field: str, value: int) -> None:
    _require(1 <= value <= _IMAGE_LIMIT, field, value, "1..65535 (16 bits)")


def _check_channels(field: str, value: int) -> None:
    rule = f"1..{_CHANNEL_LIMIT} (whole blocks of {C0} in 16 bits)"
    _require(1 <= value <= _CHANNEL_LIMIT, field, value, rule)


def _whole_blocks(channels: int) -> int:
    """Channels of whole C0 blocks that hold so many."""
    return -(-channels // C0) * C0


def _check_multiple(field: str, value: int, unit: int) -> None:
    _require(value > 0 and value % unit == 0, field, value, f"a positive multiple of {unit}")


Pair = tuple[int, int]
"""Rows and columns."""

Sides = tuple[int, int, int, int]
"""Top, bottom, left and right."""

DIRECTIONS = ("rows", "columns")
"""The directions of an image, in the order of a pair."""

SIDES = ("top", "bottom", "left", "right")
"""The edges of an image, in the order of the numbers of a padding."""

_Parts = TypeVar("_Parts", Pair, Sides)


def _normal(field: str, value: int | _Parts, parts: tuple[str, ...]) -> int | _Parts:
    """A value of a convolution as it is kept: one number if its parts are alike."""
    if isinstance(value, int):
        return value
    names = ", ".join(parts)
    _require(len(value) == len(parts), field, list(value), f"a whole number or {len(parts)}: {names}")
    return value[0] if len(set(value)) == 1 else value


@dataclass(frozen=True)
class Conv:
    """One convolution: kernel size, stride, zero padding and dilation, in pixels.

    Each is one number, or one for each direction or side; parts that are alike become one number. Dilation is
    the distance from one tap of a window to the next.

    Raises:
        GeometryError: a value has the wrong number of parts.
    """

    kernel: Annotated[int | Pair, "a whole number, or a list [rows, columns]"] = 3
    stride: Annotated[int | Pair, "a whole number, or a list [rows, columns]"] = 1
    padding: Annotated[int | Sides, "a whole number, or a list [top, bottom, left, right]"] = 1
    dilation: Annotated[int | Pair, "a whole number, or a list [rows, columns]"] = field(
        default=1, metadata=OPTIONAL
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", _normal("kernel", self.kernel, DIRECTIONS))
        object.__setattr__(self, "stride", _normal("stride", self.stride, DIRECTIONS))
        object.__setattr__(self, "padding", _normal("padding", self.padding, SIDES))
        object.__setattr__(self, "dilation", _normal("dilation", self.dilation, DIRECTIONS))

    @property
    def kernel_rows(self) -> int:
        """Rows of the kernel."""
        return self.kernel if isinstance(self.kernel, int) else self.kernel[0]

    @property
    def kernel_columns(self) -> int:
        """Columns of the kernel."""
        return self.kernel if isinstance(self.kernel, int) else self.kernel[1]

    @property
    def stride_rows(self) -> int:
        """Input rows from one output row to the next."""
        return self.stride if isinstance(self.stride, int) else self.stride[0]

    @property
    def stride_columns(self) -> int:
        """Input columns from one output column to the next."""
        return self.stride if isinstance(self.stride, int) else self.stride[1]

    @property
    def sides(self) -> Sides:
        """Padding at the top, bottom, left and right."""
        return (self.padding,) * 4 if isinstance(self.padding, int) else self.padding

    @property
    def dilation_rows(self) -> int:
        """Rows from one tap to the next."""
        return self.dilation if isinstance(self.dilation, int) else self.dilation[0]

    @property
    def dilation_columns(self) -> int:
        """Columns from one tap to the next."""
        return self.dilation if isinstance(self.dilation, int) else self.dilation[1]

    @property
    def window_rows(self) -> int:
        """Rows from the first to the last that a window reads: those of the kernel, and those between."""
        return (self.kernel_rows - 1) * self.dilation_rows + 1

    @property
    def window_columns(self) -> int:
        """Columns from the first to the last that a window reads."""
        return (self.kernel_columns - 1) * self.dilation_columns + 1

    @property
    def device(self) -> Conv:
        """What programs compute for it: a kernel with zeros between the taps; itself if there are none."""
        if self.dilation == 1:
            return self
        return Conv((self.window_rows, self.window_columns), self.stride, self.padding)

    @property
    def taps(self) -> int:
        """Pixels that a window reads."""
        return self.kernel_rows * self.kernel_columns

    def out_height(self, height: int) -> int:
        """Output rows for `height` input rows."""
        top, bottom, _, _ = self.sides
        return (height + top + bottom - self.window_rows) // self.stride_rows + 1

    def out_width(self, width: int) -> int:
        """Output columns for `width` input columns."""
        _, _, left, right = self.sides
        return (width + left + right - self.window_columns) // self.stride_columns + 1


def _same(one: Geometry | ConvGeometry, other: Geometry | ConvGeometry) -> bool:
    """Whether all fields are equal. The instances' own dictionaries may lack those that have a default."""
    return all(getattr(one, each.name) == getattr(other, each.name) for each in fields(one))


def _check_conv(field: str, conv: Conv, height: int, width: int) -> None:
    """Check one convolution of an image; `field` is its name in the geometry."""
    for name, value in (("kernel", conv.kernel), ("stride", conv.stride), ("dilation", conv.dilation)):
        for part, size in _parts(value, DIRECTIONS):
            _require(1 <= size <= 255, f"{field}.{name}", size, "1..255", part)
    for part, size in (("rows", conv.window_rows), ("columns", conv.window_columns)):
        _require(size <= 255, f"{field}.dilation", conv.dilation, f"small enough for windows of 255 {part}")
    square = isinstance(conv.device.kernel, int)
    what = "the kernel" if conv.dilation == 1 else "the window"
    for part, size in _parts(conv.padding if square else conv.sides, SIDES):
        vertical = part in SIDES[:2]
        kernel = conv.window_rows if vertical else conv.window_columns
        whose = what if square else f"{what}'s {DIRECTIONS[not vertical]}"
        _require(
            0 <= size < kernel, f"{field}.padding", size, f"at least 0 and below {whose} ({kernel})", part
        )
    # Padding is below the window at each side, so that each window overlaps the image. One that is no smaller
    # than the window has a tap of each; between those of a dilated window a smaller one can have a place.
    top, bottom, left, right = conv.sides
    for side, size, window, step, stride, before, after in (
        ("height", height, conv.window_rows, conv.dilation_rows, conv.stride_rows, top, bottom),
        ("width", width, conv.window_columns, conv.dilation_columns, conv.stride_columns, left, right),
    ):
        padding = before + after
        less = f" less the padding of both sides ({padding})" if padding else ""
        _require(size + padding >= window, f"{field} input {side}", size, f"at least {what} ({window}){less}")
        for first in range(-before, size + after - window + 1, stride) if size < window else ():
            met = any(0 <= tap < size for tap in range(first, first + window, step))
            rule = f"such that each window has a pixel: the one from {first} to {first + window - 1} has none"
            _require(met, f"{field} input {side}", size, rule)


def _check_sum(field: str, depth: int) -> None:
    """Check that sums of so many products fit int32, whatever is multiplied; `field` is the convolution."""
    worst = depth * 128 * 128
    _require(
        worst < _SUM_LIMIT,
        f"{field} worst sum",
        worst,
        "the kernel's rows*columns*channels*128*128 below 2**31 (int32)",
    )


def _check_tensors(sizes: Mapping[str, tuple[int, str, int, str]], *, packed: bool = False) -> None:
    """Check that an int32 can count the elements of each tensor.

    Args:
        sizes: of each tensor by its name: rows, what they are, columns, what they are.
        packed: whether these are not the user's numbers.
    """
    for name, (rows, of_rows, columns, of_columns) in sizes.items():
        value = f"{rows} {of_rows} x {columns} {of_columns}{', as the host packs it' if packed else ''}"
        rule = "fewer than 2**31 elements (offsets in GM are int32)"
        _require(rows * columns < _TENSOR_LIMIT, name, value, rule)


def _parts(value: int | Pair | Sides, names: tuple[str, ...]) -> list[tuple[str, int]]:
    """The numbers of a value, each with its name; one number has none."""
    return [("", value)] if isinstance(value, int) else list(zip(names, value, strict=True))


@dataclass(frozen=True)
class Geometry:
    """Shapes of `y = conv2(conv1(x))`, batch 1, in pixels and channels.

    Args:
        height, width: size of the input image.
        cin, cmid, cout: channels of x, mid and y.
        conv1, conv2: the two convolutions.

    Raises:
        GeometryError: a rule of the conv pair is broken.
    """

    height: int
    width: int
    cin: int
    cmid: int
    cout: int
    conv1: Conv
    conv2: Conv

    def __post_init__(self) -> None:
        _check_size("height", self.height)
        _check_size("width", self.width)
        _check_channels("cin", self.cin)
        _check_channels("cmid", self.cmid)
        _check_channels("cout", self.cout)
        _check_conv("conv1", self.conv1, self.height, self.width)
        _check_conv("conv2", self.conv2, self.mid_height, self.mid_width)
        self._check_amounts()

    def _check_amounts(self) -> None:
        """Check the sums of the user's geometry and the tensors of the device's."""
        _check_sum("conv1", self.depth1)
        _check_sum("conv2", self.depth2)
        device = self.device
        sizes = {
            "x": (device.height * device.width, "pixels", device.cin, "channels"),
            "filter1": (device.depth1, "of K", device.cmid, "channels"),
            "mid": (device.mid_height * device.mid_width, "pixels", device.cmid, "channels"),
            "filter2": (device.depth2, "of K", device.cout, "channels"),
            "y": (device.out_height * device.out_width, "pixels", device.cout, "channels"),
        }
        _check_tensors(sizes, packed=device is not self)

    @property
    def device(self) -> Geometry:
        """What programs compute for it, once the host has packed its tensors; itself if nothing is packed.

        The channels are whole C0 blocks, and no convolution is dilated.
        """
        packed = _PackedGeometry(
            self.height,
            self.width,
            _whole_blocks(self.cin),
            _whole_blocks(self.cmid),
            _whole_blocks(self.cout),
            self.conv1.device,
            self.conv2.device,
        )
        return self if _same(packed, self) else packed

    @property
    def mid_height(self) -> int:
        """Rows of mid."""
        return self.conv1.out_height(self.height)

    @property
    def mid_width(self) -> int:
        """Columns of mid."""
        return self.conv1.out_width(self.width)

    @property
    def out_height(self) -> int:
        """Rows of y."""
        return self.conv2.out_height(self.mid_height)

    @property
    def out_width(self) -> int:
        """Columns of y."""
        return self.conv2.out_width(self.mid_width)

    @property
    def depth1(self) -> int:
        """K of conv1 as a matrix product: kh * kw * cin."""
        return self.conv1.taps * self.cin

    @property
    def depth2(self) -> int:
        """K of conv2 as a matrix product."""
        return self.conv2.taps * self.cmid

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the pair."""
        conv1 = self.mid_height * self.mid_width * self.depth1 * self.cmid
        return conv1 + self.out_height * self.out_width * self.depth2 * self.cout


class _PackedGeometry(Geometry):
    """A pair as programs compute it. Its sums are those of the user's geometry, and terms of zeros."""

    def _check_amounts(self) -> None:
        """The user's are checked."""


@dataclass(frozen=True)
class ConvGeometry:
    """Shapes of one convolution with requantisation, int8 in and out, batch 1, in pixels and channels.

    Args:
        height, width: size of the input image.
        cin, cout: channels of x and y.
        conv: the convolution.
        groups: into which the channels of x and of y are divided; each group of y reads its group of x.
            Depthwise is as many groups as channels.

    Raises:
        GeometryError: a rule of a convolution is broken.
    """

    height: int
    width: int
    cin: int
    cout: int
    conv: Conv
    groups: int = field(default=1, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        _check_size("height", self.height)
        _check_size("width", self.width)
        _check_channels("cin", self.cin)
        _check_channels("cout", self.cout)
        divides = self.groups >= 1 and self.cin % self.groups == 0 == self.cout % self.groups
        _require(divides, "groups", self.groups, f"a divisor of cin ({self.cin}) and of cout ({self.cout})")
        _check_conv("conv", self.conv, self.height, self.width)
        self._check_amounts()

    def _check_amounts(self) -> None:
        """Check the sums of the user's geometry and the tensors of the device's."""
        _check_sum("conv", self.depth)
        device = self.device
        sizes = {
            "x": (device.height * device.width, "pixels", device.cin, "channels"),
            "filter": (device.depth, "of K", device.cout, "channels"),
            "y": (device.out_height * device.out_width, "pixels", device.cout, "channels"),
        }
        _check_tensors(sizes, packed=device is not self)

    @property
    def device(self) -> ConvGeometry:
        """What programs compute for it, once the host has packed its tensors; itself if nothing is packed.

        The channels are whole C0 blocks, in one group, and the convolution is not dilated.
        """
        cin, cout = _whole_blocks(self.cin), _whole_blocks(self.cout)
        packed = _PackedConvGeometry(self.height, self.width, cin, cout, self.conv.device)
        return self if _same(packed, self) else packed

    @property
    def out_height(self) -> int:
        """Rows of y."""
        return self.conv.out_height(self.height)

    @property
    def out_width(self) -> int:
        """Columns of y."""
        return self.conv.out_width(self.width)

    @property
    def depth(self) -> int:
        """K of the convolution as a matrix product: kh * kw * the channels of x that an output reads."""
        return self.conv.taps * (self.cin // self.groups)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the convolution."""
        return self.out_height * self.out_width * self.depth * self.cout


class _PackedConvGeometry(ConvGeometry):
    """A convolution as programs compute it; see `_PackedGeometry`."""

    def _check_amounts(self) -> None:
        """The user's are checked."""


@dataclass(frozen=True)
class GemmGeometry:
    """Shapes of a matrix product int8 [m, k] x int8 [k, n] -> int32 [m, n].

    Args:
        m: rows of a and c; a multiple of 16, the rows of a fractal.
        k: columns of a and rows of b; a multiple of 32, the int8 depth of a fractal.
        n: columns of b and c; a multiple of 32, since b lies in L1 in int8 fractals of 32 columns.

    Raises:
        GeometryError: a size is not such a multiple, or a sum could overflow int32.
    """

    m: int
    k: int
    n: int

    def __post_init__(self) -> None:
        _check_multiple("m", self.m, FRACTAL_ROWS)
        _check_multiple("k", self.k, C0)
        _check_multiple("n", self.n, C0)
        worst = self.k * 128 * 128
        _require(worst < _SUM_LIMIT, "k worst sum", worst, "k*128*128 below 2**31 (int32)")
        sizes = {"a": (self.m, self.k), "b": (self.k, self.n), "c": (self.m, self.n)}
        _check_tensors({name: (rows, "rows", columns, "columns") for name, (rows, columns) in sizes.items()})

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the product."""
        return self.m * self.k * self.n


MC62 = Geometry(288, 112, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
"""The reference geometry: x [1,64,288,112] -> mid [1,64,144,56] -> y [1,64,144,56]."""
