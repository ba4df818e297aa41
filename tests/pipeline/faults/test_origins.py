from __future__ import annotations

import emulator.language
from benchmarks.mutants.catalogue.cases import pair_tiling
from golden.geometry import Conv, Geometry
from pipeline.faults.origins import origins
from pipeline.ground.subject import Subject
from workloads import conv_pair
from workloads.base import Workload

GEOMETRY = Geometry(32, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))


def found(program: str, workload: Workload = conv_pair.WORKLOAD) -> dict[str, set[str]]:
    """The origins of the names in the one InCore function of a program."""
    subject = Subject(workload, GEOMETRY, "a2a3", pair_tiling(4))
    built = subject.program(program).build(emulator.language, subject.plan)
    (function,) = (each for each in built.functions.values() if not each.orchestration)
    return {name: set(tensors) for name, tensors in origins(built, function).items()}


def fed_by(names: dict[str, set[str]], *tensors: str) -> set[str]:
    return {name for name, from_ in names.items() if from_ == set(tensors)}


def test_a_parameter_and_what_is_loaded_from_it_come_from_the_tensor_that_main_passes() -> None:
    names = found("fused")
    assert {"filter1", "f1"} <= fed_by(names, "filter1")
    assert {"scale2", "s2"} <= fed_by(names, "scale2")


def test_a_gathered_map_comes_from_x_and_mid_in_l1_from_the_table_that_made_it() -> None:
    names = found("fused")
    assert any("feature_map" in name for name in fed_by(names, "x"))
    assert any("mid" in name for name in fed_by(names, "requantised by scale1"))


def test_what_the_host_packs_comes_from_a_parameter_of_its_own() -> None:
    names = found("first-tile-packed")
    assert "x_band" in fed_by(names, "x_band")
    assert not fed_by(names, "x")


def test_the_order_of_bands_changes_no_origin(reversed_pair: Workload) -> None:
    assert found("reversed", reversed_pair) == found("fused", reversed_pair)
