from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from golden.cache import golden_for
from golden.geometry import Conv, Geometry
from pipeline.jobs import Job, JobContext, Lane, Platform, Result, State
from pipeline.stages import COMPARISON, execute, stages_of

SMALL = Geometry(24, 32, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))
UNTILEABLE = Geometry(5, 5, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))
"""Rows of 5 pixels: a tile of whole rows would need 16 of them."""


def job_of(lane: Lane, kernel: str = "pair", geometry: Geometry = SMALL, band_rows: int | None = 4) -> Job:
    platform = Platform("emu", "emulator", "a2a3")
    profile = None if lane is Lane.COMPILE else "small"
    return Job(
        f"{lane.value}/emu/g/{kernel}", lane, platform, "g", geometry, kernel, profile, 60.0, None, band_rows
    )


def done(job: Job, folder: Path, *, stage: str = "all", inject: str = "") -> Result:
    return execute(job, JobContext(folder / "job", None, folder / "cache", stage=stage, inject=inject))


def test_a_kernels_stages_are_its_programs() -> None:
    assert [stage.name for stage in stages_of(job_of(Lane.DEVICE, "fused"), "all")] == ["fused"]
    pass1, pass2 = stages_of(job_of(Lane.DEVICE, "two-pass"), "all")
    assert (pass1.program, pass1.mid) == ("pass1", "")
    assert (pass2.program, pass2.mid) == ("pass2", "pass1")  # on what pass1 gave, not on the golden's


def test_the_comparison_isolates_less_at_each_stage() -> None:
    all_stages = stages_of(job_of(Lane.COMPARE), "all")
    assert all_stages is COMPARISON
    assert [(stage.name, stage.program, stage.mid, stage.against) for stage in all_stages[-4:]] == [
        ("pass1", "pass1", "", ""),
        ("pass2-on-golden-mid", "pass2", "", ""),
        ("pass2-on-own-mid", "pass2", "pass1", ""),
        ("two-pass-vs-fused", "", "pass2-on-own-mid", "fused"),
    ]
    assert [stage.name for stage in stages_of(job_of(Lane.COMPARE), "tile")] == [
        "fused",
        "first-tile-load",
        "first-tile-packed",
        "first-tile-fused-alloc",
    ]


def test_compiling_needs_no_golden(tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPILE, "two-pass"), tmp_path)
    assert result.state is State.PASSED
    assert [stage.name for stage in result.stages] == ["pass1", "pass2"]
    assert not any(stage.diffs for stage in result.stages)
    assert not (tmp_path / "cache").exists()
    assert {path.name for path in (tmp_path / "job" / "pass2").iterdir()} == {"report.json", "listing.txt"}


def test_what_cannot_be_tiled_is_a_compile_error_with_the_rule(tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPILE, "fused", UNTILEABLE, None), tmp_path)
    assert result.state is State.COMPILE_ERROR
    assert result.message == "5 output rows are fewer than the 16 of a tile"


@pytest.mark.usefixtures("torch_installed")
def test_a_right_pair_passes_every_stage(tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPARE), tmp_path)
    assert (result.state, result.message) == (State.PASSED, "")
    assert [stage.name for stage in result.stages] == [stage.name for stage in COMPARISON]
    for stage in result.stages:
        (diff,) = stage.diffs
        assert diff.clean
        assert diff.against == ("fused" if stage.name == "two-pass-vs-fused" else "golden")
    tensors = {stage.name: stage.diffs[0].tensor for stage in result.stages}
    assert tensors["first-tile-load"] == "tile"
    assert tensors["pass1"] == "mid"
    assert tensors["pass2-on-own-mid"] == "y"
    assert not list(tmp_path.rglob("actual-*.npy"))


@pytest.mark.usefixtures("torch_installed")
def test_a_fault_of_conv2_leaves_the_stages_before_it_clean(tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPARE), tmp_path, inject="bias-missing-2")
    assert result.state is State.MISMATCH
    assert result.message.startswith("first wrong stage: fused: y: ")
    wrong = [stage.name for stage in result.stages if stage.state is State.MISMATCH]
    assert wrong == ["fused", "pass2-on-golden-mid", "pass2-on-own-mid"]
    assert result.facts["injected"] == "bias-missing-2"


@pytest.mark.usefixtures("torch_installed")
def test_a_fault_of_conv1_is_seen_by_every_stage_that_computes_it(tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPARE), tmp_path, inject="bias-missing-1")
    states = {stage.name: stage.state for stage in result.stages}
    assert states.pop("pass2-on-golden-mid") is State.PASSED
    assert states.pop("two-pass-vs-fused") is State.PASSED  # both are wrong in the same way
    assert set(states.values()) == {State.MISMATCH}


@pytest.mark.usefixtures("torch_installed")
def test_a_wrong_output_is_kept(tmp_path: Path) -> None:
    job = job_of(Lane.DEVICE, "fused")
    result = done(job, tmp_path, inject="bias-missing-2")
    golden = golden_for(SMALL, "small", "vreq8", tmp_path / "cache")
    kept = np.load(tmp_path / "job" / "fused" / "actual-y.npy")
    (diff,) = result.stages[0].diffs
    assert np.count_nonzero(kept != golden.y) == diff.mismatches > 0
    assert [band.name for band in diff.bands] == [
        "band 0 (first) rows 0..3",
        "band 1 (interior) rows 4..7",
        "band 2 (last) rows 8..11",
    ]


@pytest.mark.usefixtures("torch_installed")
def test_a_stage_without_the_output_it_needs_is_skipped(tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPARE, geometry=UNTILEABLE, band_rows=None), tmp_path)
    assert result.state is State.COMPILE_ERROR
    assert result.message.startswith("first wrong stage: fused: ")
    last = {stage.name: stage for stage in result.stages[-2:]}
    assert last["pass2-on-own-mid"].state is State.SKIPPED
    assert last["pass2-on-own-mid"].message == "needs the output of pass1, which gave none"
    assert last["two-pass-vs-fused"].state is State.SKIPPED
