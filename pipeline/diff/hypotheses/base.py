"""What every hypothesis is, and how its prediction is computed at chosen positions of an output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from golden.specs import Int8, Int32
from pipeline.diff.hypotheses.layers import OUTSIDE, Ints, Layer, saturated
from pipeline.diff.hypotheses.model import Model


def _sums(layer: Layer, held: Int8, sites: Ints) -> Int32:
    return layer.sums(held, layer.windows(sites))


def _values(layer: Layer, sums: Int32, sites: Ints) -> Int8:
    return saturated(layer.rounded(sums))


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One known fault: the steps that it changes, each a function. A step that is left out is right.

    A fault in both convolutions is one of requantisation: the second reads the pixels that it should.

    Attributes:
        name: the fault's id in the catalogue of faults; without the convolution's number where it is in both.
        layers: numbers of the convolutions it is in.
        note: what the id leaves open, such as which K step.
        altered: the layer with the facts that the fault changes. The steps below are given this one.
        held: what the layer's buffers hold, int8 [pixels + 1, C], from what they should hold.
        sums: accumulators without bias, int32 [sites, C], from what the buffers hold.
        values: bias and requantisation, int8 [sites, C], from the accumulators.
        keeps_sums: whether the fault comes after the accumulators.
        stored: the whole output, int8 [positions, C], where the fault is in how that is stored.
        what: what it says of this program, if the catalogue speaks of another tensor.
    """

    name: str
    layers: tuple[int, ...]
    note: str = ""
    altered: Callable[[Layer], Layer] = lambda layer: layer
    held: Callable[[Layer, Int8], Int8] = lambda layer, held: held
    sums: Callable[[Layer, Int8, Ints], Int32] = _sums
    values: Callable[[Layer, Int32, Ints], Int8] = _values
    keeps_sums: bool = False
    stored: Int8 | None = None
    what: str = ""

    @property
    def spelt(self) -> str:
        """The name with what it leaves open."""
        return f"{self.name} ({self.note})" if self.note else self.name

    def predict(self, view: View) -> Int8:
        """The output int8 [positions, C] if this were true, in the channels that the workload has."""
        whole = self.stored[view.positions] if self.stored is not None else view.output(self, view.model.last)
        return whole[:, : view.model.evidence.expected.shape[1]]


RIGHT = Hypothesis("right", (), keeps_sums=True, what="no fault")
"""No fault: for the layers that a hypothesis is not about. It is tried too, because a plan can be wrong."""


class View:
    """A program's output at chosen positions; what several hypotheses need of it is computed once."""

    def __init__(self, model: Model, positions: Ints) -> None:
        """Look at `positions`, rows of the output tensor."""
        self.model = model
        self.positions = positions
        self._sums: dict[int, Int32] = {}

    def output(self, hypothesis: Hypothesis, layer: Layer) -> Int8:
        """What a layer gives at its sites that the positions come from."""
        own = hypothesis if layer.number in hypothesis.layers else RIGHT
        altered, sites = own.altered(layer), self._sites(layer)
        upstream = layer.number - 1 in hypothesis.layers
        if own.keeps_sums and not upstream:
            sums = self._right_sums(layer)
        else:
            held = self._handed_over(hypothesis) if upstream else layer.held
            sums = own.sums(altered, own.held(altered, held), sites)
        return own.values(altered, sums, sites)

    def _right_sums(self, layer: Layer) -> Int32:
        """The right accumulators without bias of a layer at its sites, int32 [sites, C]."""
        if layer.number not in self._sums:
            self._sums[layer.number] = RIGHT.sums(layer, layer.held, self._sites(layer))
        return self._sums[layer.number]

    def _sites(self, layer: Layer) -> Ints:
        return self.positions if layer is self.model.last else self._read[1]

    def _handed_over(self, hypothesis: Hypothesis) -> Int8:
        """The second layer's buffers as the hypothesis fills them, at the pixels that are read."""
        pixels, _, index = self._read
        held = np.zeros_like(self.model.last.held)
        held[pixels] = self.output(hypothesis, self.model.layers[0])[index]
        return held

    @cached_property
    def _read(self) -> tuple[Ints, Ints, Ints]:
        """Pixels that the second layer reads, the sites of the first that give them, and which gives each."""
        pixels = np.unique(self.model.last.windows(self.positions))
        pixels = pixels[pixels != OUTSIDE]
        return pixels, *np.unique(self.model.last.handed_over[pixels], return_inverse=True)
