"""A program as its layers, made from the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from golden.chain import INPUT, image_of
from golden.specs import Int8
from pipeline.diff.evidence import Evidence
from pipeline.diff.hypotheses.layers import Layer
from workloads.form import Convolution, Form


@dataclass(frozen=True, eq=False)
class Model:
    """What a program is made of: the evidence and its form, and the layers that the program has, in order."""

    evidence: Evidence
    form: Form
    layers: tuple[Layer, ...]

    @property
    def last(self) -> Layer:
        """The layer whose output is the evidence's tensor."""
        return self.layers[-1]

    @property
    def expected(self) -> Int8:
        """What the program must give, with zeros in channels that the workload does not have."""
        output = self.evidence.outputs[self.evidence.tensor]
        return cast(Int8, output[: len(self.evidence.expected)])


def model_of(evidence: Evidence, form: Form) -> Model:
    """The layers of the evidence's program, of which the form is known."""
    return Model(evidence, form, tuple(_layer(one, evidence, form) for one in form.convolutions))


def _layer(convolution: Convolution, evidence: Evidence, form: Form) -> Layer:
    shapes, tensors = convolution.layer, evidence.tensors
    first = convolution.number == 1
    image = image_of(form.chain, tensors[INPUT]) if first else evidence.outputs[convolution.source]
    return Layer(
        form=convolution,
        image=cast(Int8, image),
        filter=tensors[shapes.filter],
        bias=tensors[shapes.bias],
        scales=tensors[shapes.scales],
        offsets=tensors[shapes.offsets].astype(np.int64),
        variant=evidence.variant,
    )
