from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from golden.geometry import Geometry
from pipeline.ground.jobs import WRONG_STEP, Diff, Job, Lane, Result, StageResult, State
from pipeline.work.stages import COMPARISON, concluded, stages_of

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
def test_a_compile_job_with_a_profile_verifies_what_it_compiled(
    job_of: Jobs, done: Done, tmp_path: Path
) -> None:
    result = done(job_of(Lane.COMPILE, "two-pass"))
    assert result.state is State.PASSED
    assert [(stage.name, len(stage.diffs)) for stage in result.stages] == [
        ("pass1", 0),
        ("pass2", 0),
        ("verify-pass1", 1),
        ("verify-pass2", 1),
    ]
    compiled_only = done(job_of(Lane.COMPILE, "two-pass", profile=None), folder="only")
    assert [stage.facts for stage in result.stages[:2]] == [stage.facts for stage in compiled_only.stages]
    assert (tmp_path / "job" / "verify-pass2" / "report.json").exists()


@pytest.mark.usefixtures("torch_installed")
def test_a_second_pass_is_verified_on_what_the_first_one_gave(job_of: Jobs, done: Done) -> None:
    """A fault of conv1 is right in pass2 itself, and yet it must spoil what comes out of it."""
    result = done(job_of(Lane.COMPILE, "two-pass"), inject="bias-missing-1")
    states = {stage.name: stage.state for stage in result.stages}
    assert states == {
        "pass1": State.PASSED,
        "pass2": State.PASSED,
        "verify-pass1": State.MISMATCH,
        "verify-pass2": State.MISMATCH,
    }
    assert result.message.startswith("first wrong stage: verify-pass1: mid: ")
    assert result.causes == ("bias-missing-1",)
    assert "verify-pass1/actual-mid.npy" in result.files


def test_a_mismatch_tells_its_step_by_what_was_verified_not_by_what_compiled(job_of: Jobs) -> None:
    def stage(name: str, state: State, *diffs: Diff) -> StageResult:
        return StageResult(name, state, diffs=diffs)

    right, wrong = Diff("mid", (1,), 1, 0, 0, "", ""), Diff("y", (1,), 1, 1, 1, "", "")
    stages = [
        stage("pass1", State.PASSED),
        stage("pass2", State.PASSED),
        stage("verify-pass1", State.PASSED, right),
        stage("verify-pass2", State.MISMATCH, wrong),
    ]
    facts = concluded(job_of(Lane.COMPILE, "two-pass"), stages, {}, {}).facts
    assert facts[WRONG_STEP].endswith(" (wrong: pass2; right: pass1)")


@pytest.mark.usefixtures("torch_installed")
def test_what_did_not_compile_is_not_verified(job_of: Jobs, done: Done, untileable: Geometry) -> None:
    result = done(job_of(Lane.COMPILE, "two-pass", untileable, None))
    assert result.state is State.COMPILE_ERROR
    assert result.message.startswith("first wrong stage: pass1: 5 output rows are fewer than")
    assert [(stage.name, stage.state, stage.message) for stage in result.stages[2:]] == [
        ("verify-pass1", State.SKIPPED, "pass1 did not compile"),
        ("verify-pass2", State.SKIPPED, "pass2 did not compile"),
    ]


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
