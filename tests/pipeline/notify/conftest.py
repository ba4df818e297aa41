"""Runs to tell of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.ground.results import Result
from pipeline.report.results import RunResults, results_of
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.states import exit_code

RUN = "20260310-040000-0000000001"


@pytest.fixture
def told() -> Callable[..., RunResults]:
    """The results of a run with these jobs, and what else its summary says."""

    def make(*jobs: Result, **more: Any) -> RunResults:
        folder = Path("/runs") / RUN
        started = "2026-03-10T04:00:00+00:00"
        info = RunInfo(RUN, folder, tuple(one.job for one in jobs), started, 1, {"git": "abc", "host": "h"})
        return results_of(
            info, RunSummary(RUN, folder, jobs, exit_code(one.state for one in jobs), 1.0, **more)
        )

    return make
