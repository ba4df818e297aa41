"""The matrix that ships with the project: the shapes it covers, and that all of them can be tiled."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
from kernels.catalogue import KERNELS

from emulator.soc import SOCS
from golden.geometry import MC62, Conv, Geometry
from golden.profiles import PROFILES
from kernels.plan import Plan
from pipeline.ground.jobs import Job, Lane
from pipeline.ground.tiling import plan_for
from pipeline.matrix.expand import expand, named
from pipeline.matrix.load import load
from pipeline.matrix.model import Matrix

MATRIX = Path(__file__).resolve().parents[3] / "matrix.yaml"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load([MATRIX])


@pytest.fixture(scope="module")
def jobs(matrix: Matrix) -> tuple[Job, ...]:
    return expand(matrix, date(2026, 11, 30))


@pytest.fixture(scope="module")
def plans(jobs: tuple[Job, ...]) -> Mapping[str, Plan]:
    return {job.geometry_name: plan_for(job.geometry, "a2a3", job.band_rows) for job in jobs}


def test_every_geometry_can_be_tiled_on_every_soc(jobs: tuple[Job, ...], plans: Mapping[str, Plan]) -> None:
    shapes = {job.geometry_name: (job.geometry, job.band_rows) for job in jobs}
    for soc in SOCS:
        for name, (geometry, band_rows) in shapes.items():
            assert plan_for(geometry, soc, band_rows) == plans[name]


def test_an_id_is_made_of_the_jobs_fields(jobs: tuple[Job, ...]) -> None:
    assert jobs == tuple(map(named, jobs))


def test_the_two_given_shapes_are_there(matrix: Matrix) -> None:
    assert matrix.geometries["mc62"] == MC62
    assert matrix.geometries["pair-24x16"] == Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))


def test_the_shapes_cover_bands_channels_and_strides(matrix: Matrix, plans: Mapping[str, Plan]) -> None:
    shapes = matrix.geometries.values()
    assert {1, 2} <= {len(plan.bands) for plan in plans.values()}
    assert any(plan.geometry.out_height % plan.band_rows and len(plan.bands) > 2 for plan in plans.values())
    assert {32, 64, 96} <= {channels for one in shapes for channels in (one.cin, one.cmid, one.cout)}
    assert {1, 2} == {one.conv1.stride for one in shapes} == {one.conv2.stride for one in shapes}
    assert sum(one.macs < MC62.macs / 10 for one in shapes) >= 5


def test_the_emulators_run_every_kernel_on_every_shape_and_profile(
    matrix: Matrix, jobs: tuple[Job, ...]
) -> None:
    for platform in ("emu-a2a3", "emu-a5"):
        of_platform = [job for job in jobs if job.platform.name == platform]
        for lane in (Lane.COMPILE, Lane.DEVICE):
            combinations = {(job.geometry_name, job.kernel) for job in of_platform if job.lane is lane}
            assert len(combinations) == len(matrix.geometries) * len(KERNELS)
        assert {name.partition("@")[0] for job in of_platform if (name := job.profile)} == set(PROFILES)


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
