"""Faults of the pixels that windows read: no zeros past an edge of the image, another stride."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from golden.geometry import SIDES
from golden.specs import Int8, Int32
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import Ints, Layer
from pipeline.diff.hypotheses.model import Model
from workloads.faults import FAULTS, Fault, band_class, other_stride, padded_side


def past_edges(model: Model) -> Iterator[Hypothesis]:
    """No zeros past an edge, in all bands or in the first, interior or last, in each convolution."""
    for layer in model.layers:
        for fault in FAULTS.values():
            side = padded_side(fault)
            padded = side and fault.conv == layer.number and layer.shapes.conv.sides[SIDES.index(side)]
            if padded and not _told_by_another(fault, layer):
                yield Hypothesis(fault.id, (layer.number,), sums=partial(_sums_past_edge, fault))


def strides(model: Model) -> Iterator[Hypothesis]:
    """A stride that is one less (2 where it is 1), in each convolution of the program."""
    for layer in model.layers:
        yield Hypothesis(f"wrong-stride-{layer.number}", (layer.number,), sums=_sums_by_other_stride)


def _told_by_another(fault: Fault, layer: Layer) -> bool:
    """Whether it is that of all bands by another name: a single band is the first and the last."""
    sideways = fault.family.endswith(("left", "right"))
    return len(layer.loads) == 1 and sideways and band_class(fault) != ""


def _sums_past_edge(fault: Fault, layer: Layer, held: Int8, sites: Ints) -> Int32:
    """Taps past the edge read the band's map as a ring: pixel (row * columns + column) modulo its pixels.

    Taps past a corner, and so past another edge too, still read zeros.
    """
    part, row, column = layer.taps(sites)
    rows, columns = layer.held_rows(part), layer.shapes.width
    past = {"top": row < 0, "bottom": row >= rows, "left": column < 0, "right": column >= columns}
    read = past.pop(padded_side(fault)) & ~np.logical_or.reduce([*past.values()])
    first, last = part == 0, part == len(layer.loads) - 1
    bands = {"first": first, "interior": ~first & ~last, "last": last}
    read &= bands.get(band_class(fault), np.True_)
    ring = layer.base[part] + (row * columns + column) % (rows * columns)
    return layer.sums(held, np.where(read, ring, layer.pixels(part, row, column)))


def _sums_by_other_stride(layer: Layer, held: Int8, sites: Ints) -> Int32:
    conv = layer.shapes.conv
    stride = other_stride(conv.stride_rows), other_stride(conv.stride_columns)
    return layer.sums(held, layer.windows(sites, stride))
