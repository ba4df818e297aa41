"""The matrix that ships with the project: the shapes it covers, and that all of them can be tiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from emulator.soc import SOCS
from golden.geometry import MC62, Conv, ConvGeometry, GemmGeometry, Geometry
from kernels.plan import Plan
from pipeline.ground.jobs import Job, Lane
from pipeline.ground.subject import geometry_of, subject_of
from pipeline.matrix.expand import expand, named
from pipeline.matrix.load import load
from pipeline.matrix.schema import Matrix
from workloads.registry import SHIPPED, workload_named
from workloads.tiling import CONTRACT

MATRIX = Path(__file__).resolve().parents[3] / "matrix.yaml"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load([MATRIX])


@pytest.fixture(scope="module")
def jobs(matrix: Matrix) -> tuple[Job, ...]:
    return expand(matrix, date(2026, 11, 30))


@pytest.fixture(scope="module")
def plans(jobs: tuple[Job, ...]) -> Mapping[str, Any]:
    return {job.geometry_name: subject_of(job).plan for job in jobs if job.platform.soc == "a2a3"}


@pytest.fixture(scope="module")
def shapes(matrix: Matrix) -> Mapping[str, Any]:
    """The geometries of the matrix, each of the type of its workload."""
    found = {}
    for name, facts in matrix.geometries.items():
        assert facts.declaration is not None
        found[name] = geometry_of(facts.declaration, facts.shapes)
    return found


def test_every_geometry_can_be_tiled_on_every_soc(jobs: tuple[Job, ...], plans: Mapping[str, Any]) -> None:
    one_of_each = {job.geometry_name: job for job in jobs}
    for soc in SOCS:
        for name, job in one_of_each.items():
            plan = subject_of(job, replace(job.platform, soc=soc)).plan
            # L0C and rates differ, which decide about ACC tiles and blocks unless they are written.
            assert plan == plans[name] or not job.plan_options


def test_mc62_is_written_as_the_contract_tiles_it(matrix: Matrix) -> None:
    assert matrix.geometries["mc62"].plan_options == CONTRACT


def test_an_id_is_made_of_the_jobs_fields(jobs: tuple[Job, ...]) -> None:
    assert jobs == tuple(map(named, jobs))


def test_every_workload_that_is_shipped_has_a_geometry(matrix: Matrix) -> None:
    assert {facts.workload.name for facts in matrix.geometries.values()} == set(SHIPPED)
    assert not [facts for facts in matrix.geometries.values() if facts.workload.file]


def test_the_two_given_shapes_are_there(shapes: Mapping[str, Any]) -> None:
    assert shapes["mc62"] == MC62
    assert shapes["pair-24x16"] == Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))


def test_the_pairs_cover_bands_channels_and_strides(
    shapes: Mapping[str, Any], plans: Mapping[str, Any]
) -> None:
    pairs = [one for one in shapes.values() if isinstance(one, Geometry)]
    of_pairs: list[Plan] = [plan for plan in plans.values() if isinstance(plan, Plan)]
    assert len(pairs) == len(of_pairs)
    assert {1, 2} <= {len(plan.bands) for plan in of_pairs}
    small = [plan for plan in of_pairs if plan.geometry.macs < MC62.macs / 10]
    assert any(
        len(plan.bands) > 3 and plan.geometry.cin == plan.geometry.cmid == plan.geometry.cout
        for plan in small
    )
    assert any(plan.geometry.out_height % plan.band_rows and len(plan.bands) > 2 for plan in of_pairs)
    assert {32, 64, 96} <= {channels for one in pairs for channels in (one.cin, one.cmid, one.cout)}
    assert {1, 2} == {one.conv1.stride for one in pairs} == {one.conv2.stride for one in pairs}
    assert sum(one.macs < MC62.macs / 10 for one in pairs) >= 5


def test_the_convolutions_are_the_downsampling_layer_of_mc62_and_one_of_another_kernel(
    shapes: Mapping[str, Any],
) -> None:
    convs = [one for one in shapes.values() if isinstance(one, ConvGeometry)]
    assert ConvGeometry(144, 112, 64, 64, Conv(3, 2, 1)) in convs
    assert {3, 5} <= {one.conv.kernel for one in convs}


def test_the_matrix_products_need_one_block_and_several(
    shapes: Mapping[str, Any], plans: Mapping[str, Any]
) -> None:
    products = {name: one for name, one in shapes.items() if isinstance(one, GemmGeometry)}
    assert {True, False} == {plans[name].band_rows < one.m for name, one in products.items()}


def test_the_emulators_run_every_kernel_on_every_shape_and_profile(
    matrix: Matrix, jobs: tuple[Job, ...]
) -> None:
    for platform, name in product(("emu-a2a3", "emu-a5"), SHIPPED):
        workload = workload_named(name)
        of_both = [job for job in jobs if job.platform.name == platform and job.workload.name == name]
        geometries = {each for each, facts in matrix.geometries.items() if facts.workload.name == name}
        for lane in (Lane.COMPILE, Lane.DEVICE):
            combinations = {(job.geometry_name, job.kernel) for job in of_both if job.lane is lane}
            assert combinations == set(product(geometries, workload.kernel_names))
        run_on = {profile.partition("@")[0] for job in of_both if (profile := job.profile)}
        assert run_on == set(workload.definition.profiles)


def test_cann_verifies_what_it_compiles_and_nothing_else_does(jobs: tuple[Job, ...]) -> None:
    verified = {(job.geometry_name, job.kernel) for job in jobs if job.lane is Lane.COMPILE and job.profile}
    compiled = [job for job in jobs if job.lane is Lane.COMPILE and job.platform.backend == "cann"]
    assert verified == {(job.geometry_name, job.kernel) for job in compiled}
    assert {"mc62", "pair-24x16"} <= {geometry for geometry, _ in verified}
    assert {job.profile for job in compiled} == {"full-range@7"}


def test_a_shipped_id_reads_as_the_docs_say(jobs: tuple[Job, ...]) -> None:
    ids = [job.id for job in jobs]
    assert len(ids) == len(set(ids))
    assert {
        "compile/emu-a2a3/mc62/fused",
        "device/emu-a2a3/mc62/fused/small",
        "compare/emu-a2a3/mc62/small",
        "compile/cann-a2a3/mc62/two-pass",
    } <= set(ids)
    assert not [job_id for job_id in ids if "/cann-a2a3/" in job_id and "first-tile" in job_id]
