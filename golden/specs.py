"""The tensors of a conv pair: what each must look like (specs) and the values of all inputs (tensors)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from golden import vreq8
from golden.errors import UserError
from golden.geometry import C0, Geometry

Array = npt.NDArray[np.generic]
Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]


class TensorsError(UserError):
    """The values of a pair's tensors break a rule; the message names the tensor and the channel."""


@dataclass(frozen=True)
class TensorSpec:
    """One tensor in GM: its name, shape, dtype, and whether the pair reads it ("in") or gives it ("out")."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    role: Literal["in", "out"]


def pair_specs(geometry: Geometry) -> tuple[TensorSpec, ...]:
    """The tensors of a pair, inputs first; `mid` stands as an output, though `pass2` reads it back."""
    int8, int32, uint64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.uint64)
    pixels = geometry.height * geometry.width
    mid_pixels = geometry.mid_height * geometry.mid_width
    out_pixels = geometry.out_height * geometry.out_width
    return (
        TensorSpec("x", (geometry.cin // C0 * pixels, C0), int8, "in"),
        TensorSpec("filter1", (geometry.depth1, geometry.cmid), int8, "in"),
        TensorSpec("bias1", (1, geometry.cmid), int32, "in"),
        TensorSpec("scale1", (1, geometry.cmid), uint64, "in"),
        TensorSpec("filter2", (geometry.depth2, geometry.cout), int8, "in"),
        TensorSpec("bias2", (1, geometry.cout), int32, "in"),
        TensorSpec("scale2", (1, geometry.cout), uint64, "in"),
        TensorSpec("mid", (mid_pixels, geometry.cmid), int8, "out"),
        TensorSpec("y", (out_pixels, geometry.cout), int8, "out"),
    )


@dataclass(frozen=True, eq=False)
class Tensors:
    """All inputs of a pair, in the layouts of `pair_specs`; scales in fp32, packed by `arrays`.

    Attributes:
        x: int8 [C1*H*W, C0].
        filter1, filter2: int8 [K, Cout].
        bias1, bias2: int32 [1, Cout].
        scales1, scales2: fp32 [Cout].
        offsets1, offsets2: integers [Cout], -256..255.

    Raises:
        TensorsError: where a bias could push a sum past int32, whatever the inputs, or a scale or an offset
            cannot be encoded.
    """

    x: Int8
    filter1: Int8
    bias1: Int32
    scales1: npt.NDArray[np.float32]
    offsets1: npt.NDArray[np.integer]
    filter2: Int8
    bias2: Int32
    scales2: npt.NDArray[np.float32]
    offsets2: npt.NDArray[np.integer]

    def __post_init__(self) -> None:
        _check_bias("bias1", self.bias1, self.filter1)
        _check_bias("bias2", self.bias2, self.filter2)
        _pack("scale1", self.scales1, self.offsets1, "vreq8")
        _pack("scale2", self.scales2, self.offsets2, "vreq8")

    def arrays(self, variant: str) -> dict[str, Array]:
        """The inputs by name as they lie in GM, scale tables packed as `variant` says.

        Raises:
            TensorsError: where a scale becomes infinite when rounded for the variant, or the variant is
                unknown.
        """
        scale1, scale2 = self.tables(variant)
        return {
            "x": self.x,
            "filter1": self.filter1,
            "bias1": self.bias1,
            "scale1": scale1,
            "filter2": self.filter2,
            "bias2": self.bias2,
            "scale2": scale2,
        }

    def tables(self, variant: str) -> tuple[vreq8.Table, vreq8.Table]:
        """The two packed scale tables, uint64 [1, Cout]; raises as `arrays` does."""
        return (
            _pack("scale1", self.scales1, self.offsets1, variant),
            _pack("scale2", self.scales2, self.offsets2, variant),
        )


def _check_bias(name: str, bias: Int32, taps: Int8) -> None:
    positive = np.maximum(taps, 0).sum(axis=0, dtype=np.int64)
    negative = np.minimum(taps, 0).sum(axis=0, dtype=np.int64)
    lowest = -(2**31) - (-128 * positive + 127 * negative)
    highest = 2**31 - 1 - (127 * positive - 128 * negative)
    values = bias.reshape(-1)
    bad = (values < lowest) | (values > highest)
    if bad.any():
        channel = int(bad.argmax())
        raise TensorsError(
            f"{name}: channel {channel}: bias is {values[channel]}: "
            f"must be {lowest[channel]}..{highest[channel]}, else some int8 input pushes the sum past int32"
        )


def _pack(
    name: str, scales: npt.NDArray[np.float32], offsets: npt.NDArray[np.integer], variant: str
) -> vreq8.Table:
    try:
        return vreq8.pack(scales, offsets, variant=variant)
    except vreq8.Vreq8Error as error:
        raise TensorsError(f"{name}: {error}") from error
