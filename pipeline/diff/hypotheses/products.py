"""Faults of the matrix product: K in another order, C1 planes rotated, K steps miscounted, no reset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from golden.geometry import C0
from golden.specs import Int8, Int32
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import Ints, Layer
from pipeline.diff.hypotheses.model import Model


def orders(model: Model) -> Iterator[Hypothesis]:
    """The filter and C1 planes in another order, in each convolution of the program."""
    for layer in model.layers:
        number = (layer.number,)
        yield Hypothesis(f"k-order-khkwc-{layer.number}", number, altered=_in_order(1, 2, 0, 3))
        yield Hypothesis(f"k-order-ckhkw-{layer.number}", number, altered=_in_order(0, 3, 1, 2))
        yield Hypothesis(f"planes-swapped-{layer.number}", number, altered=_with_planes_rotated)


def k_loops(model: Model) -> Iterator[Hypothesis]:
    """A K step left out or done twice, the last first, and an accumulator that is not reset."""
    for layer in model.layers:
        number, steps = layer.number, layer.form.tile.steps
        if steps > 1:
            for family, times in (("k-step-skipped", 0), ("k-step-twice", 2)):
                for step in reversed(range(steps)):
                    note, altered = f"step {step + 1} of {steps}", _with_step(step, times)
                    yield Hypothesis(f"{family}-{number}", (number,), note, altered)
        if any(size > layer.form.tile.positions for size in layer.form.sizes):
            yield Hypothesis(f"acc-not-reset-{number}", (number,), sums=_sums_over_tiles)


def _in_order(*axes: int) -> Callable[[Layer], Layer]:
    """The filter's bytes lie with K in the order of `axes` of (c1, kh, kw, c0)."""

    def altered(layer: Layer) -> Layer:
        conv = layer.shapes.conv
        shape = -1, conv.kernel_rows, conv.kernel_columns, C0, layer.filter.shape[1]
        taps = layer.filter.reshape(shape)
        return replace(layer, filter=taps.transpose(*axes, 4).reshape(layer.filter.shape))

    return altered


def _with_planes_rotated(layer: Layer) -> Layer:
    """The filter's planes rotated the other way, which sums the same products."""
    plane = layer.shapes.conv.taps * C0
    return replace(layer, filter=np.roll(layer.filter, plane, axis=0))


def _with_step(step: int, times: int) -> Callable[[Layer], Layer]:
    """A K step's filter rows so many times, which sums the same as so many steps."""

    def altered(layer: Layer) -> Layer:
        filter_, rows = layer.filter.astype(np.int16), layer.form.tile.step
        filter_[step * rows : (step + 1) * rows] *= times
        return replace(layer, filter=filter_)

    return altered


def _sums_over_tiles(layer: Layer, held: Int8, sites: Ints) -> Int32:
    """Sums over all ACC tiles of the band up to the site's own."""
    _, position = layer.split(sites)
    size = layer.form.tile.positions
    before = np.arange(position.max(initial=0) // size + 1) * size
    chain = np.where(before <= position[:, None], sites[:, None] - before, sites[:, None])
    needed = np.unique(chain)
    # If a site is needed, so are those before it: no sum that was left out is used.
    total = np.zeros((layer.start[-1], layer.filter.shape[1]), np.int64)
    total[needed] = layer.sums(held, layer.windows(needed))
    for first, end in pairwise(layer.start):
        for tile in range(first + size, end, size):
            rest = min(size, end - tile)
            total[tile : tile + rest] += total[tile - size : tile - size + rest]
    return total[sites].astype(np.int32)
