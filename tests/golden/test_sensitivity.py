"""Every profile's golden depends on every tensor, on stride and on padding: what it ignored went untested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from golden import chain, conv, conv_pair, gemm, layout
from golden.definition import Definition
from golden.draw import Draw
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from golden.specs import Role, Tensors

pytest.importorskip("torch", reason="torch is not installed")

CHAINS: Mapping[str, Any] = {"conv-pair": conv_pair, "conv": conv}
DEFINITIONS: Mapping[str, Definition] = {
    one.name: one for one in (conv_pair.DEFINITION, conv.DEFINITION, gemm.DEFINITION)
}
GEOMETRIES: Mapping[str, tuple[str, Any]] = {
    "24x16": ("conv-pair", Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))),
    "stride 2 twice": ("conv-pair", Geometry(17, 13, 96, 64, 128, Conv(3, 2, 1), Conv(3, 2, 1))),
    "128 channels": ("conv-pair", Geometry(9, 8, 128, 128, 32, Conv(3, 1, 1), Conv(3, 1, 1))),
    "conv stride 2": ("conv", ConvGeometry(17, 13, 96, 64, Conv(3, 2, 1))),
    "conv 128 channels": ("conv", ConvGeometry(9, 8, 128, 32, Conv(3, 1, 1))),
    "gemm": ("gemm", GemmGeometry(48, 64, 96)),
    "gemm, deeper than high": ("gemm", GemmGeometry(16, 128, 32)),
}
ELEMENTS = 6

Change = Callable[[np.ndarray, int, Tensors], None]


def far_int8(values: np.ndarray, at: int, tensors: Tensors) -> None:
    values[at] = -128 if values[at] >= 0 else 127


def two_output_steps(scales: str) -> Change:
    def change(values: np.ndarray, at: int, tensors: Tensors) -> None:
        values[at] += np.ceil(2 / tensors[scales][at])

    return change


def doubled(values: np.ndarray, at: int, tensors: Tensors) -> None:
    values[at] *= 2


def one_more(values: np.ndarray, at: int, tensors: Tensors) -> None:
    values[at] += 1 if values[at] < 255 else -1


def changes(definition: Definition, geometry: Any) -> Mapping[str, Change]:
    """For each kept array of a workload a change that must be seen."""
    found: dict[str, Change] = {}
    for spec in definition.specs(geometry):
        if spec.role is Role.TABLE:
            found |= dict(zip(spec.parts, (doubled, one_more), strict=True))
        elif spec.role is Role.BIAS:
            found[spec.name] = two_output_steps(spec.name.replace("bias", "scales"))
        elif spec.role is not Role.OUTPUT:
            found[spec.name] = far_int8
    return found


def golden(definition: Definition, geometry: Any, tensors: Tensors) -> np.ndarray:
    """The last output."""
    return list(definition.compute(geometry, tensors, "vreq8").values())[-1]


def changed(definition: Definition, geometry: Any, tensors: Tensors, name: str, at: int) -> Tensors:
    values = tensors[name].copy()
    changes(definition, geometry)[name](values.reshape(-1), at, tensors)
    return replace(tensors, values={**tensors.values, name: values})


def meeting_something(definition: Definition, geometry: Any, tensors: Tensors, name: str) -> np.ndarray:
    """Elements of a filter, or of b, that meet a non-zero value in some window, or in a."""
    if definition.name == "gemm":
        assert name == "b"
        met = tensors["a"] != 0
    else:
        layers = CHAINS[definition.name].layers(geometry)
        images = chain.compute(layers, tensors).outputs
        (number,) = (number for number, layer in enumerate(layers) if layer.filter == name)
        layer, before = layers[number], layers[number - 1].output
        image = tensors["x"]
        if number:
            nchw = images[before].T.reshape(1, -1, layer.height, layer.width)
            image = layout.nchw_to_nc1hwc0(nchw)
        met = layout.img2col(image, layer.height, layer.width, layer.conv) != 0
    return np.flatnonzero(np.repeat(met.any(axis=0), tensors[name].shape[1]))


@pytest.mark.parametrize(
    ("where", "profile", "name"),
    [
        (where, profile, name)
        for where, (workload, geometry) in GEOMETRIES.items()
        for profile in DEFINITIONS[workload].profiles
        for name in changes(DEFINITIONS[workload], geometry)
    ],
)
def test_changing_one_element_changes_the_golden(profile: str, name: str, where: str) -> None:
    workload, geometry = GEOMETRIES[where]
    definition = DEFINITIONS[workload]
    tensors = definition.make(profile, geometry)
    plain = golden(definition, geometry, tensors)
    elements = np.arange(tensors[name].size)
    if name in definition.profiles[profile].exceptions:
        elements = meeting_something(definition, geometry, tensors, name)
    picked = elements[Draw(3).integers(0, elements.size - 1, (ELEMENTS,))]
    without_effect = [
        int(at)
        for at in picked
        if np.array_equal(
            golden(definition, geometry, changed(definition, geometry, tensors, name, at)), plain
        )
    ]
    assert without_effect == []


UNMET = {
    "conv-pair": Geometry(17, 13, 96, 64, 128, Conv(3, 2, 1), Conv(3, 3, 1)),
    "conv": ConvGeometry(17, 13, 96, 64, Conv(3, 2, 1)),
    "gemm": GemmGeometry(16, 128, 32),
}
"""Geometries in which the exceptions of every profile have elements."""


@pytest.mark.parametrize(
    ("workload", "profile", "name"),
    [
        (workload, profile, tensor)
        for workload, definition in DEFINITIONS.items()
        for profile, kind in definition.profiles.items()
        for tensor in kind.exceptions
    ],
)
def test_exceptions_are_honest(workload: str, profile: str, name: str) -> None:
    """Where a profile says that some elements cannot reach the output, there are such, and others too."""
    definition, geometry = DEFINITIONS[workload], UNMET[workload]
    tensors = definition.make(profile, geometry)
    elements = np.arange(tensors[name].size)
    meeting = meeting_something(definition, geometry, tensors, name)
    others = np.setdiff1d(elements, meeting)
    assert meeting.size
    assert others.size
    plain = golden(definition, geometry, tensors)
    for at in others[Draw(3).integers(0, others.size - 1, (ELEMENTS,))]:
        louder = changed(definition, geometry, tensors, name, at)
        assert np.array_equal(golden(definition, geometry, louder), plain)


OTHERS = [
    (where, conv, field, value)
    for where, (workload, geometry) in GEOMETRIES.items()
    for conv in {"conv-pair": ("conv1", "conv2"), "conv": ("conv",), "gemm": ()}[workload]
    for field, values in {"stride": (1, 2, 3), "padding": (0, 1, 2)}.items()
    for value in values
    if getattr(getattr(geometry, conv), field) != value
]


@pytest.mark.parametrize(("where", "conv", "field", "value"), OTHERS)
@pytest.mark.parametrize("profile", conv_pair.DEFINITION.profiles)
def test_another_stride_or_padding_changes_the_golden(
    profile: str, where: str, conv: str, field: str, value: int
) -> None:
    workload, geometry = GEOMETRIES[where]
    definition = DEFINITIONS[workload]
    other = replace(geometry, **{conv: replace(getattr(geometry, conv), **{field: value})})
    tensors = definition.make(profile, geometry)
    one, two = (
        golden(definition, shape, tensors).reshape(shape.out_height, shape.out_width, -1)
        for shape in (geometry, other)
    )
    height, width = (min(sizes) for sizes in zip(one.shape[:2], two.shape[:2], strict=True))
    assert not np.array_equal(one[:height, :width], two[:height, :width])
