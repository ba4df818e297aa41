from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from msgspec.structs import replace

from pipeline.dashboard import words
from pipeline.dashboard.earlier import Earlier, earlier_of
from pipeline.ground.jobs import State
from pipeline.ground.results import Result
from pipeline.history.store import open_history
from pipeline.history.trends import RedTime
from pipeline.report.results import RunResults

FIRST = datetime(2026, 3, 1, 4, tzinfo=timezone.utc)
A, B = "device/emu/g/fused/small", "device/emu/g/fused/ties"
BAD, GOOD, NONE = State.MISMATCH, State.PASSED, State.SKIPPED

Nights = Callable[..., Earlier]


@pytest.fixture
def nights(tmp_path: Path, run_of: Callable[..., RunResults], result_of: Callable[..., Result]) -> Nights:
    """What the history says in the last of these nights, each of which has states by job."""

    def told(*ends: dict[str, State]) -> Earlier:
        place = tmp_path / "history.sqlite"
        with open_history(place) as history:
            for day, states in enumerate(ends):
                began = FIRST + timedelta(days=day)
                run = f"{began:%Y%m%d-%H%M%S}-{day:010x}"
                jobs = [result_of(job, state) for job, state in states.items()]
                history.record(replace(run_of(*jobs, run=run), started=began.isoformat()))
        return earlier_of(place, run)

    return told


def test_time_spent_red_ends_with_the_next_run_that_says_otherwise(nights: Nights) -> None:
    ends = ((GOOD, GOOD), (BAD, GOOD), (NONE, GOOD), (GOOD, BAD), (GOOD, BAD))
    told = nights(*({A: of_a, B: of_b} for of_a, of_b in ends))
    runs = [night.run for night in told.nights]
    assert told.red == {
        A: RedTime(1, 5, timedelta(days=2)),  # the run that skipped it changes nothing
        B: RedTime(2, 5, timedelta(days=1), runs[3]),  # and the time ends with this run
    }
    assert list(told.red) == [A, B]
    assert [one.now for one in told.red.values()] == [False, True]
    assert told.any_red == RedTime(3, 5, timedelta(days=3), runs[1])
    assert [night.red for night in told.nights] == [False, True, False, True, True]


def test_a_failure_that_was_fixed_is_back(nights: Nights) -> None:
    told = nights({A: BAD}, {A: GOOD}, {A: NONE}, {A: BAD})
    assert [(one.job, one.last.run, one.well) for one in told.recurring] == [(A, told.nights[0].run, 1)]
    for ends in ((BAD, BAD), (BAD, GOOD, GOOD)):
        assert nights(*({A: one} for one in ends)).recurring == ()


def test_nothing_was_red(nights: Nights) -> None:
    told = nights({A: GOOD}, {A: NONE}, {A: GOOD})
    assert (told.red, told.any_red) == ({}, None)


def test_a_failure_of_the_host_is_no_time_spent_red(nights: Nights) -> None:
    told = nights({A: GOOD}, {A: State.INFRASTRUCTURE}, {A: GOOD})
    assert told.any_red is None
    assert not any(night.red for night in told.nights)


@pytest.mark.parametrize(
    ("minutes", "said"),
    [(0, "0 min"), (59, "59 min"), (60, "1 h 0 min"), (1441, "1 day"), (3000, "2 days 2 h")],
)
def test_a_time_is_told_in_two_units(minutes: int, said: str) -> None:
    assert words.lasting(timedelta(minutes=minutes)) == said
