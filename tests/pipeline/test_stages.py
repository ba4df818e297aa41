from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from golden.geometry import Geometry
from pipeline.jobs import Job, Lane, Result, State
from pipeline.stages import COMPARISON, stages_of

Jobs = Callable[..., Job]
Done = Callable[..., Result]


def test_a_kernels_stages_are_its_programs(job_of: Jobs) -> None:
    assert [stage.name for stage in stages_of(job_of(Lane.DEVICE, "fused"), "all")] == ["fused"]
    pass1, pass2 = stages_of(job_of(Lane.DEVICE, "two-pass"), "all")
    assert (pass1.program, pass1.mid) == ("pass1", "")
    assert (pass2.program, pass2.mid) == ("pass2", "pass1")  # on what pass1 gave, not on the golden's


def test_the_comparison_isolates_less_at_each_stage(job_of: Jobs) -> None:
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


def test_compiling_needs_no_golden(job_of: Jobs, done: Done, tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPILE, "two-pass", profile=None))
    assert result.state is State.PASSED
    assert [stage.name for stage in result.stages] == ["pass1", "pass2"]
    assert not any(stage.diffs for stage in result.stages)
    assert not (tmp_path / "cache").exists()
    assert {path.name for path in (tmp_path / "job" / "pass2").iterdir()} == {"report.json", "listing.txt"}


def test_what_cannot_be_tiled_is_a_compile_error_with_the_rule(
    job_of: Jobs, done: Done, untileable: Geometry
) -> None:
    result = done(job_of(Lane.COMPILE, "fused", untileable, None, None))
    assert result.state is State.COMPILE_ERROR
    assert result.message == "5 output rows are fewer than the 16 of a tile"


@pytest.mark.usefixtures("torch_installed")
def test_a_right_pair_passes_every_stage(job_of: Jobs, done: Done, tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPARE))
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
def test_a_fault_of_conv2_leaves_the_stages_before_it_clean(job_of: Jobs, done: Done) -> None:
    result = done(job_of(Lane.COMPARE), inject="bias-missing-2")
    assert result.state is State.MISMATCH
    assert result.message.startswith("first wrong stage: fused: y: ")
    wrong = [stage.name for stage in result.stages if stage.state is State.MISMATCH]
    assert wrong == ["fused", "pass2-on-golden-mid", "pass2-on-own-mid"]
    assert result.facts["injected"] == "bias-missing-2"


@pytest.mark.usefixtures("torch_installed")
def test_a_fault_of_conv1_is_seen_by_every_stage_that_computes_it(job_of: Jobs, done: Done) -> None:
    result = done(job_of(Lane.COMPARE), inject="bias-missing-1")
    states = {stage.name: stage.state for stage in result.stages}
    assert states.pop("pass2-on-golden-mid") is State.PASSED
    assert states.pop("two-pass-vs-fused") is State.PASSED  # both are wrong in the same way
    assert set(states.values()) == {State.MISMATCH}
