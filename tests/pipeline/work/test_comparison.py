from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.cache import golden_for
from pipeline.ground.jobs import Job, Lane, State, WorkloadName
from pipeline.ground.results import Result
from pipeline.ground.subject import wanted_golden

Jobs = Callable[..., Job]
Done = Callable[..., Result]


@pytest.mark.usefixtures("torch_installed")
def test_a_wrong_output_is_kept(job_of: Jobs, done: Done, tmp_path: Path) -> None:
    job = job_of(Lane.DEVICE, "fused")
    result = done(job, inject="bias-missing-2")
    golden = golden_for(wanted_golden(job, None), tmp_path / "cache")
    kept = np.load(tmp_path / "job" / "fused" / "actual-y.npy")
    (diff,) = result.stages[0].diffs
    assert np.count_nonzero(kept != golden.outputs["y"]) == diff.mismatches > 0
    assert [band.name for band in diff.bands] == [
        "band 0 (first) rows 0..3",
        "band 1 (interior) rows 4..7",
        "band 2 (last) rows 8..11",
    ]


@pytest.mark.usefixtures("torch_installed")
def test_a_stage_without_the_output_it_needs_is_skipped(samples: Any, done: Done, refusing: str) -> None:
    """Pass1 is refused; pass2 and fused are not."""
    result = done(samples["conv-pair"].job(Lane.COMPARE, workload=WorkloadName("refusing", refusing)))
    assert result.state is State.COMPILE_ERROR
    assert result.stages[0].state is State.PASSED
    assert result.message.startswith("first wrong stage: pass1: ")
    last = {stage.name: stage for stage in result.stages[-2:]}
    assert last["pass2-on-own-mid"].state is State.SKIPPED
    assert last["pass2-on-own-mid"].message == "needs the output of pass1, which gave none"
    assert last["two-pass-vs-fused"].state is State.SKIPPED
