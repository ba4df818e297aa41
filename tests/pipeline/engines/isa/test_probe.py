"""What is made of answers; those of `tests/data/isa` were recorded from the public headers."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import emulator.language
from emulator.engine import run_program
from emulator.soc import SOCS
from golden.vreq8 import VARIANTS
from pipeline.engines.isa import questions
from pipeline.engines.isa.probe import Measured, Reading, judge, read
from pipeline.ground.jobs import Platform
from pipeline.ground.memory import untouched_output

RECORDED = json.loads((Path(__file__).resolve().parents[3] / "data" / "isa" / "answers.json").read_text())
NEW, OLD = (
    "3186c381bd49e1164092e67ff1b3564302754e76",
    "c92877ba717b3a0837c23f2b10798b31b463887f",  # the commit before the one that scales by channel
)
BY_CHANNEL, BY_ROW = Reading("offset-unsigned"), Reading("offset-unsigned", by_row=True)
PLATFORM = Platform("isa", "isa", "a2a3", "offset-unsigned")


def test_no_two_readings_answer_alike() -> None:
    ways = list(product(questions.READINGS, (False, True)))
    for one, other in combinations(ways, 2):
        first, second = (questions.answers(variant, by_row=by_row) for variant, by_row in (one, other))
        assert (first != second).any(), (one, other)


@pytest.mark.parametrize(("variant", "by_row"), [*product(questions.READINGS, (False, True))])
def test_the_answers_of_a_reading_are_read_as_it(variant: str, by_row: bool) -> None:
    assert read(questions.answers(variant, by_row=by_row)) == Reading(variant, by_row)


def test_all_variants_but_one_of_packing_are_readings() -> None:
    assert set(VARIANTS) - set(questions.READINGS) == {"scale19-rne"}


@pytest.mark.parametrize("variant", [variant for variant in questions.READINGS if variant != "scale32"])
def test_the_emulator_answers_as_the_golden(variant: str) -> None:
    """Both of the kernel's ways; the table's low bits of the scale are those that 19 bits leave out."""
    given = questions.inputs()
    given["scale"] = given["scale"] & ~np.uint64(0x1FFF)
    outputs = {name: untouched_output((16, 32), np.dtype(np.int8)) for name in ("inserted", "stored")}
    run_program(questions.build(emulator.language), SOCS["a2a3"], {**given, **outputs}, variant)
    for output in outputs.values():
        np.testing.assert_array_equal(output, questions.answers(variant))


@pytest.mark.parametrize(
    ("revision", "instruction", "reading"),
    [
        (NEW, "inserted", BY_CHANNEL),
        (NEW, "stored", BY_ROW),
        (OLD, "inserted", BY_ROW),
        (OLD, "stored", BY_ROW),
    ],
)
def test_recorded_answers_are_read(revision: str, instruction: str, reading: Reading) -> None:
    assert read(np.array(RECORDED[revision][instruction], np.int8)) == reading


def test_one_other_answer_is_no_known_reading() -> None:
    answers = questions.answers("vreq8")
    answers[3, 5] += 1
    assert read(answers).unknown == (
        "no known reading: nearest is vreq8 by channel, of which 1 of 512 answers differ, "
        f"the first at [3, 5]: {answers[3, 5]} instead of {answers[3, 5] - 1}"
    )


def test_headers_that_do_what_the_platform_declares_are_taken() -> None:
    assert judge(Measured(BY_CHANNEL, BY_ROW), PLATFORM, "abc")


def test_a_platform_may_declare_another_packing_of_what_is_read() -> None:
    other = Platform("isa", "isa", "a2a3", "scale19-rne")
    assert judge(Measured(Reading("vreq8")), other, "abc")
    assert not judge(Measured(Reading("scale32")), other, "abc")


@pytest.mark.parametrize(
    ("measured", "reason", "remedy"),
    [
        (Measured(BY_ROW, BY_ROW), "pto-isa (abc): TINSERT_FP scales by row", "787d692d (20 August 2026)"),
        (
            Measured(Reading("vreq8")),
            "pto-isa (abc) requantises by vreq8, but platform isa declares offset-unsigned",
            "write `variant: vreq8`",
        ),
        (Measured(Reading(unknown="no known reading: x")), "TINSERT_FP follows no known", "PTO_ISA_ROOT"),
        (Measured(failure="it does not build"), "cannot be probed: it does not build", "PTO_ISA_ROOT"),
    ],
)
def test_other_headers_are_refused_with_the_reason(measured: Measured, reason: str, remedy: str) -> None:
    found = judge(measured, PLATFORM, "abc")
    assert not found
    assert reason in found.reason
    assert remedy in found.remedy
