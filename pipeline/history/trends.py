"""What people ask of many nights together: how they went, what comes back, what grew quiet.

Here too a run is compared only with those that had the same `--inputs`, `--inject` and `--stage`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.ground.jobs import State
from pipeline.history.answers import Ended, Run
from pipeline.history.noise import FEWEST
from pipeline.history.questions import changes, failing, nights, rate, strip
from pipeline.history.store import History
from pipeline.history.stories import LAST, MUTE

_DAY = timedelta(days=1)
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
class RedTime:
    """In how many of `runs` a job was red, and for how long: from such a run to the next that says otherwise.

    `since` is the run since which it is red in the last of the runs, or empty; the time ends when that began.
    """

    red: int
    runs: int
    time: timedelta
    since: str = ""

    @property
    def now(self) -> bool:
        """Whether it is red in the last of the runs."""
        return bool(self.since)


@dataclass(frozen=True)
class Spent:
    """Time spent red, by a job or by all together: see `RedTime`. `part` is that of the days of all runs."""

    name: str
    red: int
    runs: int
    days: float
    part: float | None
    since: str


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
    """How long the jobs of a run were red in the last runs, all together and each; the longest time first."""
    strips = strip(history, run, last)
    began = [one.began for ends in strips.values() for one in ends]
    whole = run.began - min(began, default=run.began)
    times, together = red_times(strips)
    named = {"all jobs": together, **times} if together else times
    return tuple(
        Spent(
            name,
            one.red,
            one.runs,
            round(one.time / _DAY, 2),
            round(one.time / whole, 3) if whole else None,
            one.since,
        )
        for name, one in named.items()
    )


def red_times(strips: Mapping[str, Sequence[Ended]]) -> tuple[dict[str, RedTime], RedTime | None]:
    """How long each job was red, and the jobs together, as if they were one that is red when any of them is.

    A run that says nothing of a job changes nothing. Of jobs that were never red nothing is told.
    """
    runs = sorted({(one.run, one.began) for ends in strips.values() for one in ends})
    place = {run: number for number, (run, _) in enumerate(runs)}
    found: dict[str, RedTime] = {}
    any_red, any_said = [False] * len(runs), [False] * len(runs)
    for job, ends in strips.items():
        said: list[bool | None] = [None] * len(runs)
        for one in ends:
            if one.state not in MUTE:
                said[place[one.run]] = one.red
        if any(said):
            red: list[bool] = []
            for number, now in enumerate(said):
                red.append((bool(red) and red[-1]) if now is None else now)
                any_red[number] |= red[-1]
                any_said[number] |= bool(now)
            found[job] = _red_time(said, red, runs)
    ordered = sorted(found.items(), key=lambda each: (-each[1].time, -each[1].red, each[0]))
    return dict(ordered), _red_time(any_said, any_red, runs) if found else None


def _red_time(
    said: Sequence[bool | None], red: Sequence[bool], runs: Sequence[tuple[str, datetime]]
) -> RedTime:
    time, since = timedelta(), ""
    for is_red, (run, began), (_, until) in zip(red, runs, [*runs[1:], runs[-1]], strict=True):
        since = (since or run) if is_red else ""
        time += until - began if is_red else timedelta()
    return RedTime(sum(map(bool, said)), len(runs), time, since)


def recurring(history: History, run: Run, last: int = LAST) -> tuple[Recurring, ...]:
    """Jobs that are red in a way in which they were red before they passed."""
    return recurring_in(strip(history, run, last))


def recurring_in(strips: Mapping[str, Sequence[Ended]]) -> tuple[Recurring, ...]:
    """The same, of strips that are known already."""
    found = []
    for job, (*before, now) in strips.items():
        well = 0
        for one in reversed([one for one in before if now.red and one.state not in MUTE]):
            well += one.state in _WELL
            if well and one.red and one.fingerprint == now.fingerprint:
                found.append(Recurring(job, now, one, well))
                break
    return tuple(found)


def stabilised(history: History, run: Run, last: int = LAST) -> tuple[Stabilised, ...]:
    """Jobs that were flaky and have passed at least five times since."""
    found = []
    for job, ends in strip(history, run, last).items():
        row = [one for one in reversed(ends) if one.state not in MUTE]
        if changed := changes(row):
            since = row.index(changed[0]) + 1
            quiet = next((n for n, one in enumerate(row[:since]) if one.state not in _WELL), since)
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
