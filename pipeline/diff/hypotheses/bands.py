"""Faults of where windows lie: bands one row off, another stride."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from golden.specs import Int8
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import Ints, Layer, with_zeros
from pipeline.diff.hypotheses.model import Model
from workloads.form import Part


@dataclass(frozen=True, kw_only=True)
class BandsShifted(Hypothesis):
    """All bands except the first load their input rows `shift` rows off.

    The interior bands move together, the last by itself; those that would leave the image stay in place.
    """

    shift: int

    def source(self, model: Model, layer: Layer, rows: Int8) -> Int8:
        """The rows of the shifted buffers."""
        image = model.image if layer.number == 1 else model.golden_mid
        height = len(image) // layer.image_width
        interior, last = layer.parts[1:-1], layer.parts[1:][-1:]
        moved = [part for group in (interior, last) if self._fits(group, height) for part in group]
        parts = tuple(self._moved(part) if part in moved else part for part in layer.parts)
        return with_zeros(image[replace(layer, parts=parts).buffers()])

    def _fits(self, parts: tuple[Part, ...], height: int) -> bool:
        return all(0 <= part.window.row + self.shift <= height - part.window.rows for part in parts)

    def _moved(self, part: Part) -> Part:
        return replace(part, window=replace(part.window, row=part.window.row + self.shift))


@dataclass(frozen=True)
class WrongStride(Hypothesis):
    """The stride is one less (2 where it is 1); the positions asked for are those of the right stride."""

    def altered(self, layer: Layer) -> Layer:
        """With the wrong stride."""
        stride = layer.conv.stride - 1 or 2
        return replace(layer, conv=replace(layer.conv, stride=stride))

    def windows(self, layer: Layer, sites: Ints) -> Ints:
        """Positions wrap at another width, that of the wrong stride."""
        part, position = layer.split(sites)
        position = position + np.array([part.window.skip for part in layer.parts])[part] * layer.width
        padded = layer.image_width + layer.padding("left")[part] + layer.padding("right")[part]
        width = (padded - layer.conv.kernel) // layer.conv.stride + 1
        return layer.pixels(*layer.taps_at(part, position // width, position % width))


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family that the program can have; shifts where a layer loads its rows from GM."""
    for layer in model.layers:
        yield WrongStride(f"wrong-stride-{layer.number}", (layer.number,))
    from_gm = [layer for layer in model.layers if layer.number == 1 or model.mid_in_gm]
    for layer in from_gm:
        note = "rows of mid" if layer.number == 2 else ""
        yield BandsShifted("band-up", (layer.number,), note, shift=-1)
        yield BandsShifted("band-down", (layer.number,), note, shift=1)
