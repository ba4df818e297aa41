"""Faults of storing y: its tiles in another order, parts never written."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import reordered
from pipeline.diff.hypotheses.model import Model
from workloads.faults import FAULTS


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family that the program can have."""
    evidence, expected, sentinel = model.evidence, model.expected, model.evidence.sentinel
    tiles = list(model.last.form.stored())
    if sentinel is not None:
        unwritten = expected.copy()
        unwritten[tiles[-1]] = sentinel
        what = FAULTS["unwritten"].what.replace("of y", f"of {evidence.tensor}")
        yield Hypothesis("unwritten", (), stored=unwritten, what=what)
    if model.form.gives_all:
        for name in ("nz-as-nd-y", "nd-as-nz-y"):
            stored = expected.copy()
            for tile in tiles:
                stored[tile] = reordered(expected[tile], len(expected[tile]), nz_as_nd=name == "nz-as-nd-y")
            yield Hypothesis(name, (), stored=stored)
