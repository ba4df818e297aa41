"""Faults of the K loop: a step left out or done twice, an accumulator not reset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from golden.specs import Int8, Int32
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import Ints, Layer
from pipeline.diff.hypotheses.model import Model


@dataclass(frozen=True, kw_only=True)
class StepRepeated(Hypothesis):
    """A K step is accumulated `times` times: 0 or 2."""

    k_step: int
    times: int

    def altered(self, layer: Layer) -> Layer:
        """With the step's filter rows so many times, which sums the same."""
        filter_ = layer.filter.astype(np.int16)
        filter_[self.k_step * layer.tile.step : (self.k_step + 1) * layer.tile.step] *= self.times
        return replace(layer, filter=filter_)


@dataclass(frozen=True)
class AccNotReset(Hypothesis):
    """Every ACC tile of a band but its first accumulates onto the tile before, without bias."""

    def sums(self, layer: Layer, source: Int8, sites: Ints) -> Int32:
        """Sums over all tiles of the band up to the site's own."""
        _, position = layer.split(sites)
        size = layer.tile.positions
        before = np.arange(position.max(initial=0) // size + 1) * size
        chain = np.where(before <= position[:, None], sites[:, None] - before, sites[:, None])
        needed = np.unique(chain)
        # If a site is needed, so are those before it: no sum that was left out is used.
        total = np.zeros((layer.start[-1], layer.filter.shape[1]), np.int64)
        total[needed] = super().sums(layer, source, needed)
        for first, end in zip(layer.start[:-1], layer.start[1:], strict=True):
            tiles = total[first:end].reshape(-1, size, total.shape[1])
            np.cumsum(tiles, axis=0, out=tiles)
        return total[sites].astype(np.int32)


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family, in each convolution of the program; the last K step first."""
    for layer in model.layers:
        number, steps = layer.number, layer.tile.steps
        if steps > 1:
            for family, times in (("k-step-skipped", 0), ("k-step-twice", 2)):
                for k_step in reversed(range(steps)):
                    note = f"step {k_step + 1} of {steps}"
                    yield StepRepeated(f"{family}-{number}", (number,), note, k_step=k_step, times=times)
        if any(part.rows > layer.tile.rows for part in layer.parts):
            yield AccNotReset(f"acc-not-reset-{number}", (number,))
