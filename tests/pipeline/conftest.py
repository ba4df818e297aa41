"""What tests of a job's work share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden.geometry import Conv, Geometry
from pipeline.ground.jobs import Job, JobContext, Lane, Platform, Result
from pipeline.ground.settings import Settings
from pipeline.work.stages import execute

SMALL = Geometry(24, 32, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))


@pytest.fixture(scope="session")
def job_of() -> Callable[..., Job]:
    """Makes a job of the emulator: of a lane, a kernel and a geometry."""

    def make(
        lane: Lane,
        kernel: str = "pair",
        geometry: Geometry = SMALL,
        band_rows: int | None = 4,
        profile: str | None = "small",
    ) -> Job:
        platform = Platform("emu", "emulator", "a2a3")
        job_id = f"{lane.value}/emu/g/{kernel}"
        return Job(job_id, lane, platform, "g", geometry, kernel, profile, 60.0, None, band_rows)

    return make


@pytest.fixture
def done(tmp_path: Path) -> Callable[..., Result]:
    """Does a job, with its goldens in the folder `cache`; an option is one of `Settings`."""

    def do(job: Job, folder: str = "job", **options: Any) -> Result:
        return execute(job, JobContext(tmp_path / folder, None, tmp_path / "cache", Settings(**options)))

    return do


@pytest.fixture(scope="session")
def untileable() -> Geometry:
    """Rows of 5 pixels: a tile of whole rows would need 16 of them."""
    return Geometry(5, 5, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))
