from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pipeline.diff.compare import compare
from pipeline.ground.jobs import ExpectedFailure, State
from pipeline.ground.results import OUTCOMES, Outcome, Result, StageResult
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


def test_wrong_kernels_come_first_then_what_is_new_then_large_groups(result_of: MakeResult) -> None:
    def ended(name: str, count: int, state: State, since: str = "") -> list[Result]:
        facts = {"since": since} if since else {}
        jobs = [f"device/a5/g{number}/fused/{name}" for number in range(count)]
        return [result_of(job, state, message=f"{name} is wrong", facts=facts) for job in jobs]

    results = [
        *ended("old crash", 9, State.CRASHED, "20260301-040000-000000"),
        *ended("new crash", 1, State.CRASHED, "new"),
        *ended("hang", 12, State.TIMED_OUT),
        *ended("old wrong", 3, State.MISMATCH, "20260301-040000-000000"),
        *ended("refused", 2, State.COMPILE_ERROR, "new"),
        *ended("new wrong", 1, State.MISMATCH, "new"),
        *ended("now and then", 4, State.NONDETERMINISTIC, "20260301-040000-000000"),
    ]
    assert [group.message.removesuffix(" is wrong") for group in overview(results).broken] == [
        *("refused", "new wrong", "now and then", "old wrong"),
        *("new crash", "hang", "old crash"),
    ]


def test_a_clean_run_is_said_to_be_so(result_of: MakeResult) -> None:
    assert overview([result_of("device/a5/mc62/fused/small")]).line == "no job is red: 1 passed"


def test_a_run_that_executed_nothing_is_not_called_clean(result_of: MakeResult) -> None:
    skipped = result_of("device/a5/mc62/fused/small", State.SKIPPED, message="no toolchain")
    excused = result_of("device/a5/mc62/fused/ties", State.EXPECTED_FAILURE, message="known")
    assert overview([skipped]).line == "nothing was executed: 1 skipped"
    assert overview([]).line == "nothing was executed: no jobs"
    assert overview([skipped, excused]).line == "no job is red: 1 skipped, 1 expected-failure"


def test_what_different_entries_excuse_is_told_apart(result_of: MakeResult) -> None:
    """Each message says which entry that is, and what to add to it."""
    results = []
    for kernel, reason in (("fused", "one"), ("two-pass", "other"), ("first-tile-load", "one")):
        made = result_of(
            f"device/a5/mc62/{kernel}/small", State.EXPECTED_FAILURE, message=reason, causes=("unwritten",)
        )
        job = replace(made.job, expected_failure=ExpectedFailure(reason, "https://issues.example/1"))
        results.append(replace(made, job=job))
    assert [(len(g.results), g.message) for g in overview(results).skipped] == [(2, "one"), (1, "other")]


@pytest.mark.parametrize(
    ("rows", "channels", "by", "why"),
    [
        (slice(24, None), slice(None), 9, "padding, halo or row offset of these bands"),
        (slice(None), slice(0, 16), 9, "bias, scale, offset or filter column of these channels"),
        (slice(24, None), slice(None), 1, "rounding"),
        (slice(24, None), slice(None), -86, "part of the output is never stored"),
        (slice(None), slice(None), 9, "the output differs from the golden"),
        (slice(None), slice(0, 17), 9, "the output differs from the golden"),
        (slice(0, 24), slice(None), 9, "the output differs from the golden"),
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


UNEXPLAINED = "cause unknown: this program has no form (docs/workloads.md), so that no known fault was tried"


@pytest.mark.parametrize(
    ("channels", "why"),
    [(32, UNEXPLAINED), (1, "bias, scale, offset or filter column of these channels")],
)
def test_why_says_that_nothing_explains_it_where_its_form_says_nothing(
    result_of: MakeResult, channels: int, why: str
) -> None:
    golden = np.zeros((36, 32), np.int8)
    actual = golden.copy()
    actual[:, :channels] += 9
    diff = compare("y", actual, golden, width=4, band_rows=3, sentinel=-86)
    stage = StageResult("one", State.MISMATCH, diffs=(diff,), facts={"diagnosis": UNEXPLAINED})
    stages = (StageResult("before", State.PASSED), stage)
    (group,) = overview([result_of("device/a5/g/one/small", State.MISMATCH, stages=stages)]).broken
    assert group.why == why


def test_why_of_a_matrix_speaks_of_columns(result_of: MakeResult) -> None:
    golden = np.zeros((36, 32), np.int32)
    actual = golden.copy()
    actual[:, 3] += 9
    diff = compare("c", actual, golden, width=1, band_rows=36, sentinel=None)
    stages = (StageResult("gemm", State.MISMATCH, diffs=(diff,)),)
    (group,) = overview([result_of("device/a5/g/gemm/small", State.MISMATCH, stages=stages)]).broken
    assert group.why == "what only these columns are made of, such as their columns of the right operand"


def test_a_diagnosis_is_the_cause_where_there_is_one(result_of: MakeResult) -> None:
    results = [
        result_of(
            f"device/a5sim/mc62/{kernel}/small",
            State.MISMATCH,
            message=f"{kernel} is wrong",
            facts={"diagnosis": "offset-unsigned", "reproduce": "python -m pipeline run --id x"},
            causes=("offset-unsigned",),
        )
        for kernel in ("fused", "two-pass")
    ]
    (group,) = overview(results).broken
    assert group.why == "offset-unsigned"
    assert group.again == "python -m pipeline run --id x"


def explained(result_of: MakeResult, job: str, cause: str, since: str = "") -> Result:
    facts = {"diagnosis": f"{cause}: in words"} | ({"since": since} if since else {})
    causes = tuple(cause.split(" or "))
    return result_of(job, State.MISMATCH, message=f"{job} is wrong", facts=facts, causes=causes)


def test_jobs_are_grouped_by_cause_and_one_that_has_several_joins_the_surest(result_of: MakeResult) -> None:
    results = [
        explained(result_of, "device/a5/g/fused/impulse", "band-up or offset-unsigned"),
        explained(result_of, "device/a5sim/g/fused/small", "offset-unsigned"),
        explained(result_of, "compare/a5sim/g/small", "offset-unsigned or scale32"),
        explained(result_of, "device/a5/g/fused/ties", "scale32 or half-away"),
    ]
    seen = overview(results).broken
    assert [(group.cause, len(group.results)) for group in seen] == [
        ("offset-unsigned", 3),
        ("scale32 or half-away", 1),
    ]
    assert seen[0].heading() == "3 jobs, one cause: offset-unsigned, platform a5sim, a5"
    assert seen[1].heading(repr) == "1 job, one cause: 'scale32 or half-away', platform 'a5'"


def test_what_a_group_shares_is_what_explains_all_of_it(result_of: MakeResult) -> None:
    results = [
        explained(result_of, "device/a5/g/fused/a", "band-up or scale32"),
        explained(result_of, "device/a5/g/fused/b", "half-away or band-up"),
    ]
    (group,) = overview(results).broken
    assert group.cause == "band-up"


@pytest.mark.parametrize(
    ("nights", "said"),
    [
        (("", ""), ""),
        (("new", "new"), "new in this run"),
        (("20260302-040000-000000", "20260301-040000-000000"), "run 20260301-040000-000000"),
        (
            ("20260301-040000-000000", "new"),
            "run 20260301-040000-000000; 1 of 2 jobs new in this run",
        ),
    ],
)
def test_a_group_is_as_old_as_its_oldest_failure(
    nights: tuple[str, ...], said: str, result_of: MakeResult
) -> None:
    jobs = [
        explained(result_of, f"device/a5/g/fused/{number}", "band-up", night)
        for number, night in enumerate(nights)
    ]
    (group,) = overview(jobs).broken
    assert group.since == said


def test_two_engines_are_both_where_it_broke(result_of: MakeResult) -> None:
    (group,) = overview([explained(result_of, "compare/emu+a5sim/g/small", "band-up")]).broken
    assert group.where.startswith("lane compare; platform emu+a5sim; ")


def test_devices_are_where_it_broke(result_of: MakeResult) -> None:
    results = [
        result_of(f"device/a5/g/fused/p{n}", State.CRASHED, message="oh", device=device)
        for n, device in enumerate((1, 3, 1))
    ]
    assert "; device 1, 3; geometry g; " in overview(results).broken[0].where
