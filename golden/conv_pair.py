"""What the workload `conv-pair` computes: `y = conv2(conv1(x))`, int8 in and out, each conv with VREQ8."""

from __future__ import annotations

from collections.abc import Mapping

from golden import chain
from golden.chain import Layer
from golden.definition import Definition
from golden.geometry import Geometry
from golden.recipes import chain_profiles
from golden.specs import Array, Tensors, TensorSpec
from golden.terms import Sums

MID, Y = "mid", "y"
"""Names of the two outputs, NHWC rows; mid is what conv2 reads."""


def layers(geometry: Geometry) -> tuple[Layer, Layer]:
    """The two convolutions."""
    return (
        Layer(geometry.height, geometry.width, geometry.cin, geometry.cmid, geometry.conv1, "1", MID),
        Layer(geometry.mid_height, geometry.mid_width, geometry.cmid, geometry.cout, geometry.conv2, "2", Y),
    )


def specs(geometry: Geometry) -> tuple[TensorSpec, ...]:
    """The tensors of a pair, inputs first; `mid` is an output, although `pass2` reads it back."""
    return chain.specs_of(layers(geometry))


def compute(geometry: Geometry, tensors: Tensors, variant: str) -> Mapping[str, Array]:
    """`mid` and `y`, int8 NHWC rows; raises as `golden.chain.compute`."""
    return chain.compute(layers(geometry), tensors, variant).outputs


def terms(geometry: Geometry) -> tuple[Sums, ...]:
    """What each sum of the two convolutions must hold."""
    return chain.terms_of(layers(geometry))


DEFINITION = Definition(
    "conv-pair", Geometry, specs, chain_profiles(layers, ("1", "2")), compute, terms=terms
)
