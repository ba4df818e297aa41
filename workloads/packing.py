"""How the host packs a workload's tensors for programs that compute whole blocks of 32 channels, all of them.

A user's geometry may have any number of channels, in groups, and dilated kernels. Programs compute its device
geometry, which has none of that. The host makes up for it: it gives the filter zeros, where the user's has no
tap, and cuts what the user has no channel for off the outputs. No element is computed with: each that is
packed is the user's own or 0, so that a proof can follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from golden.chain import Chain, Layer, specs_of
from golden.geometry import C0, Conv
from golden.specs import Tensors

if TYPE_CHECKING:
    import numpy.typing as npt

Arrays: TypeAlias = "Mapping[str, npt.NDArray[Any]]"
"""Arrays by the names of the workload's tensors, or of the parts of its tables."""

_UNIT_SCALE = 1
"""The scale of a channel that the user does not have; its bias and its offset are 0, and so its output."""


class Packable(Protocol):
    """What a geometry must be so that its tensors can be packed: a dataclass that knows its `device`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def device(self) -> Packable:
        """The geometry, of the same type, that programs compute for it; itself if nothing is packed."""
        ...

    @property
    def macs(self) -> int:
        """Multiply-accumulates of its convolutions."""
        ...


@dataclass(frozen=True)
class Packing:
    """The packing of a geometry whose programs compute exactly what the user has: none. It is of any type."""

    geometry: Any

    @property
    def device(self) -> Any:
        """The geometry that the programs compute."""
        return self.geometry

    @property
    def changes(self) -> str:
        """What is packed; empty if nothing is."""
        return ""

    @property
    def words(self) -> str:
        """What is packed, and what it costs; empty if nothing is."""
        return ""

    def explained(self, message: str) -> str:
        """A message with numbers of the device geometry, with what of them is packed at its end."""
        return f"{message} (packed: {self.changes})" if self.changes else message

    def tensors(self, tensors: Tensors) -> Tensors:
        """The inputs that the programs read, of the user's."""
        return tensors

    def packed(self, arrays: Arrays, rest: int = 0) -> Arrays:
        """Arrays in the shapes of the device geometry, of arrays in those of the user's.

        `rest` stands wherever the user has nothing.
        """
        return arrays

    def cut(self, tensor: str, output: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The user's channels of an output, or of its first rows, as a program gives it."""
        return output


@dataclass(frozen=True)
class ChainPacking(Packing):
    """The packing of convolutions that follow each other; `layers` makes them of a geometry."""

    geometry: Packable
    layers: Callable[[Any], Chain]

    @cached_property
    def device(self) -> Packable:
        """As of `Packing`."""
        return self.geometry.device

    @property
    def changes(self) -> str:
        """Channels, groups and dilation as they are packed."""
        return "; ".join(_changes(self.geometry, self.device))

    @property
    def words(self) -> str:
        """As `changes`, and by what the products grow."""
        return f"{self.changes}; {self.device.macs / self.geometry.macs:.3g} times the products"

    def tensors(self, tensors: Tensors) -> Tensors:
        """As of `Packing`."""
        return Tensors(specs_of(self.layers(self.device)), self.packed(tensors.values))

    def packed(self, arrays: Arrays, rest: int = 0) -> Arrays:
        """As of `Packing`."""
        made = dict(arrays)
        for layer, device in zip(self.layers(self.geometry), self.layers(self.device), strict=True):
            more = {layer.scales: _UNIT_SCALE}
            for name in (layer.bias, layer.scale, layer.scales, layer.offsets, layer.output):
                if name in arrays:
                    made[name] = _widened(arrays[name], device.cout, more.get(name, rest))
            if layer.filter in arrays:
                made[layer.filter] = _filter(arrays[layer.filter], layer, device, rest)
        return made

    def cut(self, tensor: str, output: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """As of `Packing`."""
        (layer,) = (layer for layer in self.layers(self.geometry) if layer.output == tensor)
        return np.ascontiguousarray(output[:, : layer.cout])


def chain_packing(layers: Callable[[Any], Chain]) -> Callable[[Packable], Packing]:
    """The packing of each geometry of a workload that is a chain of convolutions."""

    def packing(geometry: Packable) -> Packing:
        packed = geometry.device is not geometry
        return ChainPacking(geometry, layers) if packed else Packing(geometry)

    return packing


def _changes(geometry: Packable, device: Packable) -> Iterator[str]:
    """What differs in the two geometries, in words."""
    sizes = [field.name for field in fields(geometry) if isinstance(getattr(geometry, field.name), int)]
    pairs = [(name, getattr(geometry, name), getattr(device, name)) for name in sizes if name != "groups"]
    if changed := [f"{name} {mine} -> {its}" for name, mine, its in pairs if mine != its]:
        yield ", ".join(changed)
    if (groups := getattr(geometry, "groups", 1)) > 1:
        yield f"{groups} groups as a block-diagonal filter"
    for field in fields(geometry):
        conv = getattr(geometry, field.name)
        if isinstance(conv, Conv) and conv is not conv.device:
            size = f"{conv.window_rows} x {conv.window_columns}"
            yield f"{field.name}, which is dilated, as a kernel of {size} with zeros between its taps"


def _widened(array: npt.NDArray[Any], columns: int, rest: int) -> npt.NDArray[Any]:
    """An array whose last axis has as many elements as a device has channels."""
    made = np.full((*array.shape[:-1], columns), rest, array.dtype)
    made[..., : array.shape[-1]] = array
    return made


def _filter(taps: npt.NDArray[Any], layer: Layer, device: Layer, rest: int) -> npt.NDArray[Any]:
    """The filter of the device: each tap of the user's where the device's image has the pixel it meets."""
    made = np.full((device.depth, device.cout), rest, taps.dtype)
    columns = np.arange(layer.cout)
    made[_depths(layer, device)[:, columns // (layer.cout // layer.groups)], columns] = taps
    return made


def _depths(layer: Layer, device: Layer) -> npt.NDArray[np.int64]:
    """For each depth of the user's sums and each group, the depth of the device's with the same pixel."""
    conv, on_device = layer.conv, device.conv
    tap, channel = layer.taps_and_channels(np.arange(layer.depth))
    row, column = np.divmod(tap, conv.kernel_columns)
    there = row * conv.dilation_rows * on_device.kernel_columns + column * conv.dilation_columns
    of_group = channel[:, None] + np.arange(layer.groups) * layer.reads
    plane, within = np.divmod(of_group, C0)
    depths: npt.NDArray[np.int64] = (plane * on_device.taps + there[:, None]) * C0 + within
    return depths
