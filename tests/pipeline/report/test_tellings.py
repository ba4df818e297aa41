from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import StageResult
from pipeline.report.cases import Attachments
from pipeline.report.document import Totals, check, properties_of, read
from pipeline.report.junit import write
from pipeline.report.merge import merge
from pipeline.run.states import exit_code

from .conftest import JOB, LAST, NEW, NEWER, OLD, MakeResult, Shards, Validate, cases, merge_of


def test_of_a_case_in_two_reports_the_worst_outcome_is_kept_and_counted(
    tmp_path: Path, shards: Shards, result_of: MakeResult
) -> None:
    paths = shards()
    again = tmp_path / "again.xml"
    rerun = [result_of(f"device/emu-a5/mc62/fused/p{n}0") for n in (1, 2)]
    write(again, rerun, {"run": NEW, "git": "0123abcd"}, Attachments(tmp_path))
    for order in ([*paths, again], [again, *paths]):
        merged = merge(order, tmp_path / "merged.xml")
        assert merged.duplicates == 2
        assert str(merged).endswith("2 cases in several reports")
        assert merged.totals == Totals(tests=12, failures=1, skipped=3)
        suites = {suite.get("name"): suite for suite in read(tmp_path / "merged.xml")}
        assert properties_of(suites["device.emu-a5"])["report.duplicates"] == "2"


def test_of_a_red_run_and_its_later_rerun_the_newest_counts_if_that_is_asked_for(
    tmp_path: Path, nights: Callable[..., Path], validate: Validate
) -> None:
    red = nights(OLD, State.MISMATCH, State.PASSED, State.CRASHED, State.PASSED)
    rerun = nights(NEW, State.PASSED, None, State.CRASHED)
    out = tmp_path / "merged.xml"
    for order in ([red, rerun], [rerun, red]):
        assert merge(order, out).totals == Totals(tests=4, failures=1, errors=1)
        merged = merge(order, out, newest=True)
        assert merged.totals == check(read(out)) == Totals(tests=4, errors=1)
        assert merged.exit_code == 1
        assert str(merged).splitlines() == [
            "4 cases, 0 failures, 1 error, 0 skipped, 2 cases in several reports",
            f"device/emu-a5/mc62/fused/p0: mismatch in run {OLD}, passed in run {NEW}, which counts",
        ]
        validate(out)
        facts = properties_of(read(out)[0])
        assert (facts["report.duplicates"], facts["report.newest"]) == ("2", "2")
    assert "report.newest" not in properties_of(read(merge_of(out, red, rerun))[0])


@pytest.mark.parametrize(
    ("then", "now", "counts"),
    [
        (State.PASSED, State.MISMATCH, State.MISMATCH),
        (State.MISMATCH, State.SKIPPED, State.MISMATCH),  # what was not checked hides no failure
        (State.MISMATCH, State.EXPECTED_FAILURE, State.EXPECTED_FAILURE),
        (State.MISMATCH, State.INTERRUPTED, State.MISMATCH),
        (State.MISMATCH, State.INFRASTRUCTURE, State.MISMATCH),
        (State.PASSED, State.INFRASTRUCTURE, State.INFRASTRUCTURE),
        (State.SKIPPED, State.PASSED, State.PASSED),
    ],
)
def test_a_newer_run_counts_whatever_it_says_unless_it_judged_nothing(
    then: State, now: State, counts: State, tmp_path: Path, nights: Callable[..., Path]
) -> None:
    merged = merge([nights(OLD, then), nights(NEW, now)], tmp_path / "merged.xml", newest=True)
    assert merged.exit_code == exit_code([counts])


@pytest.mark.parametrize("known", [State.MISMATCH, State.CRASHED])
@pytest.mark.parametrize("unknown", [State.INFRASTRUCTURE, State.INTERRUPTED])
def test_a_job_that_was_not_judged_hides_no_verdict_on_the_kernel(
    known: State, unknown: State, tmp_path: Path, nights: Callable[..., Path]
) -> None:
    for order in ([known, unknown], [unknown, known]):
        parts = [nights(run, state) for run, state in zip([OLD, NEW], order, strict=True)]
        for newest in (False, True):
            assert merge(parts, tmp_path / "merged.xml", newest=newest).exit_code == 1


def test_reports_that_do_not_say_which_is_newer_keep_the_worst(
    tmp_path: Path, nights: Callable[..., Path]
) -> None:
    red, between, good = (
        nights(OLD, State.MISMATCH),
        nights(NEW, State.PASSED),
        nights(NEW, None, State.PASSED),
    )
    out = tmp_path / "merged.xml"
    for run in ("", "last night", OLD):
        assert merge([red, nights(run, State.PASSED)], out, newest=True).totals.failures == 1
    tellings = [nights("", State.PASSED), red, nights(NEW, State.PASSED)]
    assert merge(tellings, out, newest=True).outdated[0].endswith("passed in run unknown, which counts")
    # The merged report's case may be of either run.
    merge([red, good], tmp_path / "both.xml")
    assert merge([tmp_path / "both.xml", between], out, newest=True).totals.failures == 1


@pytest.mark.parametrize(
    ("then", "now", "counts", "said"),
    [
        ({"repeat": "4"}, {}, "then", "--repeat was 4, is 1"),
        ({"repeat": "10"}, {"repeat": "9"}, "then", "--repeat was 10, is 9"),
        ({"repeat": "9"}, {"repeat": "10"}, "now", ""),
        ({"repeat": "4"}, {"repeat": "4", "resumed.repeat": "1"}, "then", "--repeat was 4, is 4 or 1"),
        ({"repeat": "4"}, {"repeat": "many"}, "then", "--repeat was 4, is many"),
        ({}, {"stage": "tile"}, "then", "--stage was all, is tile"),
        ({"stage": "tile"}, {}, "now", ""),
        ({"references": "/t/r.json"}, {}, "then", "--references was /t/r.json, is not given"),
        ({}, {"matrix": "easy.yaml"}, "then", "--matrix was not given, is easy.yaml"),
        ({"date": "2026-03-10"}, {"date": "2026-03-11"}, "then", "--date was 2026-03-10, is 2026-03-11"),
        ({}, {"retries": "5", "allow_new_skips": "True"}, "now", ""),
    ],
)
def test_a_newer_run_counts_only_where_it_checked_at_least_the_same(
    then: dict[str, str],
    now: dict[str, str],
    counts: str,
    said: str,
    tmp_path: Path,
    nights: Callable[..., Path],
) -> None:
    red = nights(OLD, State.NONDETERMINISTIC, State.MISMATCH, State.PASSED, **then)
    good = nights(NEW, State.PASSED, State.PASSED, State.PASSED, **now)
    out = tmp_path / "merged.xml"
    for order in ([red, good], [good, red]):
        merged = merge(order, out, newest=True)
        if counts == "now":
            assert (merged.exit_code, len(merged.outdated), merged.kept) == (0, 2, ())
            continue
        assert (merged.exit_code, merged.totals.failures, merged.outdated) == (1, 2, ())
        why = f"passed in run {NEW}: the newer run may check less: {said}"
        assert merged.kept == (
            f"{JOB}0: nondeterministic in run {OLD} counts, not {why}",
            f"{JOB}1: mismatch in run {OLD} counts, not {why}",
        )
        assert str(merged).splitlines()[1:] == list(merged.kept)
        assert properties_of(read(out)[0])["report.kept"] == "2"
    assert merge([red, good], out).kept == ()  # the worst was asked for


def test_a_merged_part_checks_what_the_least_of_its_runs_checks(
    tmp_path: Path, nights: Callable[..., Path]
) -> None:
    """Of its cases nobody knows which run they are of."""
    part, out = tmp_path / "part.xml", tmp_path / "merged.xml"
    red = nights(OLD, State.NONDETERMINISTIC, repeat="4")
    merge([nights(NEW, State.PASSED), nights(NEWER, None, State.PASSED, repeat="4")], part)
    merged = merge([red, part], out, newest=True)
    assert merged.totals.failures == 1
    assert merged.kept[0].endswith("--repeat was 4, is 1 or 4")
    merge([nights(NEW, State.PASSED, repeat="4"), nights(NEWER, None, State.PASSED, repeat="8")], part)
    assert merge([red, part], out, newest=True).exit_code == 0


@pytest.mark.parametrize("newest", [False, True])
def test_a_job_and_its_stages_are_of_one_run(newest: bool, tmp_path: Path, result_of: MakeResult) -> None:
    """The newer run did not compare the stage that is wrong; a third run, another stage."""

    def part(run: str, states: dict[str, State], **facts: str) -> Path:
        end = next((state for state in states.values() if state is not State.PASSED), State.PASSED)
        stages = tuple(StageResult(name, state) for name, state in states.items())
        result = replace(result_of("compare/emu/mc62/small", end), stages=stages)
        write(tmp_path / f"{run}.xml", [result], {"run": run, **facts}, Attachments(tmp_path))
        return tmp_path / f"{run}.xml"

    wrong = part(OLD, {"one": State.PASSED, "two": State.MISMATCH, "three": State.MISMATCH})
    tile = part(NEW, {"one": State.PASSED}, stage="tile")
    other = part(NEWER, {"one": State.MISMATCH}, stage="tile")
    out, job = tmp_path / "merged.xml", "compare/emu/mc62/small"
    for parts in ([wrong, tile], [tile, wrong]):
        merged = merge(parts, out, newest=newest)
        assert set(cases(out)) == {job, f"{job}/two", f"{job}/three"}
        assert (merged.totals, merged.exit_code) == (Totals(tests=4, failures=3), 1)
        assert merged.duplicates == 2
        assert len(merged.kept) == newest
    merge([wrong, other, tile], out)
    assert set(cases(out)) == {job, f"{job}/two", f"{job}/three"}
    right = part(LAST, dict.fromkeys(("one", "two", "three"), State.PASSED))
    assert merge([wrong, tile, right], out, newest=True).totals == Totals(tests=4)


def test_problems_of_a_run_go_when_all_of_its_jobs_ran_anew(
    tmp_path: Path, nights: Callable[..., Path]
) -> None:
    broken = nights(OLD, State.PASSED, State.SKIPPED, problems=("a keeper failed",))
    out = tmp_path / "merged.xml"
    assert merge([broken, nights(NEW, State.PASSED)], out, newest=True).totals.errors == 1
    whole = nights(NEW, State.PASSED, State.PASSED)
    assert merge([broken, whole], out).totals.errors == 1
    assert merge([broken, whole], out, newest=True).totals == Totals(tests=2)
