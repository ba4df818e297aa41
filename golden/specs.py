"""The tensors of a workload: what each must look like (specs) and the values of all inputs (tensors)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from golden import vreq8
from golden.errors import UserError
from golden.geometry import C0

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[np.generic]"
Int8: TypeAlias = "npt.NDArray[np.int8]"
Int32: TypeAlias = "npt.NDArray[np.int32]"


class TensorsError(UserError):
    """The values of a workload's tensors break a rule; the message names the tensor and the channel."""


class Role(str, Enum):
    """What a tensor is for."""

    IMAGE = "image"
    """An int8 image in NC1HWC0."""
    MATRIX = "matrix"
    """A plain matrix, row by row."""
    FILTER = "filter"
    """The int8 taps of a convolution, [K, Cout]."""
    BIAS = "bias"
    """An int32 row that is added to the sums of a filter."""
    TABLE = "table"
    """A row of VREQ8 table entries. Its name begins with `scale`; it is kept as scales and offsets."""
    OUTPUT = "output"
    """An output of the workload; a later program may read it back."""


class _Dtype:
    """A field that takes a dtype or its name, and gives the dtype: NumPy is needed only when it is read."""

    def __get__(self, spec: object, owner: object = None) -> np.dtype[np.generic]:
        if spec is None:
            raise AttributeError  # there is no default
        given: np.dtype[np.generic] | str = vars(spec)["dtype"]
        return np.dtype(given)

    def __set__(self, spec: object, given: np.dtype[np.generic] | str) -> None:
        vars(spec)["dtype"] = given


@dataclass(frozen=True)
class TensorSpec:
    """One tensor in GM: its name, shape, dtype and role; `of` names the filter whose sums a bias is added to.

    A dtype may be given by its name. `channels` are those of an image whose last C1 plane has fewer than C0:
    the rest of it is 0. With 0 channels an image is taken as it is.

    Raises:
        TensorsError: the name of a table does not begin with `scale`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: _Dtype = _Dtype()
    role: Role  # type: ignore[misc]  # mypy takes the descriptor before it for a default
    of: str = ""
    channels: int = 0

    def __post_init__(self) -> None:
        if self.role is Role.TABLE and not self.name.startswith("scale"):
            raise TensorsError(f"table {self.name}: the name of a table must begin with `scale`")

    @property
    def parts(self) -> tuple[str, str]:
        """The names under which a table's fp32 scales and integer offsets are kept, such as `scales1`."""
        return self.name.replace("scale", "scales", 1), self.name.replace("scale", "offsets", 1)


@dataclass(frozen=True, eq=False)
class Tensors:
    """The values of all inputs of a workload, in the layouts of its specs.

    Attributes:
        specs: the specs of the workload's tensors; outputs among them are ignored.
        values: an array for each input by its name. A table is kept unpacked, as fp32 scales [Cout] and
            integer offsets [Cout] under the names of `TensorSpec.parts`, and is packed by `arrays`.

    Raises:
        TensorsError: an array is missing or has another shape or dtype; an image is not 0 in channels that it
            does not have; a bias is so large that some image could overflow int32; a scale or an offset
            cannot be encoded.
    """

    specs: tuple[TensorSpec, ...]
    values: Mapping[str, Array]

    def __post_init__(self) -> None:
        for spec in self.specs:
            if spec.role is Role.TABLE:
                self.table(spec.name, "vreq8")
            elif spec.role is not Role.OUTPUT:
                _check_form(spec, self.values)
                _check_channels(spec, self.values)
            if spec.role is Role.BIAS:
                bias, taps = (cast(Any, self.values[name]) for name in (spec.name, spec.of))
                _check_bias(spec.name, bias, taps)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """The array kept under a name."""
        return self.values[name]

    def arrays(self, variant: str) -> dict[str, Array]:
        """The inputs by name as they lie in GM, tables packed as `variant` says.

        Raises:
            TensorsError: a scale becomes infinite when rounded for the variant, or the variant is unknown.
        """
        return {
            spec.name: self.table(spec.name, variant) if spec.role is Role.TABLE else self.values[spec.name]
            for spec in self.specs
            if spec.role is not Role.OUTPUT
        }

    def table(self, name: str, variant: str) -> vreq8.Table:
        """One packed table, uint64 [1, Cout]; raises as `arrays` does."""
        (spec,) = (spec for spec in self.specs if spec.name == name)
        scales, offsets = (self.values.get(part) for part in spec.parts)
        if scales is None or offsets is None:
            raise TensorsError(f"{name}: arrays {' and '.join(spec.parts)} must both be given")
        try:
            return vreq8.pack(scales, offsets, variant=variant)
        except vreq8.Vreq8Error as error:
            raise TensorsError(f"{name}: {error}") from error


def _check_form(spec: TensorSpec, values: Mapping[str, Array]) -> None:
    array = values.get(spec.name)
    if array is None:
        raise TensorsError(f"{spec.name}: no array of this name is given: must be given")
    if array.shape != spec.shape or array.dtype != spec.dtype:
        raise TensorsError(
            f"{spec.name}: is {array.dtype} {list(array.shape)}: must be {spec.dtype} {list(spec.shape)}"
        )


def _check_channels(spec: TensorSpec, values: Mapping[str, Array]) -> None:
    """Refuse an image with elements in channels that it does not have."""
    if not (first := spec.channels % C0):
        return
    planes = -(-spec.channels // C0)
    last = values[spec.name].reshape(planes, -1, C0)[-1]
    if (found := np.argwhere(last[:, first:])).size:
        pixel, channel = found[0]
        value = last[pixel, first + channel]
        raise TensorsError(
            f"{spec.name}: channel {spec.channels + channel} of pixel {pixel} is {value}: must be 0, "
            f"as the image has {spec.channels} channels"
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
            f"must be {lowest[channel]}..{highest[channel]}, or some int8 input overflows the int32 sum"
        )
