"""Faults between the convolutions: what conv2 finds where it expects mid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from golden import vreq8
from golden.specs import Int8
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.blocks import reordered
from pipeline.diff.hypotheses.layers import Layer
from pipeline.diff.hypotheses.model import Model


@dataclass(frozen=True)
class NzAsNd(Hypothesis):
    """A band's mid map lies as NZ and is read as ND."""

    def source(self, model: Model, layer: Layer, rows: Int8) -> Int8:
        """Maps in the other order."""
        return _reordered(layer, rows, nz_as_nd=True)


@dataclass(frozen=True)
class NdAsNz(Hypothesis):
    """A band's mid map lies as ND and is read as NZ."""

    def source(self, model: Model, layer: Layer, rows: Int8) -> Int8:
        """Maps in the other order."""
        return _reordered(layer, rows, nz_as_nd=False)


@dataclass(frozen=True, kw_only=True)
class HaloStale(Hypothesis):
    """The first kernel - stride rows of a band's mid buffer are still what the band before had there.

    If no later band ever fills them (`never_filled`), they are those of the band computed first, else those
    of the band before.
    """

    never_filled: bool

    def source(self, model: Model, layer: Layer, rows: Int8) -> Int8:
        """Buffers that begin as those of the first band, or of the band before, do."""
        stale = rows.copy()
        halo = max(0, layer.conv.kernel - layer.conv.stride) * layer.image_width
        for before, number in pairwise(layer.order):
            band = layer.base[number]
            earlier = layer.base[layer.order[0] if self.never_filled else before]
            stale[band : band + halo] = rows[earlier : earlier + halo]
        return stale


@dataclass(frozen=True)
class MidOfOtherRun(Hypothesis):
    """Conv2 reads the mid that a run on an x of zeros left."""

    def source(self, model: Model, layer: Layer, rows: Int8) -> Int8:
        """Buffers full of what conv1 gives where all it reads is 0."""
        tensors, variant, first = model.evidence.tensors, model.evidence.variant, model.form.chain[0]
        other = np.empty_like(rows)
        table = tensors.table(first.scale, variant)
        other[:-1] = cast(Int8, vreq8.requantise(tensors[first.bias], table, variant))
        other[-1] = 0
        return other


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family, where the program has a conv2."""
    if model.second is not None:
        yield NzAsNd("nz-as-nd-mid", (2,))
        yield NdAsNz("nd-as-nz-mid", (2,))
        yield HaloStale("halo-stale", (2,), never_filled=True)
        yield HaloStale("halo-stale", (2,), "those of the band before, not of the first", never_filled=False)
        yield MidOfOtherRun("mid-of-other-run", (2,))


def _reordered(layer: Layer, rows: Int8, *, nz_as_nd: bool) -> Int8:
    """Every band's buffer reordered."""
    moved = rows.copy()
    for first, end in pairwise(layer.base):
        moved[first:end] = reordered(rows[first:end], end - first, nz_as_nd=nz_as_nd)
    return moved
