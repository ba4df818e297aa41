from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pipeline.diff.compare import compare
from pipeline.jobs import OUTCOMES, Outcome, Result, StageResult, State
from pipeline.report.overview import MEANING, overview

MakeResult = Callable[..., Result]


def test_every_red_state_has_a_meaning() -> None:
    red = {state for state, end in OUTCOMES.items() if end.outcome in (Outcome.FAILURE, Outcome.ERROR)}
    assert set(MEANING) == red


def test_results_that_differ_in_numbers_only_are_one_group_and_the_largest_is_first(
    result_of: MakeResult,
) -> None:
    results = [
        result_of("device/a5/mc62/fused/small", State.CRASHED, message="signal 11"),
        *(
            result_of(f"device/a2a3/g{n}/fused/small", State.MISMATCH, message=f"y: {n} of 64 differ")
            for n in range(1, 4)
        ),
        result_of("device/a5/mc62/two-pass/small"),
        result_of("device/a2a3sim/mc62/fused/small", State.SKIPPED, message="no toolchain; install it"),
        result_of("device/a5sim/mc62/fused/small", State.SKIPPED, message="no toolchain; install it"),
    ]
    seen = overview(results)
    assert [(g.state, len(g.results), g.message) for g in seen.broken] == [
        (State.MISMATCH, 3, "y: 1 of 64 differ"),
        (State.CRASHED, 1, "signal 11"),
    ]
    assert seen.broken[0].where == (
        "lane device; platform a2a3; geometry g1, g2, g3; kernel fused; profile small"
    )
    assert [(len(g.results), g.message) for g in seen.skipped] == [(2, "no toolchain; install it")]
    assert seen.line == "4 of 7 jobs are red: 1 passed, 3 mismatch, 1 crashed, 2 skipped"


def test_a_clean_run_is_said_to_be_so(result_of: MakeResult) -> None:
    assert overview([result_of("device/a5/mc62/fused/small")]).line == "no job is red: 1 passed"
    assert overview([]).line == "no job is red: no jobs"


@pytest.mark.parametrize(
    ("rows", "channels", "by", "why"),
    [
        (slice(24, None), slice(None), 9, "padding, halo or row offset of these bands"),
        (slice(None), slice(0, 1), 9, "bias, scale, offset or filter column of these channels"),
        (slice(24, None), slice(None), 1, "rounding"),
        (slice(24, None), slice(None), -86, "part of the output is never stored"),
        (slice(None), slice(None), 9, "the output differs from the golden"),
    ],
)
def test_why_is_read_from_the_form_of_the_difference(
    result_of: MakeResult, rows: slice, channels: slice, by: int, why: str
) -> None:
    golden = np.zeros((36, 32), np.int8)
    actual = golden.copy()
    actual[rows, channels] += by
    diff = compare("y", actual, golden, width=4, band_rows=3, sentinel=-86)
    stages = (StageResult("fused", State.MISMATCH, diffs=(diff,)),)
    result = result_of("device/a5/mc62/fused/small", State.MISMATCH, stages=stages)
    (group,) = overview([result]).broken
    assert group.why.startswith(why)
    assert group.message.startswith("fused: y: ")


def test_a_diagnosis_is_the_cause_where_there_is_one(result_of: MakeResult) -> None:
    results = [
        result_of(
            f"device/a5sim/mc62/{kernel}/small",
            State.MISMATCH,
            message=f"{kernel} is wrong",
            facts={"diagnosis": "offset-unsigned", "reproduce": "python -m pipeline run --id x"},
        )
        for kernel in ("fused", "two-pass")
    ]
    (group,) = overview(results).broken
    assert group.why == "offset-unsigned"
    assert group.again == "python -m pipeline run --id x"
