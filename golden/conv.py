"""What the workload `conv` computes: one convolution, int8 in and out, with VREQ8."""

from __future__ import annotations

from collections.abc import Mapping

from golden import chain
from golden.chain import Layer
from golden.definition import Definition
from golden.geometry import ConvGeometry
from golden.recipes import chain_profiles
from golden.specs import Array, Tensors, TensorSpec
from golden.terms import Sums


def layers(geometry: ConvGeometry) -> tuple[Layer]:
    """The one convolution: `x`, `filter`, `bias`, `scale` to `y`."""
    shapes = geometry.height, geometry.width, geometry.cin, geometry.cout, geometry.conv
    return (Layer(*shapes, suffix="", output="y", groups=geometry.groups),)


def specs(geometry: ConvGeometry) -> tuple[TensorSpec, ...]:
    """The tensors of the convolution, inputs first."""
    return chain.specs_of(layers(geometry))


def compute(geometry: ConvGeometry, tensors: Tensors, variant: str) -> Mapping[str, Array]:
    """`y`, int8 NHWC rows; raises as `golden.chain.compute`."""
    return chain.compute(layers(geometry), tensors, variant).outputs


def terms(geometry: ConvGeometry) -> tuple[Sums, ...]:
    """What each sum of the convolution must hold."""
    return chain.terms_of(layers(geometry))


DEFINITION = Definition("conv", ConvGeometry, specs, chain_profiles(layers, ("",)), compute, terms=terms)
