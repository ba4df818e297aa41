from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import FINGERPRINT, Result
from pipeline.history import trends
from pipeline.history.answers import Run
from pipeline.history.questions import flaky, new, run_named
from pipeline.history.store import History, open_history

from .conftest import ended, job_named, night

PASSED, SKIPPED, SICK = State.PASSED, State.SKIPPED, State.INFRASTRUCTURE
NEVER_ENDED = State.TIMED_OUT


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """These questions ask the database nothing of their own, so one kind of it is enough."""
    with open_history(tmp_path / "h.sqlite") as opened:
        yield opened


def remember(history: History, *nights: list[Result], commit: str = "") -> Run:
    """A night a day; of a commit each, if none is given. Gives the last run."""
    for number, results in enumerate(nights):
        history.record(night(number, *results, git=commit or f"c{number}"))
    return run_named(history)


def run_id(number: int) -> str:
    return night(number).run


def job(name: str) -> str:
    return job_named(name).id


def test_the_nights_are_told_the_oldest_first(history: History) -> None:
    run = remember(history, [ended("a"), ended("b", "x")], [ended("a", SKIPPED)], [ended("a"), ended("b")])
    told = [
        (one.run, one.commit, one.rate, one.states) for one in trends.how_nights_went(history, run, last=1)
    ]
    assert told == [(run_id(1), "c1", None, {"skipped": 1}), (run_id(2), "c2", 1.0, {"passed": 2})]
    first, *_ = trends.how_nights_went(history, run)
    assert (first.run, first.exit_code, first.rate) == (run_id(0), 1, 0.5)


def test_time_red_lasts_until_the_next_night_that_says_otherwise(history: History) -> None:
    run = remember(
        history,
        [ended("a"), ended("b")],
        [ended("a", "x"), ended("b", "x")],
        [ended("a", "x"), ended("b", SICK)],
        [ended("a", SICK), ended("b")],  # of a this says nothing
        [ended("a"), ended("b")],
    )
    whole, *jobs = trends.time_red(history, run)
    assert (whole.name, whole.red, whole.runs, whole.days, whole.part) == ("all jobs", 2, 5, 3.0, 0.75)
    assert [(one.name, one.red, one.days, one.since) for one in jobs] == [
        (job("a"), 2, 3.0, ""),
        (job("b"), 1, 2.0, ""),
    ]


def test_what_is_red_now_is_red_since_its_row_began(history: History) -> None:
    run = remember(
        history, [ended("a", "x")], [ended("a")], [ended("a", "x")], [ended("a", "y")], [ended("b")]
    )
    earlier = run_named(history, run_id(3))
    whole, one = trends.time_red(history, earlier)
    assert (one.red, one.days, one.part, one.since) == (3, 2.0, 0.667, run_id(2))
    assert whole.since == run_id(2)
    assert trends.time_red(history, run) == ()  # a is none of its jobs
    assert trends.time_red(history, run_named(history, run_id(0)))[0].part is None  # no time has passed


def test_recurring_is_what_was_red_in_this_way_passed_and_is_red_again(history: History) -> None:
    run = remember(
        history,
        [ended("back", "x"), ended("other", "x"), ended("never", "x"), ended("new"), ended("flips", "x")],
        [ended("back"), ended("other"), ended("never", "x"), ended("new"), ended("flips", "y")],
        [ended("back", SICK), ended("other"), ended("never", SICK), ended("new"), ended("flips", "y")],
        [ended("back"), ended("other"), ended("never", "x"), ended("new"), ended("flips", "x")],
        [ended(name, "x") for name in ("back", "never", "new", "flips")] + [ended("other", "y")],
        [ended(name, "x") for name in ("back", "never", "new", "flips")] + [ended("other", "y")],
    )
    (one,) = trends.recurring(history, run)
    assert (one.job, one.now.run, one.last.run, one.well) == (job("back"), run_id(5), run_id(0), 2)
    assert trends.recurring(history, run_named(history, run_id(3))) == ()


def test_stabilised_is_what_was_flaky_and_has_passed_five_times(history: History) -> None:
    def nights(count: int) -> list[list[Result]]:
        quiet = [[ended("quiet"), ended("steady"), ended("red", "x")] for _ in range(count)]
        return [[ended("quiet"), ended("steady"), ended("red")], [ended("quiet", "x")], *quiet]

    run = remember(history, *nights(4), commit="c")
    assert trends.stabilised(history, run) == ()
    run = remember(history, *nights(5), commit="c")
    (one,) = trends.stabilised(history, run)
    assert (one.job, one.changes, one.last, one.quiet) == (job("quiet"), 2, run_id(2), 5)
    assert [each.job for each in flaky(history, run)] == [job("quiet"), job("red")]
    # What changed with the commit was fixed, not flaky.
    assert trends.stabilised(history, remember(history, *nights(5))) == ()


def test_jobs_of_which_no_night_says_anything_are_neither_flaky_nor_stable(history: History) -> None:
    mute = [ended("a", SKIPPED), ended("b", SICK), ended("c", State.INTERRUPTED)]
    run = remember(history, mute, mute)
    assert flaky(history, run) == trends.stabilised(history, run) == ()
    assert trends.recurring(history, run) == trends.time_red(history, run) == ()


def test_what_flips_between_passing_and_an_expected_failure_is_not_stable(history: History) -> None:
    flips = [[ended("a", State.EXPECTED_FAILURE)], [ended("a")]] * 4
    run = remember(history, *flips, *[[ended("a")]] * 3, commit="c")
    assert trends.stabilised(history, run) == ()  # it has passed four times since its last change
    (one,) = trends.stabilised(history, remember(history, *flips, *[[ended("a")]] * 4, commit="c"))
    assert (one.changes, one.last, one.quiet) == (7, run_id(7), 5)


@pytest.mark.parametrize("state", [State.NONDETERMINISTIC, State.DEVICE_DEPENDENT])
def test_a_job_that_contradicts_itself_is_flaky_whatever_the_commit(state: State, history: History) -> None:
    run = remember(history, [ended("a")], [ended("a", state)], [ended("a")])
    (one,) = flaky(history, run)
    assert (one.job, one.changes, one.last) == (job("a"), 1, run_id(1))


def test_causes_are_the_ways_in_which_jobs_fail(history: History) -> None:
    run = remember(
        history,
        [ended("a"), ended("b", "z", message="wrong b"), ended("c", "z"), ended("d")],
        [ended("a", "z", message="wrong a"), ended("b", "z"), ended("c", "y"), ended("d")],
    )
    one, other = trends.causes(history, run)
    assert (one.fingerprint, one.jobs, one.job, one.message) == ("z", 2, job("a"), "wrong a")
    assert (one.since, one.runs) == (run_id(0), 2)
    assert (other.fingerprint, other.jobs, other.since, other.runs) == ("y", 1, run_id(1), 1)


def test_what_was_interrupted_is_one_cause_and_nothing_new(history: History) -> None:
    why = "interrupted by SIGINT"
    began = ended("a", State.INTERRUPTED, message=why, facts={FINGERPRINT: f"interrupted {why}"})
    never = [Result(job_named(name), State.INTERRUPTED, why) for name in "bc"]
    run = remember(history, [ended(name) for name in "abc"], [began, *never])
    assert [(one.fingerprint, one.jobs) for one in trends.causes(history, run)] == [(f"interrupted {why}", 3)]
    assert new(history, run) == ()


def test_a_job_that_never_took_half_of_its_time_hangs(history: History) -> None:
    def timed(name: str, seconds: float, state: State = PASSED) -> Result:
        return ended(name, state, seconds=seconds)

    run = remember(
        history,
        [timed("hangs", 3), timed("slow", 20), timed("wrong", 59, State.MISMATCH), timed("passes", 3)],
        [timed("hangs", 5), timed("slow", 30), timed("wrong", 59, State.MISMATCH)],
        [timed(name, 60, NEVER_ENDED) for name in ("hangs", "slow", "wrong")] + [timed("passes", 59)],
    )
    told = [
        (one.job, one.seconds, one.usual, one.longest, one.passes, one.looks)
        for one in trends.timed_out(history, run)
    ]
    assert told == [
        (job("hangs"), 60, 4, 5, 2, "hang"),
        (job("slow"), 60, 25, 30, 2, "slow"),
        (job("wrong"), 60, None, None, 0, "unknown"),
    ]
