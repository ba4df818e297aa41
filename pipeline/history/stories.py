"""How the jobs of a run ended in it and in the runs before, as the tables of the history tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from pipeline.ground.jobs import State
from pipeline.ground.words import closest
from pipeline.history.answers import Ended, Run
from pipeline.history.past import HistoryError, legible, state_of
from pipeline.history.store import History
from pipeline.history.tables import devices, fingerprints, jobs, results, runs, utc

LAST = 30
"""How many earlier runs a question looks at, if it is not told."""

MUTE = (State.SKIPPED, State.INTERRUPTED, State.INFRASTRUCTURE)
"""States that say nothing about a job."""

Story = tuple[Ended, Sequence[Ended]]
"""How a job ended in the run asked about, and in the runs before it, the last first."""


def run_of(row: Any) -> Run:
    """The run that a row of `runs` tells of."""
    same = [each.name for each in fields(Run) if each.name not in ("id", "began")]
    return Run(id=row.run, began=utc(row.began), **{name: getattr(row, name) for name in same})


def recent_runs(run: Run, last: int | None) -> sa.Select[Any]:
    """A run and those before it that can be compared with it, the last first; None: all of them."""
    comparable = sa.select(runs).where(runs.c.run <= run.id, runs.c.compared == run.compared)
    return comparable.order_by(runs.c.run.desc()).limit(last)


def speaking(story: Story) -> Story:
    """A story without earlier results that say nothing about the job, unless it ends so now."""
    now, before = story
    return now, [one for one in before if one.state not in MUTE or one.state is now.state]


def stories_of(
    history: History,
    run: Run,
    last: int | None,
    only: Sequence[str] | None = None,
    *,
    mute: bool = False,
) -> list[Story]:
    """The story of each job of a run, or of those that are named, over the `last` runs; None: over all.

    Earlier results that say nothing about the job are left out, unless it ends so now, or they are `mute`.
    """
    with history.reading() as connection:
        recent = recent_runs(run, None if last is None else last + 1)
        among = {row.id: row for row in connection.execute(recent)}
        wanted = {row.id: row.job for row in connection.execute(_jobs_of(run, only))}
        kinds = texts_of(connection, fingerprints)
        places = {row.id: row.device for row in connection.execute(sa.select(devices))}
        ended = sa.select(results).where(results.c.run_id.in_(list(among)))
        if only is not None:
            ended = ended.where(results.c.job_id.in_(list(wanted)))
        told: dict[int, list[Ended]] = {}
        for row in connection.execute(ended):
            if row.job_id in wanted:
                of = among[row.run_id]
                one = Ended(
                    wanted[row.job_id],
                    of.run,
                    utc(of.began),
                    of.commit,
                    of.toolchain,
                    state_of(row.state),
                    row.seconds,
                    places.get(row.device_id, ""),
                    kinds.get(row.fingerprint_id, ""),
                    row.message or "",
                )
                told.setdefault(row.job_id, []).append(one)
    stories = []
    for ends in told.values():
        now, *before = sorted(ends, key=lambda one: one.run, reverse=True)
        stories.append((now, before) if mute else speaking((now, before)))
    return sorted(stories, key=lambda story: story[0].job)


def _jobs_of(run: Run, only: Sequence[str] | None) -> sa.Select[Any]:
    """The jobs of a run, or those that are named, whether it had them or not."""
    if only is not None:
        return sa.select(jobs.c.id, jobs.c.job).where(jobs.c.job.in_(only))
    return sa.select(jobs.c.id, jobs.c.job).join_from(jobs, results).join(runs).where(runs.c.run == run.id)


def story_of(history: History, run: Run, job: str) -> Story:
    """The story of one job over all runs up to this one, from the last that said something about it.

    Raises:
        HistoryError: no run had the job.
    """
    job = legible(job)
    for now, before in stories_of(history, run, None, [job]):
        if now.state in MUTE and (said := [one for one in before if one.state not in MUTE]):
            return said[0], said[1:]
        return now, before
    with history.reading() as connection:
        known = list(connection.scalars(sa.select(jobs.c.job)))
    raise HistoryError(f"no run up to {run.id} has the job {job!r}: {closest(job, known)}")


def texts_of(connection: sa.Connection, table: sa.Table) -> dict[int, str]:
    """The texts of a table by their numbers: many rows name one of them."""
    return {number: text for number, text, *_ in connection.execute(sa.select(table))}
