"""Faults of storing y: its tiles in another order, parts never written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from golden.specs import Int8
from pipeline.diff.hypotheses.base import Hypothesis, View
from pipeline.diff.hypotheses.blocks import reordered
from pipeline.diff.hypotheses.model import Model


@dataclass(frozen=True)
class NzAsNdStored(Hypothesis):
    """Each ACC tile of y is stored as the bytes of its NZ fractals."""

    def predict(self, view: View) -> Int8:
        """The golden's y, tile by tile in NZ order."""
        tile = view.model.last.tile.positions
        return reordered(view.model.evidence.expected, tile, nz_as_nd=True)[view.positions]


@dataclass(frozen=True)
class NdAsNzStored(Hypothesis):
    """Each ACC tile of y is stored as if its ND bytes were NZ fractals, and reordered to ND."""

    def predict(self, view: View) -> Int8:
        """The golden's y, tile by tile as if it had been in NZ order."""
        tile = view.model.last.tile.positions
        return reordered(view.model.evidence.expected, tile, nz_as_nd=False)[view.positions]


@dataclass(frozen=True)
class Unwritten(Hypothesis):
    """Positions where every channel is still what the output held before were never written."""

    def predict(self, view: View) -> Int8:
        """The golden, except at those positions."""
        actual = view.model.evidence.actual[view.positions]
        untouched = (actual == view.model.evidence.sentinel).all(axis=1)
        return np.where(untouched[:, None], actual, view.model.evidence.expected[view.positions])


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family that the program can have."""
    if model.evidence.sentinel is not None:
        yield Unwritten("unwritten", ())
    if model.form.gives_all:
        yield NzAsNdStored("nz-as-nd-y", ())
        yield NdAsNzStored("nd-as-nz-y", ())
