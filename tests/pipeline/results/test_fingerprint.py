from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.diff.compare import compare
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import Diff, Result, StageResult
from pipeline.results.fingerprint import fingerprint

JOB = Job(
    "device/emu/mc62/fused/small",
    Lane.DEVICE,
    Platform("emu", "emulator", "a2a3"),
    WorkloadName("conv-pair"),
    "mc62",
    {},
    "fused",
    "small",
    60.0,
)


def wrong(rows: int, by: int = 9) -> Diff:
    """A difference in the last of several bands of an image of so many rows."""
    golden = np.zeros((rows * 4, 32), np.int8)
    actual = golden.copy()
    actual[-12:] = by
    return compare("y", actual, golden, width=4, band_rows=3, sentinel=None)


def mismatch(diff: Diff, *causes: str, stage: str = "fused") -> Result:
    stages = (
        StageResult("first", State.PASSED),
        StageResult(stage, State.MISMATCH, diffs=(diff,), causes=causes),
    )
    return Result(JOB, State.MISMATCH, f"{stage}: {diff.mismatches} differ", stages=stages, causes=causes)


def test_it_names_state_stage_and_likeliest_cause() -> None:
    found = fingerprint(mismatch(wrong(9), "offset-unsigned-1", "offset-sign-1"))
    assert found == "mismatch fused offset-unsigned-1"


def test_it_is_the_same_in_every_geometry_and_another_where_the_failure_is() -> None:
    here, there = fingerprint(mismatch(wrong(9))), fingerprint(mismatch(wrong(30)))
    assert here == there
    others = {
        fingerprint(mismatch(wrong(9), stage="pass1")),
        fingerprint(mismatch(wrong(9, by=1))),
        fingerprint(mismatch(wrong(9), "band-up")),
        fingerprint(replace(mismatch(wrong(9)), state=State.NONDETERMINISTIC)),
    }
    assert len(others | {here}) == 5


def test_the_numbers_of_a_fact_do_not_tell_failures_apart() -> None:
    facts = ("only in ACC tile 5 of 6", "only in ACC tiles 0, 2, ..., 62, 70 and 3 more of 72")
    one, other = (mismatch(replace(wrong(9), facts=(fact.replace("tiles", "tile"),))) for fact in facts)
    assert fingerprint(one) == fingerprint(other) == "mismatch fused only in ACC tile # of #"


def test_names_tell_failures_apart_and_numbers_and_devices_do_not() -> None:
    def one(told: str) -> str:
        return fingerprint(Result(JOB, State.CRASHED, told))

    for same, other in (
        ("row 3 of y", "row 7 of y"),
        ("no answer of device-0", "no answer of device-1"),
        ("/dev/davinci2 is busy since 12s", "/dev/davinci3 is busy since 7s"),
        ("/tmp/tmp8a1b2c3d4e/x.py: no file", "/tmp/tmp11c2ffa834/x.py: no file"),
        ("in run 20260310-040000-1a2b3c4d5e", "in run 20260311-040000-00c0ffee00"),
    ):
        assert one(same) == one(other)
    for this, other in (
        ("no such variant VREQ8", "no such variant VREQ9"),
        ("filter1 must be int8", "filter2 must be int8"),
        ("filter1 must be int8", "filter1 must be int32"),
        ("too large: gemm-128", "too large: gemm-4096"),
        ("refused by conv2d.py:12", "refused by conv3d.py:12"),
    ):
        assert one(this) != one(other)


def test_numbers_and_addresses_do_not_tell_failures_apart() -> None:
    one = Result(JOB, State.CRASHED, "exit code 3; at 0x7f31deadbeef line 12")
    other = Result(JOB, State.CRASHED, "exit code 4; at 0x7f31cafebabe line 7")
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint(replace(one, message="crashed by SIGSEGV"))


def test_a_refused_program_is_known_by_its_reason() -> None:
    def refused(reason: str) -> Result:
        stage = StageResult("fused", State.COMPILE_ERROR, reason)
        return Result(JOB, State.COMPILE_ERROR, reason, stages=(stage,))

    assert fingerprint(refused("L1 needs 600000 B")) == fingerprint(refused("L1 needs 700000 B"))
    assert fingerprint(refused("L1 needs 600000 B")) != fingerprint(refused("no such operator"))


def test_what_did_not_fail_has_none_and_no_message_makes_it_long() -> None:
    for state in (State.PASSED, State.SKIPPED, State.EXPECTED_FAILURE):
        assert fingerprint(Result(JOB, state, "why")) == ""
    text = fingerprint(Result(JOB, State.CRASHED, "a\nb " * 10_000))
    assert len(text) <= 120
    assert "\n" not in text


def refuted(words: str) -> str:
    said = "32768 of 32768 elements are not as defined; y[0, 0] holds a wrong value, must hold y[0, 0]: "
    place = "pl.tile.matmul_acc at blocks.py:116 < fused_conv2d.py:64 < fused_conv2d.py:114, out_tile 0"
    stage = StageResult("fused", State.REFUTED, f"{said}{place}: the sum of y[1, 0]: {words}")
    return fingerprint(Result(JOB, State.REFUTED, stage.message, stages=(stage,)))


def test_long_reasons_that_differ_at_their_end_are_told_apart_and_numbers_are_not() -> None:
    one = refuted("left operand of filter2[160, 0] is padding, must be mid[2, 0]")
    assert one == refuted("left operand of filter2[192, 0] is padding, must be mid[7, 0]")
    words = [
        "left operand of filter2[160, 0] is mid[1, 0], must be mid[2, 0]",
        "begins with no bias, must be b",
    ]
    words += [
        "left operand of filter2[160, 0] is padding, must be x[2, 0]",
        "3 terms are missing",
        "x " * 900,
    ]
    found = {one, *map(refuted, words)}
    assert len(found) == 6
    assert all(len(each) <= 120 and each.startswith("refuted fused ") for each in found)


def test_only_the_line_in_which_a_text_becomes_too_long_counts() -> None:
    """What follows, such as a log, differs from run to run."""
    one, other, third = (
        Result(JOB, State.CRASHED, f"{'why ' * 50}{end}") for end in ("a\nx", "a\ny", "b\nx")
    )
    assert fingerprint(one) == fingerprint(other) != fingerprint(third)
