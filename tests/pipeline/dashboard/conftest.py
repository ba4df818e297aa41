"""Runs to make dashboards of."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.dashboard.earlier import Earlier
from pipeline.dashboard.site import write_dashboard
from pipeline.ground.jobs import State
from pipeline.ground.results import FINGERPRINT, NEW, SINCE, Diff, Mismatch, Region, Result, StageResult
from pipeline.report.results import RunResults, results_of
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.states import exit_code

ROOT = Path(__file__).parents[3]
RUN = "20260302-040000-0000000001"
BEGAN = "2026-03-02T04:00:00+00:00"

Make = Callable[..., RunResults]


@pytest.fixture(scope="session")
def hostile_texts() -> list[str]:
    """Texts that can reach a dashboard."""
    beside = ROOT.parent / "shared" / "cases"
    folder = beside if beside.is_dir() else ROOT / "tests" / "data" / "cases"
    texts: list[str] = json.loads((folder / "hostile-text.json").read_text())["texts"]
    return texts


@pytest.fixture(scope="session")
def run_of() -> Make:
    """The document of a run of these results; facts are those of the run, or fields of its summary."""

    def make(*results: Result, run: str = RUN, **fields: Any) -> RunResults:
        info = RunInfo(run, Path("unused"), tuple(one.job for one in results), BEGAN, 1, {"host": "h1"})
        code = exit_code(one.state for one in results)
        return results_of(info, RunSummary(run, Path("unused"), results, code, 60.0, **fields))

    return make


@pytest.fixture(scope="session")
def wrong(result_of: Callable[..., Result]) -> Callable[..., Result]:
    """A job whose output is wrong in one band and channel, new in this run; options are those of a result."""

    def make(job_id: str, **options: Any) -> Result:
        band = Region("band 1 rows 4..7", 128, 7, 3)
        diff = Diff(
            "y", (16, 8), 128, 7, 3, "a" * 64, "b" * 64, bands=(band,), first=(Mismatch((4, 5, 6), -3, 0),)
        )
        stage = StageResult("fused", State.MISMATCH, "y: 7 of 128 elements differ", diffs=(diff,))
        facts = {FINGERPRINT: "mismatch fused", SINCE: NEW, **options.pop("facts", {})}
        made = result_of(job_id, State.MISMATCH, stages=(stage,), facts=facts)
        return replace(made, **{"message": stage.message, "started": BEGAN, "seconds": 2.0, **options})

    return make


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write the dashboard of a run; gives its folder."""

    def write(results: RunResults, kept: Path | None = None, earlier: Earlier | None = None) -> Path:
        folder = (kept or tmp_path) / "dashboard"
        write_dashboard(results, folder, kept, earlier or Earlier("there is no history here"))
        return folder

    return write
