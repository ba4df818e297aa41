"""A program as its layers, made from the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from golden.chain import INPUT, image_of
from golden.specs import Int8
from pipeline.diff.evidence import Evidence
from pipeline.diff.hypotheses.layers import Ints, Layer, with_zeros
from workloads.form import Convolution, Form, Loading


@dataclass(frozen=True, eq=False)
class Model:
    """A program's layers and the rows they read.

    Attributes:
        evidence: what it is made from.
        form: the evidence's.
        first, second: the convolutions; None where the program does not have it.
    """

    evidence: Evidence
    form: Form
    first: Layer | None
    second: Layer | None

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that the program has, in order."""
        return tuple(layer for layer in (self.first, self.second) if layer is not None)

    @property
    def last(self) -> Layer:
        """The layer whose output is the evidence's tensor."""
        return self.layers[-1]

    @cached_property
    def x(self) -> Int8:
        """The input in the buffers of the first layer's parts, int8 [pixels + 1, Cin], zeros at the end."""
        assert self.first is not None
        return with_zeros(self.image[self.first.buffers()])

    @cached_property
    def image(self) -> Int8:
        """The input as NHWC rows."""
        return image_of(self.form.chain, self.evidence.tensors[INPUT])

    @cached_property
    def mid(self) -> Int8:
        """The golden's mid in the buffers of the second layer's parts, zeros at the end."""
        assert self.second is not None
        return with_zeros(self.golden_mid[self.second.buffers()])

    @property
    def golden_mid(self) -> Int8:
        """What the second layer must read, as NHWC rows."""
        return cast(Int8, self.evidence.outputs[self._second_form.source])

    @property
    def mid_in_gm(self) -> bool:
        """Whether the second layer loads mid from GM; else the first fills its buffers in place."""
        return self._second_form.loading is not Loading.IN_L1

    @property
    def _second_form(self) -> Convolution:
        second = self.form.convolution(2)
        assert second is not None
        return second

    @cached_property
    def mid_sites(self) -> Ints:
        """For every pixel of the second layer's buffers, the site of the first layer it comes from."""
        assert self.second is not None
        return self.second.buffers() if self.mid_in_gm else np.arange(self.second.base[-1])


def model_of(evidence: Evidence, form: Form) -> Model:
    """The layers of the evidence's program, of which the form is known."""
    first, second = (
        _layer(convolution, evidence) if convolution is not None else None
        for convolution in (form.convolution(1), form.convolution(2))
    )
    return Model(evidence, form, first, second)


def _layer(convolution: Convolution, evidence: Evidence) -> Layer:
    layer, tensors = convolution.layer, evidence.tensors
    return Layer(
        number=convolution.number,
        conv=layer.conv,
        parts=convolution.parts,
        order=convolution.order,
        width=layer.out_width,
        image_width=layer.width,
        tile=convolution.tile,
        filter=tensors[layer.filter],
        bias=tensors[layer.bias],
        scales=tensors[layer.scales],
        offsets=tensors[layer.offsets].astype(np.int64),
        variant=evidence.variant,
    )
