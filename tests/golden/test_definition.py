"""What holds for the data of every definition: seeds replay, and tensors are as the specs say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golden import conv, conv_pair, gemm
from golden.definition import Definition
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from golden.profiles import ProfileError
from golden.specs import Role

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
    assert names == {"small", "full-range", "ties", "edges", "channels", *impulses}
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
