"""What every hypothesis is, and how its prediction is computed at chosen positions of an output."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from golden.specs import Int8, Int32
from pipeline.diff.hypotheses.layers import OUTSIDE, Ints, Layer
from pipeline.diff.hypotheses.model import Model


@dataclass(frozen=True)
class Hypothesis:
    """One known fault. The methods here compute what is right; a fault overrides the one that it changes.

    Attributes:
        name: the fault's id in the catalogue of faults; without the convolution's number where it is in both.
        layers: numbers of the convolutions it is in.
        note: what the id leaves open, such as which K step.
    """

    name: str
    layers: tuple[int, ...]
    note: str = ""

    keeps_sums: ClassVar[bool] = False
    """Whether the fault comes after the accumulators."""

    @property
    def spelt(self) -> str:
        """The name with what it leaves open."""
        return f"{self.name} ({self.note})" if self.note else self.name

    def predict(self, view: View) -> Int8:
        """The output int8 [positions, C] if this were true."""
        return view.output(self, view.model.last, view.positions)

    def altered(self, layer: Layer) -> Layer:
        """The layer with the facts that the fault changes. The methods below are given this one."""
        return layer

    def source(self, model: Model, layer: Layer, rows: Int8) -> Int8:
        """What the layer's buffers hold, int8 [pixels + 1, C], where `rows` would be right."""
        return rows

    def windows(self, layer: Layer, sites: Ints) -> Ints:
        """Pixel of every tap of every site, [sites, taps]."""
        return layer.windows(sites)

    def sums(self, layer: Layer, source: Int8, sites: Ints) -> Int32:
        """Accumulators without bias, int32 [sites, C]."""
        return layer.sums(source, self.windows(layer, sites))

    def values(self, layer: Layer, sums: Int32, sites: Ints) -> Int8:
        """Bias and requantisation, int8 [sites, C]."""
        return layer.requantised(sums)


@dataclass(frozen=True)
class RequantHypothesis(Hypothesis):
    """A fault of bias or requantisation: the accumulators before them are right."""

    keeps_sums: ClassVar[bool] = True


RIGHT = RequantHypothesis("right", ())
"""No fault: for the layers that a hypothesis is not about."""


class View:
    """A program's output at chosen positions; what several hypotheses need of it is computed once."""

    def __init__(self, model: Model, positions: Ints) -> None:
        """Look at `positions`, rows of the output tensor."""
        self.model = model
        self.positions = positions

    def output(self, hypothesis: Hypothesis, layer: Layer, sites: Ints) -> Int8:
        """What a layer gives at sites."""
        own = hypothesis if layer.number in hypothesis.layers else RIGHT
        altered = own.altered(layer)
        upstream = layer.number == 2 and 1 in hypothesis.layers
        if own.keeps_sums and not upstream:
            sums = self._right_sums(layer, sites)
        else:
            source = self.model.x if layer.number == 1 else self.model.mid
            if upstream:
                source = self._mid(hypothesis, own.windows(altered, sites))
            sums = own.sums(altered, own.source(self.model, altered, source), sites)
        return own.values(altered, sums, sites)

    def sums(self) -> Int32:
        """The right accumulators without bias of the last layer, int32 [positions, C]."""
        return self._right_sums(self.model.last, self.positions)

    def _mid(self, hypothesis: Hypothesis, windows: Ints) -> Int8:
        """The second layer's buffers as the hypothesis fills them, at the pixels that windows read."""
        assert self.model.first is not None
        pixels = np.unique(windows)
        pixels = pixels[pixels != OUTSIDE]
        sites, index = np.unique(self.model.mid_sites[pixels], return_inverse=True)
        if np.array_equal(sites, self._first_sites):
            sites = self._first_sites
        mid = np.zeros_like(self.model.mid)
        mid[pixels] = self.output(hypothesis, self.model.first, sites)[index]
        return mid

    def _right_sums(self, layer: Layer, sites: Ints) -> Int32:
        if layer.number == 2 and sites is self.positions:
            return self._second_sums
        if layer.number == 1 and sites is self._first_sites:
            return self._first_sums
        source = self.model.x if layer.number == 1 else self.model.mid
        return layer.sums(source, layer.windows(sites))

    @cached_property
    def _first_sites(self) -> Ints:
        """Sites of the first layer that these positions come from in a right program."""
        if self.model.second is None:
            return self.positions
        pixels = self.model.second.windows(self.positions)
        return np.unique(self.model.mid_sites[pixels[pixels != OUTSIDE]])

    @cached_property
    def _first_sums(self) -> Int32:
        layer = self.model.layers[0]
        return layer.sums(self.model.x, layer.windows(self._first_sites))

    @cached_property
    def _second_sums(self) -> Int32:
        layer = self.model.last
        return layer.sums(self.model.mid, layer.windows(self.positions))
