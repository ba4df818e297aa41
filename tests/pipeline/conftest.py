"""What tests of the pipeline share."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from golden.geometry import Conv, Geometry
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.matrix.expand import COMPARED
from pipeline.work.stages import execute

SMALL = Geometry(24, 32, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))


@pytest.fixture
def full_disk() -> Callable[[], AbstractContextManager[None]]:
    """In its context no file of this process can grow: not even those with which SQLite locks."""

    @contextmanager
    def full() -> Iterator[None]:
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, usual[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)

    return full


@pytest.fixture(scope="session")
def job_of() -> Callable[..., Job]:
    """Makes a job of the emulator: of a lane, a kernel, a geometry and the workload that this is one of."""

    def make(
        lane: Lane,
        kernel: str = COMPARED,
        geometry: Any = SMALL,
        band_rows: int | None = 4,
        profile: str | None = "small",
        workload: str = "conv-pair",
    ) -> Job:
        return Job(
            id=f"{lane.value}/emu/g/{kernel}",
            lane=lane,
            platform=Platform("emu", "emulator", "a2a3"),
            workload=WorkloadName(workload),
            geometry_name="g",
            geometry=msgspec.to_builtins(geometry),
            kernel=kernel,
            profile=profile,
            timeout=60.0,
            plan_options={} if band_rows is None else {"band_rows": band_rows},
        )

    return make


@pytest.fixture
def done(tmp_path: Path) -> Callable[..., Result]:
    """Does a job, with its goldens in the folder `cache`; an option is one of `Settings`."""

    def do(job: Job, folder: str = "job", **options: Any) -> Result:
        return execute(job, JobContext(tmp_path / folder, None, tmp_path / "cache", Settings(**options)))

    return do


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pictures of a mismatch are empty files: to draw them takes longer than the rest of a small job."""
    monkeypatch.setattr("pipeline.diff.files.draw_heatmap", lambda path, counts, axes: path.touch())


@pytest.fixture(scope="session")
def untileable() -> Geometry:
    """A C1 plane of the rows that one row of y needs is more than L1 holds."""
    return Geometry(5, 12_000, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))


@pytest.fixture(scope="session")
def result_of() -> Callable[..., Result]:
    """Builds a `Result` from a job's id and an end state."""

    def make(job_id: str, state: State = State.PASSED, **facts: Any) -> Result:
        lane, platform, geometry, name = job_id.split("/", 3)
        kernel, _, profile = f"all/{name}".partition("/") if lane == "compare" else name.partition("/")
        job = Job(
            id=job_id,
            lane=Lane(lane),
            platform=Platform(platform, "emulator", "a2a3"),
            workload=WorkloadName("conv-pair"),
            geometry_name=geometry,
            geometry={},
            kernel=kernel,
            profile=profile or None,
            timeout=60.0,
        )
        return Result(job=job, state=state, **facts)

    return make
