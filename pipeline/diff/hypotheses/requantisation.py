"""Faults of bias and requantisation: another reading of the table, another table, other saturation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from golden import vreq8
from golden.specs import Int8, Int32
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import Ints, Layer, saturated
from pipeline.diff.hypotheses.model import Model

_LARGEST = 2.0**62
"""The largest float that is converted to int64; the low 8 bits of anything above are 0."""


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family, in each convolution of the program and in both."""
    families = tuple(_families(model))
    numbers = tuple(layer.number for layer in model.layers)
    for layers in (*((number,) for number in numbers), *([numbers] if len(numbers) == 2 else [])):
        suffix = f"-{layers[0]}" if len(layers) == 1 else ""
        for family in families:
            yield replace(family, name=family.name + suffix, layers=layers)


def _families(model: Model) -> Iterator[Hypothesis]:
    for variant in vreq8.VARIANTS:
        if variant != model.evidence.variant:
            yield _altering(variant, partial(replace, variant=variant))
    yield _altering("offset-sign", lambda layer: replace(layer, offsets=-layer.offsets))
    yield _altering("scale-ignored", lambda layer: replace(layer, scales=np.ones_like(layer.scales)))
    yield _altering("bias-missing", lambda layer: replace(layer, bias=np.zeros_like(layer.bias)))
    yield Hypothesis("no-saturation", (), values=_wrapped, keeps_sums=True)
    yield Hypothesis("unsigned-saturation", (), values=_saturated_as_unsigned, keeps_sums=True)
    yield Hypothesis("per-row-scale", (), values=_scaled_by_row, keeps_sums=True)
    tensors, chain = model.evidence.tensors, model.form.chain
    if len(chain) == 2 and chain[0].cout == chain[1].cout:

        def with_other_table(layer: Layer) -> Layer:
            other = chain[2 - layer.number]
            offsets = tensors[other.offsets].astype(np.int64)
            return replace(layer, scales=tensors[other.scales], offsets=offsets)

        def with_other_bias(layer: Layer) -> Layer:
            return replace(layer, bias=tensors[chain[2 - layer.number].bias])

        yield _altering("other-table", with_other_table)
        yield _altering("other-bias", with_other_bias)


def _altering(family: str, altered: Callable[[Layer], Layer]) -> Hypothesis:
    return Hypothesis(family, (), altered=altered, keeps_sums=True)


def _wrapped(layer: Layer, sums: Int32, sites: Ints) -> Int8:
    return np.clip(layer.rounded(sums), -_LARGEST, _LARGEST).astype(np.int64).astype(np.int8)


def _saturated_as_unsigned(layer: Layer, sums: Int32, sites: Ints) -> Int8:
    return np.clip(layer.rounded(sums), 0, 255).astype(np.uint8).view(np.int8)


def _scaled_by_row(layer: Layer, sums: Int32, sites: Ints) -> Int8:
    """Row m of an ACC tile of C channels by entry m % C of theirs in all of them."""
    _, position = layer.split(sites)
    columns, channels = layer.form.columns, np.arange(layer.filter.shape[1])
    entry = (position % layer.form.tile.positions % columns)[:, None] + channels // columns * columns
    acc = sums + layer.bias
    return saturated(vreq8.unsaturated(acc, layer.scale[entry], layer.offsets[entry], layer.variant))
