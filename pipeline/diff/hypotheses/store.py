"""Faults of storing y: its tiles in another order, parts never written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import reordered
from pipeline.diff.hypotheses.model import Model


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family that the program can have."""
    actual, expected = model.evidence.actual, model.evidence.expected
    if model.evidence.sentinel is not None:
        # Positions where every channel is still what the output held before were never written.
        untouched = (actual == model.evidence.sentinel).all(axis=1)
        yield Hypothesis("unwritten", (), stored=np.where(untouched[:, None], actual, expected))
    if model.form.gives_all:
        tile = model.last.form.tile.positions
        yield Hypothesis("nz-as-nd-y", (), stored=reordered(expected, tile, nz_as_nd=True))
        yield Hypothesis("nd-as-nz-y", (), stored=reordered(expected, tile, nz_as_nd=False))
