"""What the history tells a dashboard; a host without one has a dashboard of the run alone."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from golden.errors import UserError
from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES, Outcome
from pipeline.history.past import may_exist

if TYPE_CHECKING:  # they import SQLAlchemy
    from pipeline.history.answers import Change, Ended, Flaky, Gone, Measured, Moved
    from pipeline.history.trends import Recurring, RedTime

_SHOWN = 30
"""Runs that a job's strip and the trends show."""


@dataclass(frozen=True)
class Night:
    """A run as the trends show it, of the jobs alone that the dashboard's run has too.

    `rate` is the part of the judged jobs that passed, in percent; None if none was judged. `seconds` is the
    sum over the jobs. `cycles` and `worst` are the median and the largest of what programs took, in percent
    of the job's own median; None if nothing was measured. `began` is in UTC; `red` is whether a job was.
    """

    run: str
    commit: str
    began: datetime
    rate: float | None
    seconds: float
    states: Mapping[str, int]
    red: bool = False
    cycles: float | None = None
    worst: float | None = None

    @property
    def jobs(self) -> int:
        """How many of the jobs the run had."""
        return sum(self.states.values())


@dataclass(frozen=True)
class Earlier:
    """The answers of the history to a run; `unknown` is why there are none, if so."""

    unknown: str = ""
    strips: Mapping[str, Sequence[Ended]] = field(default_factory=dict)
    fixed: Sequence[Change] = ()
    skipped: Sequence[Change] = ()
    vanished: Sequence[Gone] = ()
    flaky: Sequence[Flaky] = ()
    slower: Sequence[Moved] = ()
    faster: Sequence[Moved] = ()
    nights: Sequence[Night] = ()
    red: Mapping[str, RedTime] = field(default_factory=dict)
    """By job that was red in the last runs, the one that was so for longest first."""
    any_red: RedTime | None = None
    """The same of the jobs together, as if they were one that is red when any of them is."""
    recurring: Sequence[Recurring] = ()


def earlier_of(where: str | Path, run_id: str) -> Earlier:
    """Ask the history at `where` about a run. A history that cannot answer is `unknown`, and no error."""
    if not may_exist(where):
        return Earlier("there is no history here")
    # Imported here: a host without a history needs no SQLAlchemy.
    from pipeline.history.noise import measured
    from pipeline.history.questions import (
        faster_in,
        fixed_in,
        flaky_in,
        run_named,
        skipped_in,
        slower_in,
        strip_in,
        vanished,
    )
    from pipeline.history.store import open_history
    from pipeline.history.stories import stories_of
    from pipeline.history.trends import recurring_in, red_times

    try:
        with open_history(where) as history:
            run = run_named(history, run_id)
            # Asked once: with thousands of jobs each takes seconds.
            stories = stories_of(history, run, _SHOWN, mute=True)
            values = list(measured(history, run, _SHOWN))
            strips = strip_in(stories)
            nights = _nights(strips, _cycles(values))
            red, any_red = red_times(strips)
            return Earlier(
                strips=strips,
                fixed=fixed_in(stories),
                skipped=skipped_in(stories),
                vanished=vanished(history, run),
                flaky=flaky_in(stories),
                slower=slower_in(values),
                faster=faster_in(values),
                nights=nights,
                red=red,
                any_red=any_red,
                recurring=recurring_in(strips),
            )
    except UserError as error:
        return Earlier(str(error))


def _nights(
    strips: Mapping[str, Sequence[Ended]], cycles: Mapping[str, Sequence[float]]
) -> tuple[Night, ...]:
    from pipeline.history.stories import MUTE

    by_run: dict[str, list[Ended]] = {}
    for strip in strips.values():
        for one in strip:
            by_run.setdefault(one.run, []).append(one)
    nights = []
    for run, ends in sorted(by_run.items()):
        states = Counter(one.state for one in ends)
        passed, failed = (
            sum(count for state, count in states.items() if OUTCOMES[state].outcome is outcome)
            for outcome in (Outcome.PASSED, Outcome.FAILURE)
        )
        moved = cycles.get(run)
        nights.append(
            Night(
                run,
                ends[0].commit,
                ends[0].began,
                100 * passed / (passed + failed) if passed + failed else None,
                sum(one.seconds for one in ends),
                {state.value: states[state] for state in State if states[state]},
                any(one.red and one.state not in MUTE for one in ends),
                statistics.median(moved) if moved else None,
                max(moved) if moved else None,
            )
        )
    return tuple(nights)


def _cycles(values: Iterable[Measured]) -> Mapping[str, Sequence[float]]:
    """By run what its programs took, each in percent of its median over the runs."""
    from pipeline.history.noise import SECONDS

    found: dict[str, list[float]] = {}
    for one in values:
        median = statistics.median(value for _, value in one.values)
        if one.metric != SECONDS and median:
            for run, value in one.values:
                found.setdefault(run, []).append(100 * value / median)
    return found
