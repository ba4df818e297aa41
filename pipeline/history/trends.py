"""What people ask of many nights together: how they went, what comes back, what grew quiet.

Here too a run is compared only with those that had the same `--inputs`, `--inject` and `--stage`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.ground.jobs import OUTCOMES, State
from pipeline.history.past import state_of
from pipeline.history.questions import (
    FEWEST,
    LAST,
    MUTE,
    Ended,
    Night,
    Run,
    changes,
    failing,
    nights,
    rate,
    strip,
)
from pipeline.history.store import History
from pipeline.results.fingerprint import RED

_DAY = 24 * 60 * 60
_WELL = (State.PASSED, State.EXPECTED_FAILURE)


@dataclass(frozen=True)
class Went:
    """How a run went. `began` is in UTC; `rate` is the part of the jobs judged that passed."""

    run: str
    began: datetime
    commit: str
    exit_code: int
    rate: float | None
    seconds: float
    states: Mapping[str, int]


@dataclass(frozen=True)
class Spent:
    """Time spent red, by all runs together or by a job: so many of `runs`, and days from each to the next.

    `part` is that of the days since the first of the runs. `since` is the run since which it is red now.
    """

    name: str
    red: int
    runs: int
    days: float
    part: float | None
    since: str | None


@dataclass(frozen=True)
class Recurring:
    """A failure that is back: `last` is when it was last seen, `well` the number of passes since."""

    job: str
    now: Ended
    last: Ended
    well: int


@dataclass(frozen=True)
class Stabilised:
    """A job that changed with nothing changed, last in the run `last`, and has passed `quiet` times since."""

    job: str
    changes: int
    last: str
    quiet: int


@dataclass(frozen=True)
class Bucket:
    """The jobs that fail in one way: their number, the first of them, and since when the oldest fails."""

    fingerprint: str
    jobs: int
    since: str
    runs: int
    job: str
    message: str


@dataclass(frozen=True)
class TimedOut:
    """A job that did not end in time, and what it took when it passed: the median and the most, in seconds.

    It `looks` like a `hang` if it never took half of the time it had, as `slow` if it did, and `unknown` if
    it never passed.
    """

    job: str
    seconds: float
    usual: float | None
    longest: float | None
    passes: int
    looks: str


def how_nights_went(history: History, run: Run, last: int = LAST) -> tuple[Went, ...]:
    """The last runs with this one, the oldest first."""
    return tuple(
        Went(
            of.id,
            of.began,
            of.commit,
            of.exit_code,
            rate(night.states),
            of.seconds,
            dict(sorted(night.states.items())),
        )
        for night in nights(history, run, last + 1)
        for of in (night.run,)
    )


def time_red(history: History, run: Run, last: int = LAST) -> tuple[Spent, ...]:
    """How long all was red, and each job that was; the longest time first.

    A run that says nothing (it was interrupted, or the environment could not run) leaves things as they were.
    """
    all_nights = nights(history, run, last + 1)
    runs = [night.run for night in all_nights]
    told = [
        (night.run.id, night.run.began, red) for night in all_nights if (red := _is_red(night)) is not None
    ]
    spent = [_spent("all jobs", told, len(runs), runs[0].began, run)]
    for job, ends in strip(history, run, last).items():
        told = [(one.run, one.began, one.red) for one in ends if one.state not in MUTE]
        spent.append(_spent(job, told, len(ends), runs[0].began, run))
    whole, *jobs = spent
    return (whole, *sorted((one for one in jobs if one.red), key=lambda one: (-one.days, one.name)))


def _is_red(night: Night) -> bool | None:
    """Whether a run found a job wrong, or none; None if it says neither."""
    if night.run.exit_code == 0:
        return False
    states = map(state_of, night.states)
    found = any(OUTCOMES[state].outcome in RED for state in states if state not in MUTE)
    return True if found else None


def _spent(
    name: str, told: Sequence[tuple[str, datetime, bool]], count: int, first: datetime, run: Run
) -> Spent:
    since, days = None, 0.0
    nexts = [began for _, began, _ in told[1:]] + [run.began]
    for (at, began, red), until in zip(told, nexts, strict=False):
        since = (since or at) if red else None
        days += (until - began).total_seconds() / _DAY if red else 0.0
    whole = (run.began - first).total_seconds() / _DAY
    part = round(days / whole, 3) if whole else None
    return Spent(name, sum(red for *_, red in told), count, round(days, 2), part, since)


def recurring(history: History, run: Run, last: int = LAST) -> tuple[Recurring, ...]:
    """Jobs that are red in a way in which they were red before they passed."""
    found = []
    for job, ends in strip(history, run, last).items():
        now, *before = [one for one in reversed(ends) if one.state not in MUTE or one.run == run.id]
        well = 0
        for one in before if now.red else ():
            well += one.state in _WELL
            if well and one.fingerprint == now.fingerprint:
                found.append(Recurring(job, now, one, well))
                break
    return tuple(found)


def stabilised(history: History, run: Run, last: int = LAST) -> tuple[Stabilised, ...]:
    """Jobs that were flaky and have passed at least five times since."""
    found = []
    for job, ends in strip(history, run, last).items():
        row = [one for one in reversed(ends) if one.state not in MUTE]
        if changed := changes(row):
            quiet = next((n for n, one in enumerate(row) if one.state not in _WELL), len(row))
            if quiet >= FEWEST:
                found.append(Stabilised(job, len(changed), changed[0].run, quiet))
    return tuple(sorted(found, key=lambda one: (-one.quiet, one.job)))


def causes(history: History, run: Run, last: int = LAST) -> tuple[Bucket, ...]:
    """The ways in which jobs fail, that of most jobs first. All runs are looked at."""
    ways: dict[str, list[tuple[str, int, str, str]]] = {}
    for one in failing(history, run, last):
        ways.setdefault(one.now.fingerprint, []).append((one.since, one.runs, one.job, one.now.message))
    found = []
    for fingerprint, ones in ways.items():
        since, runs, *_ = min(ones)
        _, _, job, message = min(ones, key=lambda one: one[2])
        found.append(Bucket(fingerprint, len(ones), since, runs, job, message))
    return tuple(sorted(found, key=lambda one: (-one.jobs, one.fingerprint)))


def timed_out(history: History, run: Run, last: int = LAST) -> tuple[TimedOut, ...]:
    """Jobs that did not end in time: whether they hang, or need more time than they have."""
    found = []
    for job, (*before, now) in strip(history, run, last).items():
        if now.state is State.TIMED_OUT:
            took = [one.seconds for one in before if one.state is State.PASSED]
            looks = "unknown" if not took else "hang" if 2 * max(took) < now.seconds else "slow"
            usual = statistics.median(took) if took else None
            found.append(TimedOut(job, now.seconds, usual, max(took, default=None), len(took), looks))
    return tuple(found)
