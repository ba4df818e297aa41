"""The shape of a conv pair, validated: the one contract every other room speaks in."""

from __future__ import annotations

from dataclasses import dataclass

C0 = 32
"""Channels of one int8 C0 block (NC1HWC0)."""

_SUM_LIMIT = 2**31
_IMAGE_LIMIT = 2**16 - 1


class GeometryError(ValueError):
    """A geometry breaks a rule of the conv pair; the message names the field, its value and the rule.

    `field` is that field, such as `cin` or `conv1.kernel`.
    """

    def __init__(self, field: str, value: int, rule: str) -> None:
        super().__init__(f"{field} is {value}: must be {rule}")
        self.field = field


def _require(holds: bool, field: str, value: int, rule: str) -> None:
    if not holds:
        raise GeometryError(field, value, rule)


@dataclass(frozen=True)
class Conv:
    """One square convolution: kernel size, stride and zero padding, in pixels, the same on all sides."""

    kernel: int = 3
    stride: int = 1
    padding: int = 1

    def out_size(self, size: int) -> int:
        """Output rows (or columns) for `size` input rows (or columns)."""
        return (size + 2 * self.padding - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Geometry:
    """Shapes of `y = conv2(conv1(x))`, batch 1, in pixels and channels.

    Args:
        height, width: size of the input image.
        cin, cmid, cout: channels of x, mid and y; multiples of 32.
        conv1, conv2: the two convolutions.

    Raises:
        GeometryError: where a rule of the conv pair is broken.
    """

    height: int
    width: int
    cin: int
    cmid: int
    cout: int
    conv1: Conv
    conv2: Conv

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            _require(
                1 <= getattr(self, name) <= _IMAGE_LIMIT, name, getattr(self, name), "1..65535 (16 bits)"
            )
        for name in ("cin", "cmid", "cout"):
            value = getattr(self, name)
            _require(value > 0 and value % C0 == 0, name, value, f"a positive multiple of {C0}")
        self._check_conv("conv1", self.conv1, self.height, self.width, self.cin)
        self._check_conv("conv2", self.conv2, self.mid_height, self.mid_width, self.cmid)

    @staticmethod
    def _check_conv(name: str, conv: Conv, height: int, width: int, channels: int) -> None:
        _require(1 <= conv.kernel <= 255, f"{name}.kernel", conv.kernel, "1..255")
        _require(1 <= conv.stride <= 255, f"{name}.stride", conv.stride, "1..255")
        _require(
            0 <= conv.padding < conv.kernel,
            f"{name}.padding",
            conv.padding,
            f"at least 0 and below the kernel ({conv.kernel})",
        )
        for side, size in (("height", height), ("width", width)):
            _require(
                size >= conv.kernel, f"{name} input {side}", size, f"at least the kernel ({conv.kernel})"
            )
        worst = conv.kernel**2 * channels * 128 * 128
        _require(
            worst < _SUM_LIMIT,
            f"{name} worst sum",
            worst,
            "kernel*kernel*channels*128*128 below 2**31 (int32)",
        )

    @property
    def mid_height(self) -> int:
        """Rows of mid."""
        return self.conv1.out_size(self.height)

    @property
    def mid_width(self) -> int:
        """Columns of mid."""
        return self.conv1.out_size(self.width)

    @property
    def out_height(self) -> int:
        """Rows of y."""
        return self.conv2.out_size(self.mid_height)

    @property
    def out_width(self) -> int:
        """Columns of y."""
        return self.conv2.out_size(self.mid_width)

    @property
    def depth1(self) -> int:
        """K of conv1 as a matrix product: C1 * kh * kw * C0."""
        return self.conv1.kernel**2 * self.cin

    @property
    def depth2(self) -> int:
        """K of conv2 as a matrix product."""
        return self.conv2.kernel**2 * self.cmid

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the pair."""
        conv1 = self.mid_height * self.mid_width * self.depth1 * self.cmid
        return conv1 + self.out_height * self.out_width * self.depth2 * self.cout


MC62 = Geometry(288, 112, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
"""The reference geometry: x [1,64,288,112] -> mid [1,64,144,56] -> y [1,64,144,56]."""
