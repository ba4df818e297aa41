"""Faults of layout: the filter's K in another order, C1 planes rotated, x in NHWC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from golden.chain import image_of
from golden.geometry import C0
from golden.specs import Int8
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import Layer, with_zeros
from pipeline.diff.hypotheses.model import Model


@dataclass(frozen=True, kw_only=True)
class FilterOrder(Hypothesis):
    """The filter's bytes lie with K in the order of `axes` of (c1, kh, kw, c0)."""

    axes: tuple[int, ...]

    def altered(self, layer: Layer) -> Layer:
        """With the filter as it is then read."""
        taps = _by_tap(layer).transpose(*self.axes, 4)
        return replace(layer, filter=taps.reshape(layer.filter.shape))


@dataclass(frozen=True)
class PlanesRotated(Hypothesis):
    """C1 plane p of the input holds plane (p + 1) % C1."""

    def altered(self, layer: Layer) -> Layer:
        """With the filter's planes rotated the other way, which sums the same products."""
        return replace(layer, filter=np.roll(_by_tap(layer), 1, axis=0).reshape(layer.filter.shape))


@dataclass(frozen=True)
class InputNhwc(Hypothesis):
    """The buffer of x holds the bytes of NHWC."""

    def source(self, model: Model, layer: Layer, rows: Int8) -> Int8:
        """NHWC bytes read as NC1HWC0."""
        image = image_of(model.form.chain, model.image.reshape(-1, C0))
        return with_zeros(image[layer.buffers()])


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family that the program can have."""
    for layer in model.layers:
        number = layer.number
        yield FilterOrder(f"k-order-khkwc-{number}", (number,), axes=(1, 2, 0, 3))
        yield FilterOrder(f"k-order-ckhkw-{number}", (number,), axes=(0, 3, 1, 2))
        yield PlanesRotated(f"planes-swapped-{number}", (number,))
    if model.first is not None:
        yield InputNhwc("x-nhwc", (1,))


def _by_tap(layer: Layer) -> npt.NDArray[np.integer]:
    """The filter as [C1, kh, kw, C0, Cout]."""
    kernel = layer.conv.kernel
    return layer.filter.reshape(-1, kernel, kernel, C0, layer.filter.shape[1])
