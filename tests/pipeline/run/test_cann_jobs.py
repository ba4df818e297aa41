"""A job that compiles with CANN's PyPTO in a keeper: what its processes leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.tensor import programs
from pipeline.engines.cann.engine import CannEngine
from pipeline.ground.jobs import Job, Platform, State
from pipeline.run.listener import RunSummary
from workloads.registry import workload_named

AVAILABLE = CannEngine().probe(
    Platform("cann-a2a3", backend="cann", soc="a2a3"), workload_named("conv-pair"), ["pass1"]
)

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(not AVAILABLE, reason=AVAILABLE.reason)]


def test_an_order_that_hangs_is_ended_with_its_job_and_the_next_job_passes(
    run: Callable[..., RunSummary], make_job: Callable[..., Job], tmp_path: Path
) -> None:
    """The fixture `run` looks whether any process is left."""
    hanging = tmp_path / "hanging.py"
    hanging.write_text(f"import time\nopen({str(tmp_path / 'began')!r}, 'w')\ntime.sleep(600)\n")

    summary = run(
        make_job(f"compiles:{hanging}", timeout=20.0), make_job(f"compiles:{programs.__file__}"), jobs=1
    )

    assert (tmp_path / "began").exists()
    assert {result.job.kernel.endswith("hanging.py"): result.state for result in summary.results} == {
        True: State.TIMED_OUT,
        False: State.PASSED,
    }
    assert "pipeline.engines.cann.worker" in str([result.facts for result in summary.results])
