"""Faults of what feature maps hold: bytes in another order, stale or shifted rows, memory that is shared."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np

from golden import vreq8
from golden.chain import image_of
from golden.geometry import C0
from golden.layout import FRACTAL_ROWS
from golden.specs import Int8
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import Layer, reordered, with_zeros
from pipeline.diff.hypotheses.model import Model
from workloads.faults import FAULTS, Fault, halo_rows, moved_windows
from workloads.form import Loading


def of_x(model: Model) -> Iterator[Hypothesis]:
    """X in NHWC, where the program reads it."""

    def in_nhwc(layer: Layer, held: Int8) -> Int8:
        image = image_of(model.form.chain, layer.image.reshape(-1, C0))
        return layer.filled(image, layer.loads)

    if model.layers[0].number == 1:
        yield Hypothesis("x-nhwc", (1,), held=in_nhwc)


def of_mid(model: Model) -> Iterator[Hypothesis]:
    """What conv2 finds where it expects mid, where the program has a conv2."""
    tensors, variant, first = model.evidence.tensors, model.evidence.variant, model.form.chain[0]

    def of_a_run_on_zeros(layer: Layer, held: Int8) -> Int8:
        row = vreq8.requantise(tensors[first.bias], tensors.table(first.scale, variant), variant)
        return with_zeros(np.repeat(cast(Int8, row), len(held) - 1, axis=0))

    if model.last.number == 2:
        yield Hypothesis("nz-as-nd-mid", (2,), held=partial(_reordered, nz_as_nd=True))
        yield Hypothesis("nd-as-nz-mid", (2,), held=partial(_reordered, nz_as_nd=False))
        yield Hypothesis("halo-stale", (2,), held=partial(_stale, never_filled=True))
        note = "those of the band before, not of the first"
        yield Hypothesis("halo-stale", (2,), note, held=partial(_stale, never_filled=False))
        yield Hypothesis("mid-of-other-run", (2,), held=of_a_run_on_zeros)


def of_bands(model: Model) -> Iterator[Hypothesis]:
    """Bands that load their rows one row off, in each convolution that loads them from GM."""
    for layer in model.layers:
        if layer.form.loading is not Loading.IN_L1:
            source = layer.form.source
            note = f"rows of {source}" if layer.number == 2 else ""
            for fault in (FAULTS["band-up"], FAULTS["band-down"]):
                what = fault.what.replace(" x rows", f" {source} rows")
                held = partial(_moved, fault)
                yield Hypothesis(fault.id, (layer.number,), note, held=held, what=what)


def in_shared_memory(model: Model) -> Iterator[Hypothesis]:
    """Filter1 over feature maps, where they are gathered beside all that is resident in L1."""
    if model.layers[0].number == 1 and model.layers[0].form.loading is Loading.GATHERED:
        yield Hypothesis("map-corrupted", (1,), held=_beginning_with_filter)


def _reordered(layer: Layer, held: Int8, *, nz_as_nd: bool) -> Int8:
    """Every band's map reordered."""
    moved = held.copy()
    for first, end in pairwise(layer.base):
        moved[first:end] = reordered(held[first:end], end - first, nz_as_nd=nz_as_nd)
    return moved


def _stale(layer: Layer, held: Int8, *, never_filled: bool) -> Int8:
    """Maps whose halo, their first rows, is what the band before had there.

    If no later band ever fills them (`never_filled`), they are those of the band computed first.
    """
    stale, order = held.copy(), layer.form.order
    halo = min(halo_rows(layer.shapes.conv), layer.loads[0].rows) * layer.shapes.width
    for before, number in pairwise(order):
        band, earlier = layer.base[number], layer.base[order[0] if never_filled else before]
        stale[band : band + halo] = held[earlier : earlier + halo]
    return stale


def _moved(fault: Fault, layer: Layer, held: Int8) -> Int8:
    loads = moved_windows(fault, layer.shapes.height, layer.loads)
    return layer.filled(layer.image, loads)


def _beginning_with_filter(layer: Layer, held: Int8) -> Int8:
    """Maps whose first pixels are the first fractal of the filter in C1 plane 0."""
    corrupted = held.copy()
    for first in layer.base[:-1]:
        corrupted[first : first + FRACTAL_ROWS, :C0] = layer.filter[:FRACTAL_ROWS, :C0]
    return corrupted
