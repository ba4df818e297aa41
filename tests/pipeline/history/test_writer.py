from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import Attempt, Diff, Metric, Source, StageResult
from pipeline.history.past import ContentError
from pipeline.history.store import open_history
from pipeline.report.results import RunResults

from .conftest import OTHER, SHA, contents, ended, job_named, night


def test_all_of_a_run_is_there(place: str | Path) -> None:
    metrics = (
        Metric("cycles", 86901, "cycles", Source.COST_MODEL),
        Metric("device_us", 12.5, "us", Source.DEVICE_CLOCK, model="910B"),
    )
    diffs = (Diff("y", (2, 32), 64, 3, 10, OTHER, SHA), Diff("mid", (2, 32), 64, 0, 0, SHA, SHA))
    one = ended(
        "a",
        "mismatch fused unwritten",
        message="bad \x00 \udcff text",
        seconds=2.5,
        device=1,
        peak_memory=5_000_000_000,
        stages=(StageResult("fused", State.MISMATCH, seconds=2.0, diffs=diffs, metrics=metrics),),
        tries=(Attempt("npu-0", State.INFRASTRUCTURE, "507018"), Attempt("npu-1", State.MISMATCH, "", 2.5)),
    )
    with open_history(place) as history:
        history.record(night(0, one))
        runs, versions, results, attempts, stages, all_diffs, counts, timings = contents(history)
    ((run, *_),) = runs
    assert run == "20260301-040000-0000000000"
    assert [version[1:] for version in versions] == [("python", "3.11.7")]
    ((_, job, state, seconds, device, fingerprint, backends, message, entry, peak_memory),) = results
    assert job == ("device/a2a3/g/k/a", "device", "a2a3", "g", "k", "a")
    assert (state, seconds, device, entry) == ("mismatch", 2.5, ("h1", "npu-1"), None)
    assert (fingerprint, backends) == (("mismatch fused unwritten",), ("pypto",))
    assert (message, peak_memory) == ("bad text", 5_000_000_000)
    assert [(one[1], one[2], one[3], one[5]) for one in attempts] == [
        (1, ("h1", "npu-0"), "infrastructure", "507018"),
        (2, ("h1", "npu-1"), "mismatch", None),
    ]
    assert [stage[1:] for stage in stages] == [(("fused",), "mismatch", 2.0)]
    assert [diff[2:] for diff in all_diffs] == [
        (("y",), ("golden",), 64, 3, 10, SHA, OTHER),
        (("mid",), ("golden",), 64, 0, 0, SHA, None),
    ]
    assert [count[1:] for count in counts] == [(("cycles",), 86901)]
    assert [timing[1:] for timing in timings] == [(("device_us",), 12.5, ("910B",))]


def saying(**changes: Any) -> RunResults:
    """A night with a diff that says something else."""
    diff = replace(Diff("y", (1, 1), 1, 1, 1, SHA, OTHER), **changes)
    return night(0, ended("a", stages=(StageResult("fused", State.MISMATCH, diffs=(diff,)),)))


@pytest.mark.parametrize(
    "bad",
    [
        saying(mismatches=10**30),
        saying(actual_sha="zz"),
        saying(golden_sha="a"),
        msgspec.structs.replace(night(0), exit_code=10**20),
        msgspec.structs.replace(night(0), jobs=(replace(ended("a"), state=State.PLANNED),)),
        night(0, replace(ended("a"), job=job_named("\udcff"))),
    ],
)
def test_what_no_history_can_hold_is_refused_and_others_come_in(bad: RunResults, place: str | Path) -> None:
    with open_history(place) as history:
        with pytest.raises(ContentError, match=f"^run {bad.run}: its results cannot be brought in: "):
            history.record(bad)
        assert history.record(night(1, ended("a")))
        assert history.run_ids() == (night(1).run,)
