from __future__ import annotations

import re

import pytest

from pipeline.diff.steps import of_program, step_of, unnumbered, words_for
from workloads.faults import FAULTS, OF_PROGRAM, STEPS


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


@pytest.mark.parametrize("name", [name for name in FAULTS if name.endswith("-1")])
def test_a_convolution_without_a_number_is_named_without_one(name: str) -> None:
    said = f"{unnumbered(words_for(name))}; step {unnumbered(step_of(name))}"
    assert not re.search(r"\bconv ?1|requant(isation)? ?1", said)


def test_a_proof_rules_out_what_moves_elements_within_a_program_and_nothing_else() -> None:
    """It cannot see how numbers are computed, nor what the host hands over and gets back."""
    assert all(name in {*FAULTS} | {fault.family for fault in FAULTS.values()} for name in OF_PROGRAM)
    assert all(map(of_program, ("k-step-skipped-1", "no-padding-left-2-interior", "halo-stale", "band-up")))
    outside = ("offset-sign-2", "fma", "vreq8", "planes-swapped-1", "x-nhwc", "k-order-khkwc-1", "unwritten")
    assert not any(map(of_program, outside))
