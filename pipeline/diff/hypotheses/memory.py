"""Faults of addresses: the feature map shares memory with another tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from golden.geometry import C0
from golden.specs import Int8
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import Layer
from pipeline.diff.hypotheses.model import Model
from workloads.form import Loading

_FRACTAL_ROWS = 16


@dataclass(frozen=True)
class MapCorrupted(Hypothesis):
    """The first fractal of filter1 lies over the first pixels of C1 plane 0 of each band's feature map."""

    def source(self, model: Model, layer: Layer, rows: Int8) -> Int8:
        """Feature maps that begin with filter1."""
        fractal = layer.filter[:_FRACTAL_ROWS, :C0].astype(np.int8)
        corrupted = rows.copy()
        for first in layer.base[:-1]:
            corrupted[first : first + _FRACTAL_ROWS, :C0] = fractal
        return corrupted


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """The fault, where the feature map is gathered beside all that is resident in L1."""
    first = model.form.convolution(1)
    if first is not None and first.loading is Loading.GATHERED:
        yield MapCorrupted("map-corrupted", (1,))
