"""Faults of bias and requantisation: another reading of the table, another table, other saturation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from golden import vreq8
from golden.specs import Int8, Int32
from pipeline.diff.hypotheses.base import Hypothesis, RequantHypothesis
from pipeline.diff.hypotheses.layers import Ints, Layer, saturated
from pipeline.diff.hypotheses.model import Model

_LARGEST = 2.0**62
"""The largest float that is converted to int64; the low 8 bits of anything above are 0."""


@dataclass(frozen=True, kw_only=True)
class OtherVariant(RequantHypothesis):
    """The table is packed for, and read as, another variant than the platform declares."""

    variant: str

    def altered(self, layer: Layer) -> Layer:
        """With the other variant."""
        return replace(layer, variant=self.variant)


@dataclass(frozen=True)
class OffsetSign(RequantHypothesis):
    """The offset is subtracted."""

    def altered(self, layer: Layer) -> Layer:
        """With offsets of the other sign."""
        return replace(layer, offsets=-layer.offsets)


@dataclass(frozen=True)
class ScaleIgnored(RequantHypothesis):
    """The scale is taken as 1."""

    def altered(self, layer: Layer) -> Layer:
        """With scales of 1."""
        return replace(layer, scales=np.ones_like(layer.scales))


@dataclass(frozen=True)
class BiasMissing(RequantHypothesis):
    """The bias is 0."""

    def altered(self, layer: Layer) -> Layer:
        """Without bias."""
        return replace(layer, bias=np.zeros_like(layer.bias))


@dataclass(frozen=True, eq=False, kw_only=True)
class OtherTable(RequantHypothesis):
    """The other convolution's table is used."""

    model: Model

    def altered(self, layer: Layer) -> Layer:
        """With the other scales and offsets."""
        tensors, other = self.model.evidence.tensors, self.model.form.chain[2 - layer.number]
        return replace(layer, scales=tensors[other.scales], offsets=tensors[other.offsets].astype(np.int64))


@dataclass(frozen=True, eq=False, kw_only=True)
class OtherBias(RequantHypothesis):
    """The other convolution's bias is added."""

    model: Model

    def altered(self, layer: Layer) -> Layer:
        """With the other bias."""
        return replace(layer, bias=self.model.evidence.tensors[self.model.form.chain[2 - layer.number].bias])


@dataclass(frozen=True)
class NoSaturation(RequantHypothesis):
    """The low 8 bits of the rounded integer are kept."""

    def values(self, layer: Layer, sums: Int32, sites: Ints) -> Int8:
        """Wrapped values."""
        return np.clip(layer.rounded(sums), -_LARGEST, _LARGEST).astype(np.int64).astype(np.int8)


@dataclass(frozen=True)
class UnsignedSaturation(RequantHypothesis):
    """Saturated to 0..255, of which the low 8 bits are kept."""

    def values(self, layer: Layer, sums: Int32, sites: Ints) -> Int8:
        """Values saturated as unsigned ones."""
        return np.clip(layer.rounded(sums), 0, 255).astype(np.uint8).view(np.int8)


@dataclass(frozen=True)
class PerRowScale(RequantHypothesis):
    """Row m of an ACC tile uses table entry m % C for all its channels."""

    def values(self, layer: Layer, sums: Int32, sites: Ints) -> Int8:
        """Values scaled by row."""
        _, position = layer.split(sites)
        entry = (position % layer.tile.positions % layer.filter.shape[1])[:, None]
        acc = sums + layer.bias
        return saturated(vreq8.unsaturated(acc, layer.scale[entry], layer.offsets[entry], layer.variant))


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family, in each convolution of the program and in both."""
    simple: dict[str, type[RequantHypothesis]] = {
        "offset-sign": OffsetSign,
        "scale-ignored": ScaleIgnored,
        "bias-missing": BiasMissing,
        "no-saturation": NoSaturation,
        "unsigned-saturation": UnsignedSaturation,
        "per-row-scale": PerRowScale,
    }
    numbers = tuple(layer.number for layer in model.layers)
    chain = model.form.chain
    interchangeable = len(chain) == 2 and chain[0].cout == chain[1].cout
    for layers in (*((number,) for number in numbers), *([numbers] if len(numbers) == 2 else [])):
        suffix = f"-{layers[0]}" if len(layers) == 1 else ""
        for variant in vreq8.VARIANTS:
            if variant != model.evidence.variant:
                yield OtherVariant(variant + suffix, layers, variant=variant)
        for family, kind in simple.items():
            yield kind(family + suffix, layers)
        if interchangeable:
            yield OtherTable(f"other-table{suffix}", layers, model=model)
            yield OtherBias(f"other-bias{suffix}", layers, model=model)
