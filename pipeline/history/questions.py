"""What people ask in the morning: each question is about a run and those before it.

Only runs are compared that had the same `--inputs`, `--inject` and `--stage`. A result that says nothing
about its job (skipped, interrupted, infrastructure) is passed over where two nights are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES, Outcome
from pipeline.history.answers import (
    Boundary,
    Change,
    Counted,
    Difference,
    Ended,
    Failing,
    Flaky,
    Gone,
    Measured,
    Moved,
    Night,
    Run,
)
from pipeline.history.noise import measured, moved
from pipeline.history.past import HistoryError, legible, state_of
from pipeline.history.store import History
from pipeline.history.stories import (
    LAST,
    MUTE,
    Story,
    recent_runs,
    run_of,
    speaking,
    stories_of,
    story_of,
    texts_of,
)
from pipeline.history.tables import (
    attempts,
    devices,
    diffs,
    fingerprints,
    jobs,
    names,
    results,
    runs,
    stages,
    versions,
)
from pipeline.results.excuses import Earlier

_CONTRADICTED = (State.NONDETERMINISTIC, State.DEVICE_DEPENDENT)


def run_named(history: History, name: str = "last", now: datetime | None = None) -> Run:
    """A run by its id; by `last` the last one with the usual data and stages; by a branch the last of these.

    The history tells of a run that began after `now` (the time of the call): that is the last of nothing.

    Raises:
        HistoryError: there is none.
    """
    name = legible(name)
    last = sa.select(runs).order_by(runs.c.run.desc())
    moment = (now or datetime.now(timezone.utc)).astimezone(timezone.utc)
    past = runs.c.began <= moment.replace(tzinfo=None)
    usual = last.where(runs.c.usual, past)
    with history.reading() as connection:
        for chosen in (
            last.where(runs.c.run == name),
            usual if name == "last" else usual.where(runs.c.branch == name),
        ):
            if (row := connection.execute(chosen.limit(1)).first()) is not None:
                later = connection.execute(last.where(~past).limit(1)).first()
                if later is not None and row.run != name:
                    remedy = "see to the clock of its host"
                    history.tell(f"run {later.run} is of a time to come, so it is not the last; {remedy}")
                return run_of(row)
        latest = [row.run for row in connection.execute(last.limit(3))]
    if not latest:
        raise HistoryError("the history has no run yet: `history import` brings in runs and JUnit files")
    known = ", ".join(latest)
    if name == "last":
        unusual = "a run with --inputs, --inject or --stage, or of a time to come, does not count as one"
        raise HistoryError(f"the history has no usual run: {unusual}; name one of the latest runs: {known}")
    raise HistoryError(f"the history has no run or branch {name!r}; the latest runs are: {known}")


def new(history: History, run: Run, last: int = LAST) -> tuple[Change, ...]:
    """Jobs that are red, and were not, or in another way, when they last said something.

    A job that was interrupted is left out: it says nothing, and may be as it was.
    """
    return tuple(
        Change(now.job, now, before[0] if before else None)
        for now, before in stories_of(history, run, last)
        if now.red and now.state is not State.INTERRUPTED
        if not before or before[0].fingerprint != now.fingerprint
    )


def fixed(history: History, run: Run, last: int = LAST) -> tuple[Change, ...]:
    """Jobs that passed, or fail only as expected, and were red when they last said something."""
    return fixed_in(stories_of(history, run, last))


def fixed_in(stories: Sequence[Story]) -> tuple[Change, ...]:
    """The same, of stories that are known already."""
    return tuple(
        Change(now.job, now, before[0])
        for now, before in map(speaking, stories)
        if now.state in (State.PASSED, State.EXPECTED_FAILURE) and before and before[0].red
    )


def failing(history: History, run: Run, last: int = LAST) -> tuple[Failing, ...]:
    """Jobs that are red, those that have failed in the same way for longest first. All runs are looked at."""
    red = [now.job for now, _ in stories_of(history, run, 0) if now.red]
    found = []
    for now, before in stories_of(history, run, None, red):
        row = [now]
        for one in before:
            if one.fingerprint != now.fingerprint:
                break
            row.append(one)
        days = (run.began.date() - row[-1].began.date()).days
        found.append(Failing(now.job, row[-1].run, len(row), days, now))
    return tuple(sorted(found, key=lambda one: (-one.runs, one.job)))


def flaky(history: History, run: Run, last: int = LAST) -> tuple[Flaky, ...]:
    """Jobs that ended as nothing explains: see `changes`."""
    return flaky_in(stories_of(history, run, last))


def flaky_in(stories: Sequence[Story]) -> tuple[Flaky, ...]:
    """The same, of stories that are known already."""
    found = []
    for now, before in stories:
        row = [one for one in (now, *before) if one.state not in MUTE]
        if changed := changes(row):
            states = tuple(dict.fromkeys(one.state for one in row))
            found.append(Flaky(now.job, len(changed), len(row), states, changed[0].run))
    return tuple(sorted(found, key=lambda one: (-one.changes, one.job)))


def changes(row: Sequence[Ended]) -> list[Ended]:
    """Those ends of a row, the last first, that nothing explains.

    They are another one than in the run before, with the same commit and toolchain, or contradict themselves:
    repeats of the job, or tries on two devices, differed. A failure that is excused from now on is the
    same one.
    """
    return [
        one
        for one, other in zip(row, (*row[1:], None), strict=False)  # an empty row has no change
        if one.state in _CONTRADICTED
        or (
            other is not None
            and (one.fingerprint or one.state) != (other.fingerprint or other.state)
            and (one.commit, one.toolchain) == (other.commit, other.toolchain)
            and one.commit != "unknown"
        )
    ]


def skipped(history: History, run: Run, last: int = LAST) -> tuple[Change, ...]:
    """Jobs that were skipped, and were not in the last run before that had them."""
    return skipped_in(stories_of(history, run, last, mute=True))


def skipped_in(stories: Sequence[Story]) -> tuple[Change, ...]:
    """The same, of stories that are known already."""
    return tuple(
        Change(now.job, now, before[0])
        for now, before in stories
        if now.state is State.SKIPPED and before and before[0].state is not State.SKIPPED
    )


def vanished(history: History, run: Run, last: int = LAST) -> tuple[Gone, ...]:
    """Jobs of the last run like this one: at least half of the jobs of either are the other's.

    Jobs that a run since then has had are not gone: they may be another shard's now.
    """
    recent = recent_runs(run, last + 1)
    with history.reading() as connection:
        ids = [(row.id, row.run) for row in connection.execute(recent)]
        plans: dict[int, dict[str, str]] = {}
        had = sa.select(results.c.run_id, jobs.c.job, results.c.state).join_from(results, jobs)
        for row in connection.execute(had.where(results.c.run_id.in_([each for each, _ in ids]))):
            plans.setdefault(row.run_id, {})[row.job] = row.state
    mine = plans.get(ids[0][0], {})
    seen = set(mine)
    for number, name in ids[1:]:
        plan = plans.get(number, {})
        if 2 * len(plan.keys() & mine.keys()) >= max(len(plan), len(mine)):
            return tuple(Gone(job, name, state_of(plan[job])) for job in sorted(plan.keys() - seen))
        seen |= plan.keys()
    return ()


def slower(history: History, run: Run, last: int = LAST) -> tuple[Moved, ...]:
    """Metrics that are higher than noise explains, those that moved most first."""
    return slower_in(measured(history, run, last))


def slower_in(values: Iterable[Measured]) -> tuple[Moved, ...]:
    """The same, of values that are known already."""
    return tuple(sorted(moved(values, 1), key=lambda one: -one.percent))


def faster(history: History, run: Run, last: int = LAST) -> tuple[Moved, ...]:
    """Metrics that are lower than noise explains, those that moved most first."""
    return faster_in(measured(history, run, last))


def faster_in(values: Iterable[Measured]) -> tuple[Moved, ...]:
    """The same, of values that are known already."""
    return tuple(sorted(moved(values, -1), key=lambda one: one.percent))


def first_bad(history: History, run: Run, job: str) -> tuple[Boundary, ...]:
    """Between which runs a job broke that is red; empty if it is not."""
    now, before = story_of(history, run, job)
    if not now.red:
        return ()
    bad = now
    for one in before:
        if not one.red:
            return (Boundary(job, one, bad),)
        bad = one
    return (Boundary(job, None, bad),)


def last_pass(history: History, run: Run, job: str) -> tuple[Ended, ...]:
    """When a job last passed; empty if it never did."""
    now, before = story_of(history, run, job)
    return tuple(one for one in (now, *before) if one.state is State.PASSED)[:1]


def by_platform(history: History, run: Run, last: int = LAST) -> tuple[Counted, ...]:
    """How jobs ended on each platform in the last runs."""
    ended = sa.select(jobs.c.platform.label("name"), results.c.state, results.c.run_id)
    return _counted(history, run, last, ended.join_from(results, jobs))


def by_device(history: History, run: Run, last: int = LAST) -> tuple[Counted, ...]:
    """How tries of jobs ended on each device in the last runs, those that others made good for among them."""
    name = (devices.c.host + " " + devices.c.device).label("name")
    ended = sa.select(name, attempts.c.state, results.c.run_id).join_from(attempts, results)
    return _counted(history, run, last, ended.join(devices, attempts.c.device_id == devices.c.id))


def diff(history: History, one: Run, other: Run) -> tuple[Difference, ...]:
    """What two runs do not have alike: where and of what they ran, then how jobs ended, then outputs."""
    facts = {"host": "host", "branch": "branch", "commit": "commit", "compared": "data, fault, stages"}
    found = [Difference(what, getattr(one, name), getattr(other, name)) for name, what in facts.items()]
    told = [
        (
            _versions(history, run),
            {now.job: now.fingerprint or now.state.value for now, _ in stories_of(history, run, 0)},
        )
        for run in (one, other)
    ]
    for mine, theirs in zip(*told, strict=True):
        for name in sorted({**mine, **theirs}):
            found.append(Difference(name, mine.get(name, "none"), theirs.get(name, "none")))
    first, second = (_outputs(history, run) for run in (one, other))
    found += [Difference(name, first[name], second[name]) for name in sorted(first.keys() & second.keys())]
    return tuple(each for each in found if each.one != each.other)


def failures(history: History, run: Run) -> dict[str, Earlier]:
    """By job how those failed that did, with their outputs that were compared with a golden."""
    wanted = (
        sa.select(results.c.job_id, results.c.fingerprint_id, stages.c.name_id)
        .add_columns(diffs.c.tensor_id, diffs.c.against_id, diffs.c.golden, diffs.c.actual)
        .join_from(results, stages, isouter=True)
        .join(diffs, isouter=True)
        .where(results.c.run_id == sa.select(runs.c.id).where(runs.c.run == run.id).scalar_subquery())
        .where(results.c.fingerprint_id.is_not(None))
    )
    found: dict[str, tuple[str, dict[tuple[str, str, str], str]]] = {}
    with history.reading() as connection:
        known, texts, kinds = (texts_of(connection, table) for table in (jobs, names, fingerprints))
        for job, kind, stage, tensor, against, golden, actual in connection.execute(wanted):
            _, outputs = found.setdefault(known[job], (kinds[kind], {}))
            if golden is not None and texts[against] == "golden":
                outputs[texts[stage], texts[tensor], golden] = actual or golden
    return {job: Earlier(run.id, kind, outputs) for job, (kind, outputs) in found.items()}


def strip(history: History, run: Run, last: int = LAST) -> dict[str, tuple[Ended, ...]]:
    """By job of the run how it ended in the last runs, the oldest first."""
    return strip_in(stories_of(history, run, last, mute=True))


def strip_in(stories: Sequence[Story]) -> dict[str, tuple[Ended, ...]]:
    """The same, of stories that are known already."""
    return {now.job: tuple(reversed((now, *before))) for now, before in stories}


def nights(history: History, run: Run, last: int = 365) -> tuple[Night, ...]:
    """The last runs, the oldest first."""
    counts = sa.select(results.c.run_id, results.c.state, sa.func.count()).group_by("run_id", "state")
    states: dict[int, dict[str, int]] = {}
    with history.reading() as connection:
        rows = connection.execute(recent_runs(run, last)).all()
        ids = [row.id for row in rows]
        for number, state, count in connection.execute(counts.where(results.c.run_id.in_(ids))):
            states.setdefault(number, {})[state] = count
    return tuple(Night(run_of(row), states.get(row.id, {})) for row in reversed(rows))


def _counted(history: History, run: Run, last: int, ended: sa.Select[Any]) -> tuple[Counted, ...]:
    states: dict[str, Counter[str]] = {}
    seen: dict[str, set[int]] = {}
    with history.reading() as connection:
        ids = [row.id for row in connection.execute(recent_runs(run, last + 1))]
        for row in connection.execute(ended.where(results.c.run_id.in_(ids))):
            states.setdefault(row.name, Counter())[row.state] += 1
            seen.setdefault(row.name, set()).add(row.run_id)
    return tuple(
        Counted(name, len(seen[name]), dict(sorted(counts.items())), rate(counts))
        for name, counts in sorted(states.items())
    )


def rate(counts: Mapping[str, int]) -> float | None:
    """The part of the results that judge a kernel which passed."""
    judged = {
        state: count
        for state, count in counts.items()
        if OUTCOMES[state_of(state)].outcome in (Outcome.PASSED, Outcome.FAILURE)
    }
    return judged.get(State.PASSED.value, 0) / sum(judged.values()) if judged else None


def _versions(history: History, run: Run) -> dict[str, str]:
    wanted = sa.select(versions.c.name, versions.c.version).join_from(versions, runs)
    with history.reading() as connection:
        return {row.name: row.version for row in connection.execute(wanted.where(runs.c.run == run.id))}


def _outputs(history: History, run: Run) -> dict[str, str]:
    """By job, stage, tensor and what it is compared with: beginnings of the hashes of both."""
    wanted = (
        sa.select(results.c.job_id, stages.c.name_id, diffs.c.tensor_id)
        .add_columns(diffs.c.against_id, diffs.c.golden, diffs.c.actual)
        .join_from(results, stages)
        .join(diffs)
        .where(results.c.run_id == sa.select(runs.c.id).where(runs.c.run == run.id).scalar_subquery())
    )
    with history.reading() as connection:
        known, texts = texts_of(connection, jobs), texts_of(connection, names)
        return {
            f"{known[job]} {texts[stage]} {texts[tensor]} against {texts[against]}": (
                f"{(actual or golden)[:12]}, expected {golden[:12]}"
            )
            for job, stage, tensor, against, golden, actual in connection.execute(wanted)
        }
