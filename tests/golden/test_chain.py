"""Chains of convolutions: the given pairs, and every sum against int64 arithmetic by definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import chain, conv, conv_pair, layout, vreq8
from golden.geometry import MC62, Conv, ConvGeometry, Geometry
from golden.inputs import load_inputs
from golden.specs import Role

GIVEN = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
CONV = ConvGeometry(24, 16, 64, 64, Conv(3, 2, 1))
CHAINS: Mapping[str, Any] = {"conv-pair": conv_pair, "conv": conv}


def by_definition(image: np.ndarray, taps: np.ndarray, conv: Conv) -> np.ndarray:
    """Sums [Hout, Wout, Cout] of an image [H, W, Cin] and taps [kh, kw, Cin, Cout], window by window."""
    image = np.pad(image.astype(np.int64), (conv.sides[:2], conv.sides[2:], (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(image, taps.shape[:2], axis=(0, 1))
    taken = windows[:: conv.stride_rows, :: conv.stride_columns]
    return np.einsum("hwcij,ijco->hwo", taken, taps.astype(np.int64))


def image_of(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image kept in NC1HWC0 as [H, W, C]."""
    return x.reshape(-1, height, width, 32).transpose(1, 2, 0, 3).reshape(height, width, -1)


def taps_of(matrix: np.ndarray, conv: Conv) -> np.ndarray:
    """A filter kept as [K, Cout], K running (c1, kh, kw, c0), as [kh, kw, Cin, Cout]."""
    rows, columns = conv.kernel_rows, conv.kernel_columns
    taps = matrix.reshape(-1, rows, columns, 32, matrix.shape[1]).transpose(1, 2, 0, 3, 4)
    return taps.reshape(rows, columns, -1, matrix.shape[1])


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize("name", ["full-range", "ties"])
def test_given_pairs_match_exactly(cases: Path, name: str) -> None:
    path = cases / f"conv-pair-24x16-{name}.npz"
    tensors = load_inputs(path, conv_pair.specs(GIVEN))
    computed = chain.compute(conv_pair.layers(GIVEN), tensors).outputs
    assert list(computed) == ["mid", "y"]
    with np.load(path) as wanted:
        assert np.array_equal(computed["mid"], wanted["mid"])
        assert np.array_equal(computed["y"], wanted["y"])


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize("workload", CHAINS)
@settings(max_examples=60)
@given(data=st.data())
def test_every_geometry_agrees_with_int64_arithmetic(
    workload: str, data: st.DataObject, geometries: Mapping[str, st.SearchStrategy[Any]]
) -> None:
    module = CHAINS[workload]
    geometry = data.draw(geometries[workload])
    variant = data.draw(st.sampled_from(vreq8.VARIANTS))
    tensors = module.DEFINITION.make("full-range", geometry)
    computed = chain.compute(module.layers(geometry), tensors, variant)
    image = image_of(tensors["x"], geometry.height, geometry.width)
    for layer in module.layers(geometry):
        taps = taps_of(tensors[layer.filter], layer.conv)
        sums = by_definition(image, taps, layer.conv) + tensors[layer.bias]
        assert sums.shape == (layer.out_height, layer.out_width, layer.cout)
        output = computed.outputs[layer.output]
        assert computed.sums[layer.output].dtype == np.int32
        assert np.array_equal(computed.sums[layer.output], sums.reshape(-1, layer.cout))
        table = tensors.table(layer.scale, variant)
        assert output.dtype == np.int8
        assert np.array_equal(output, vreq8.requantise(computed.sums[layer.output], table, variant))
        image = output.reshape(sums.shape)
    outputs = module.DEFINITION.compute(geometry, tensors, variant)
    assert list(outputs) == list(computed.outputs)
    assert all(np.array_equal(outputs[name], output) for name, output in computed.outputs.items())


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(
    "geometry",
    [
        ConvGeometry(9, 8, 3, 5, Conv(3, 2, 1)),
        ConvGeometry(9, 8, 96, 48, Conv(3, 1, 1), 3),
        ConvGeometry(9, 8, 40, 80, Conv((3, 2), 1, (2, 1, 0, 1), (2, 3)), 40),
        ConvGeometry(4, 3, 40, 8, Conv(3, 1, 5, 5)),  # the image is smaller than a window
        ConvGeometry(7, 8, 264, 66, Conv(5, 1, 2), 2),  # a group's sums are split, to be exact in fp32
    ],
)
def test_groups_and_dilation_agree_with_int64_arithmetic(geometry: ConvGeometry) -> None:
    tensors, (layer,) = conv.DEFINITION.make("full-range", geometry), conv.layers(geometry)
    kernel, groups = geometry.conv, geometry.groups
    image = image_of(tensors["x"], geometry.height, geometry.width)
    assert not image[..., geometry.cin :].any()
    weights = layout.matrix_to_filter(tensors["filter"], kernel)  # [Cout, Cin / groups, kh, kw]
    spread = np.zeros((*weights.shape[:2], kernel.window_rows, kernel.window_columns), np.int64)
    spread[..., :: kernel.dilation_rows, :: kernel.dilation_columns] = weights
    dense = replace(kernel, kernel=spread.shape[2:], dilation=1)
    reads, gives = geometry.cin // groups, geometry.cout // groups
    sums = [
        by_definition(
            image[..., group * reads : (group + 1) * reads],
            spread[group * gives : (group + 1) * gives].transpose(2, 3, 1, 0),
            dense,
        )
        for group in range(groups)
    ]
    wanted = np.concatenate(sums, axis=2).reshape(-1, geometry.cout) + tensors["bias"]
    assert np.array_equal(chain.compute((layer,), tensors).sums["y"], wanted)


@pytest.mark.parametrize(
    "geometry",
    [
        ConvGeometry(5, 6, 70, 70, Conv((2, 3), 2, (1, 0, 1, 2), (2, 1)), 2),
        ConvGeometry(5, 6, 3, 2, Conv(1, 1, 0)),
    ],
)
def test_terms_multiply_what_the_convolution_multiplies(geometry: ConvGeometry) -> None:
    """The sums of the terms of all groups, on random numbers, are those of the golden."""
    tensors = conv.DEFINITION.make("full-range", geometry)
    found = np.zeros((geometry.out_height * geometry.out_width, geometry.cout), np.int64)
    for sums in conv.terms(geometry):
        positions, depths, columns = map(np.arange, sums.shape)
        left, right = sums.left[1](positions, depths), sums.right[1](depths, columns)
        x = np.where(left < 0, 0, tensors["x"].reshape(-1)[np.maximum(left, 0)])
        products = x.astype(np.int64) @ tensors["filter"].reshape(-1)[right].astype(np.int64)
        assert sums.bias is not None
        found.reshape(-1)[sums.result[1](positions, columns)] += (
            products + tensors["bias"][0, sums.bias[1](columns)]
        )
    assert np.array_equal(found, chain.compute(conv.layers(geometry), tensors).sums["y"])


PROFILES = {"round-then-add": "ties", "half-away": "ties", "fma": "near-ties", "exact": "near-ties"}


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(("workload", "geometry"), [("conv-pair", GIVEN), ("conv", CONV)])
@pytest.mark.parametrize("variant", vreq8.VARIANTS[1:])
def test_variants_differ_where_the_data_tells_them_apart(
    variant: str, workload: str, geometry: Geometry | ConvGeometry
) -> None:
    definition = CHAINS[workload].DEFINITION
    name = PROFILES.get(variant, "full-range")
    tensors = definition.make(name, geometry)
    plain = definition.compute(geometry, tensors, "vreq8")["y"]
    assert not np.array_equal(definition.compute(geometry, tensors, variant)["y"], plain)


def test_mc62_lies_in_memory_as_the_specification_says() -> None:
    specs = {spec.name: spec for spec in conv_pair.specs(MC62)}
    assert {name: spec.shape for name, spec in specs.items()} == {
        "x": (64512, 32),
        "filter1": (576, 64),
        "bias1": (1, 64),
        "scale1": (1, 64),
        "filter2": (576, 64),
        "bias2": (1, 64),
        "scale2": (1, 64),
        "mid": (8064, 64),
        "y": (8064, 64),
    }
    assert [name for name, spec in specs.items() if spec.role is Role.OUTPUT] == ["mid", "y"]
    kinds = {"bias1": np.int32, "bias2": np.int32, "scale1": np.uint64, "scale2": np.uint64}
    assert all(spec.dtype == kinds.get(name, np.int8) for name, spec in specs.items())


def test_the_tensors_of_one_convolution_lie_as_those_of_a_pair() -> None:
    """The memory orders are those of the specification; only the numbers behind the names are gone."""
    specs = conv.specs(ConvGeometry(288, 112, 64, 96, Conv(3, 2, 1)))
    assert [(spec.name, spec.shape, spec.dtype.name, spec.role.value) for spec in specs] == [
        ("x", (64512, 32), "int8", "image"),
        ("filter", (576, 96), "int8", "filter"),
        ("bias", (1, 96), "int32", "bias"),
        ("scale", (1, 96), "uint64", "table"),
        ("y", (8064, 96), "int8", "output"),
    ]


@pytest.mark.parametrize("geometry", [GIVEN, MC62])
def test_the_layers_of_a_pair_have_the_shapes_of_its_geometry(geometry: Geometry) -> None:
    first, second = conv_pair.layers(geometry)
    assert (first.out_height, first.out_width) == (geometry.mid_height, geometry.mid_width)
    assert (second.height, second.width) == (geometry.mid_height, geometry.mid_width)
    assert (second.out_height, second.out_width) == (geometry.out_height, geometry.out_width)
    assert (first.depth, second.depth) == (geometry.depth1, geometry.depth2)
    assert (first.cin, first.cout, second.cin, second.cout) == (
        geometry.cin,
        geometry.cmid,
        geometry.cmid,
        geometry.cout,
    )
    assert (first.output, second.output) == ("mid", "y")
