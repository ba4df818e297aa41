from __future__ import annotations

import pytest

from pipeline.diff.steps import StageParts, parts_of, step_of, words_for, wrong_side
from pipeline.ground.subject import Subject
from workloads import conv, conv_pair
from workloads.faults import FAULTS, STEPS
from workloads.form import Form
from workloads.stages import ProgramRun

SUBJECT = Subject(conv_pair.WORKLOAD, conv_pair.WORKLOAD.example, "a2a3")
TILES = ("first-tile-load", "first-tile-packed", "first-tile-fused-alloc")


def form_of(stage: ProgramRun) -> Form:
    """The form of a stage's program, after those that it builds on."""
    form = SUBJECT.form(stage.program)
    assert form is not None
    for before in map(form_of, stage.given.values()):
        form = before.then(form)
    return form


PARTS: dict[str, StageParts] = {
    stage.name: parts_of(form_of(stage), handed_over=bool(stage.given))
    for stage in conv_pair.WORKLOAD.comparison
    if isinstance(stage, ProgramRun)
}


@pytest.mark.parametrize(
    ("wrong", "step"),
    [
        (("fused",), "hand-over"),
        (("pass2-on-own-mid",), "hand-over"),
        (("fused", "pass2-on-own-mid"), "hand-over"),
        (("fused", "first-tile-fused-alloc"), "load or address"),
        (("first-tile-load", "pass1", "pass2-on-own-mid"), "load"),
        (
            ("fused", "first-tile-load", "first-tile-fused-alloc", "pass1", "pass2-on-own-mid"),
            "layout",
        ),
        (("fused", *TILES, "pass1", "pass2-on-own-mid"), "conv1 or requant1"),
        (("pass1", "pass2-on-own-mid"), "store"),
        (("fused", "pass2-on-golden-mid", "pass2-on-own-mid"), "conv2 or requant2 or store"),
        # What is wrong outside the first tile only is not cleared by the first-tile stages.
        (("fused", "pass1", "pass2-on-own-mid"), "layout or conv1 or requant1"),
    ],
)
def test_the_stages_tell_the_step(wrong: tuple[str, ...], step: str) -> None:
    told = wrong_side({stage: stage not in wrong for stage in PARTS}, "", PARTS)
    assert told.startswith(f"{step} (wrong: ")


def test_a_diagnosis_tells_it_alone() -> None:
    assert wrong_side({"fused": False}, "offset-sign-2", PARTS) == "requant2 (as the diagnosis says)"
    assert wrong_side({"fused": False}, "offset-sign", PARTS).startswith("requant1 and requant2 ")


def test_nothing_wrong_is_no_step() -> None:
    assert wrong_side({"fused": True, "pass1": True}, "", PARTS) == ""


def test_one_stage_alone_tells_no_step() -> None:
    assert wrong_side({"fused": False}, "", PARTS) == ""


def test_every_stage_that_runs_a_program_has_parts() -> None:
    assert set(PARTS) == {
        "fused",
        *TILES,
        "pass1",
        "pass2-on-golden-mid",
        "pass2-on-own-mid",
    }
    assert all(of_stage.parts for of_stage in PARTS.values())
    assert {name for name, of_stage in PARTS.items() if not of_stage.whole} == set(TILES)


def test_a_single_convolution_has_no_hand_over() -> None:
    form = Subject(conv.WORKLOAD, conv.WORKLOAD.example, "a2a3").form("conv")
    assert form is not None
    steps = {part.step for part in parts_of(form, handed_over=False).parts}
    assert steps == {"load", "layout", "address", "conv1", "requant1", "store"}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_step_and_words(name: str) -> None:
    assert step_of(name) in STEPS
    assert words_for(name) == FAULTS[name].what


def test_both_convolutions_at_once_and_the_default_reading_have_step_and_words() -> None:
    assert step_of("bias-missing") == "conv1 and conv2"
    assert words_for("bias-missing") == "in both convolutions: the bias is 0"
    assert step_of("vreq8-2") == "requant2"
    assert step_of("vreq8") == "requant1 and requant2"
    assert "default" in words_for("vreq8-2")
