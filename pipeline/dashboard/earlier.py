"""What the history tells a dashboard; a host without one has a dashboard of the run alone."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from golden.errors import UserError
from pipeline.ground.jobs import OUTCOMES, Outcome, State

if TYPE_CHECKING:  # they import SQLAlchemy
    from pipeline.history.questions import Change, Ended, Flaky, Gone, Moved
    from pipeline.history.store import History

_SHOWN = 30
"""Runs that a job's strip and the trends show."""


@dataclass(frozen=True)
class Night:
    """A run as the trends show it, of the jobs alone that the dashboard's run has too.

    `rate` is the part of the judged jobs that passed, in percent; None if none was judged. `seconds` is the
    sum over the jobs. `cycles` and `worst` are the median and the largest of what programs took, by the
    metric of `Earlier.metric`, in percent of the job's own median; None if nothing was measured.
    """

    run: str
    commit: str
    rate: float | None
    seconds: float
    states: Mapping[str, int]
    cycles: float | None = None
    worst: float | None = None


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


def earlier_of(where: str | Path, run_id: str) -> Earlier:
    """Ask the history at `where` about a run. A history that cannot answer is `unknown`, and no error."""
    if isinstance(where, Path) and not where.exists():
        return Earlier("there is no history here")
    # Imported here: a host without a history needs no SQLAlchemy.
    from pipeline.history.questions import (
        faster,
        fixed,
        flaky,
        run_named,
        skipped,
        slower,
        strip,
        vanished,
    )
    from pipeline.history.store import open_history

    try:
        with open_history(where) as history:
            run = run_named(history, run_id)
            strips = strip(history, run, _SHOWN)
            return Earlier(
                strips=strips,
                fixed=fixed(history, run),
                skipped=skipped(history, run),
                vanished=vanished(history, run),
                flaky=flaky(history, run),
                slower=slower(history, run),
                faster=faster(history, run),
                nights=_nights(strips, _cycles(history, run_id)),
            )
    except UserError as error:
        return Earlier(str(error))


def _nights(
    strips: Mapping[str, Sequence[Ended]], cycles: Mapping[str, Sequence[float]]
) -> tuple[Night, ...]:
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
                100 * passed / (passed + failed) if passed + failed else None,
                sum(one.seconds for one in ends),
                {state.value: states[state] for state in State if states[state]},
                statistics.median(moved) if moved else None,
                max(moved) if moved else None,
            )
        )
    return tuple(nights)


def _cycles(history: History, run_id: str) -> Mapping[str, Sequence[float]]:
    """By run what its programs took, each in percent of its median over the runs."""
    from pipeline.history.questions import SECONDS, measured, run_named

    found: dict[str, list[float]] = {}
    for one in measured(history, run_named(history, run_id), _SHOWN):
        median = statistics.median(value for _, value in one.values)
        if one.metric != SECONDS and median:
            for run, value in one.values:
                found.setdefault(run, []).append(100 * value / median)
    return found
