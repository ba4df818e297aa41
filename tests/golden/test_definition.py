"""What holds for the data of every definition: seeds replay, and tensors are as the specs say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golden import conv, conv_pair, gemm
from golden.definition import Definition, DefinitionError
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from golden.profiles import Profile, ProfileError
from golden.specs import Array, Role, Tensors

pytest.importorskip("torch", reason="torch is not installed")

DEFINITIONS: Mapping[str, Definition] = {
    one.name: one for one in (conv_pair.DEFINITION, conv.DEFINITION, gemm.DEFINITION)
}
GEOMETRIES = {
    "conv-pair": Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)),
    "conv": ConvGeometry(24, 16, 64, 64, Conv(3, 2, 1)),
    "gemm": GemmGeometry(48, 64, 96),
}
PROFILES = [(name, profile) for name, one in DEFINITIONS.items() for profile in one.profiles]


@pytest.mark.parametrize("workload", ["conv-pair", "conv"])
def test_the_names_the_specification_asks_for_are_there(workload: str) -> None:
    names = set(DEFINITIONS[workload].profiles)
    impulses = {name for name in names if name.startswith("impulse-")}
    assert names == {"small", "full-range", "ties", "near-ties", "edges", "channels", *impulses}
    assert len(impulses) == 4


@pytest.mark.parametrize(("workload", "name"), PROFILES)
def test_a_name_always_gives_the_same_values_and_another_seed_gives_others(workload: str, name: str) -> None:
    def values(full_name: str) -> list[bytes]:
        tensors = DEFINITIONS[workload].make(full_name, GEOMETRIES[workload])
        return [array.tobytes() for array in tensors.arrays("vreq8").values()]

    assert values(name) == values(f"{name}@0")
    assert len({tuple(values(f"{name}@{seed}")) for seed in range(5)}) > 1


@pytest.mark.parametrize("workload", DEFINITIONS)
def test_nightly_must_be_resolved_before_data_is_made(workload: str) -> None:
    with pytest.raises(ProfileError, match="'small@nightly': the seed must be a plain number"):
        DEFINITIONS[workload].make("small@nightly", GEOMETRIES[workload])


def test_a_profile_of_another_workload_is_unknown() -> None:
    with pytest.raises(ProfileError, match="unknown profile 'ties': known are small, full-range, extremes"):
        DEFINITIONS["gemm"].make("ties", GEOMETRIES["gemm"])


@pytest.mark.parametrize("workload", DEFINITIONS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_profile_gives_tensors_as_specified(
    workload: str, data: st.DataObject, geometries: Mapping[str, st.SearchStrategy[Any]]
) -> None:
    definition = DEFINITIONS[workload]
    geometry = data.draw(geometries[workload])
    arrays = definition.make(data.draw(st.sampled_from(sorted(definition.profiles))), geometry).arrays(
        "vreq8"
    )
    specs = [spec for spec in definition.specs(geometry) if spec.role is not Role.OUTPUT]
    assert list(arrays) == [spec.name for spec in specs]
    for spec in specs:
        assert (arrays[spec.name].shape, arrays[spec.name].dtype) == (spec.shape, spec.dtype)
        assert arrays[spec.name].flags.c_contiguous


@pytest.mark.parametrize(("workload", "name"), PROFILES)
def test_the_golden_gives_each_output_as_specified(workload: str, name: str) -> None:
    definition, geometry = DEFINITIONS[workload], GEOMETRIES[workload]
    outputs = definition.compute(geometry, definition.make(name, geometry), "vreq8")
    wanted = [spec for spec in definition.specs(geometry) if spec.role is Role.OUTPUT]
    assert [(name, array.shape, array.dtype) for name, array in outputs.items()] == [
        (spec.name, spec.shape, spec.dtype) for spec in wanted
    ]


# What a profile or a golden gives against the specs


def broken_profile(workload: str, change: Callable[[dict[str, Any]], Any]) -> str:
    """The message with which a workload refuses a profile whose arrays are changed so."""
    definition, geometry = DEFINITIONS[workload], GEOMETRIES[workload]

    def build(geometry: Any, draw: Any) -> Any:
        arrays = dict(definition.profiles["small"].build(geometry, draw))
        changed = change(arrays)
        return arrays if changed is None else changed

    mine = replace(definition, name="mine", profiles={"odd": Profile("changed", build)})
    with pytest.raises(DefinitionError) as caught:
        mine.make("odd@3", geometry)
    return str(caught.value)


@pytest.mark.parametrize(
    ("workload", "change", "message"),
    [
        ("gemm", lambda a: a.update(b=a["b"].T), ": b is int8 [96, 64]: must be int8 [64, 96]"),
        (
            "gemm",
            lambda a: a.update(a=a["a"].astype(float)),
            ": a is float64 [48, 64]: must be int8 [48, 64]",
        ),
        ("gemm", lambda a: a.update(a=[[1]]), ": a is a list: must be int8 [48, 64]"),
        ("gemm", lambda a: a.update(c=a["a"]), " gives a, b, c, the specs declare a, b"),
        ("gemm", lambda a: {"a": a["a"]}, " gives a, the specs declare a, b"),
        ("gemm", lambda a: a["a"], " gives a ndarray: it must give a dict of arrays: a, b"),
        (
            "conv",
            lambda a: a.update(scales=a["scales"].astype(float)),
            ": scales is float64 [64]: must be float32 [64]",
        ),
        (
            "conv",
            lambda a: a.update(offsets=a["offsets"].astype(np.float32)),
            ": offsets is float32 [64]: must be whole numbers [64]",
        ),
        (
            "conv",
            lambda a: a.update(offsets=np.full(64, 256)),
            ": scale: channel 0: offset is 256: must be -256..255 (9 bits)",
        ),
    ],
)
def test_a_profile_that_gives_other_arrays_is_refused_by_name(
    workload: str, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    assert broken_profile(workload, change) == f"profile odd of workload mine{message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: {"c": c.astype(np.int8)}, ": c is int8 [48, 96]: the specs declare int32 [48, 96]"),
        (lambda c: {"c": c.T}, ": c is int32 [96, 48]: the specs declare int32 [48, 96]"),
        (lambda c: {"c": c.tolist()}, ": c is a list: the specs declare int32 [48, 96]"),
        (lambda c: {"z": c}, " gives z, the specs declare c"),
        (lambda c: {"c": c, "z": c}, " gives c, z, the specs declare c"),
        (lambda c: {}, " gives nothing, the specs declare c"),
        (lambda c: None, " gives a NoneType: it must give a dict of arrays: c"),
    ],
)
def test_a_golden_that_gives_other_outputs_is_refused(change: Callable[[Any], Any], message: str) -> None:
    right, geometry = DEFINITIONS["gemm"], GEOMETRIES["gemm"]

    def compute(geometry: Any, tensors: Tensors, variant: str) -> Mapping[str, Array]:
        given: Mapping[str, Array] = change(right.compute(geometry, tensors, variant)["c"])
        return given

    mine = replace(right, name="mine", compute=compute)
    with pytest.raises(DefinitionError) as caught:
        mine.computed(geometry, mine.make("small", geometry), "vreq8")
    assert str(caught.value) == f"golden of workload mine{message}"
