"""What people ask in the morning: each question is about a run and those before it.

Only runs are compared that had the same `--inputs`, `--inject` and `--stage`. A result that says nothing
about its job (skipped, interrupted, infrastructure) is passed over where two nights are compared.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES, Outcome
from pipeline.ground.words import closest
from pipeline.history.past import HistoryError, legible, state_of
from pipeline.history.store import History, utc
from pipeline.history.tables import (
    attempts,
    devices,
    diffs,
    fingerprints,
    jobs,
    metrics,
    names,
    results,
    runs,
    stages,
    timings,
    versions,
)
from pipeline.results.excuses import Earlier
from pipeline.results.fingerprint import RED

LAST = 30
"""How many earlier runs a question looks at, if it is not told."""

SECONDS = "seconds"
"""The metric that is the time of a whole job, by the host's clock."""

NOISE: Mapping[str, float] = {"cycles": 0, "estimated_cycles.overlap": 0, "device_us": 0.02, SECONDS: 0.25}
"""By metric, the part of its median by which it must have moved at least; 0 where it is deterministic."""

FEWEST = 5
"""Earlier values that are needed to know how much a value that varies usually varies."""

_LEAST: Mapping[str, float] = {SECONDS: 1.0}
"""By metric, by how much it must have moved at least: what a busy host does to a short job is no news."""

_SPREADS = 4 * 1.4826
"""Median absolute deviations by which a value must have moved: four standard deviations of normal noise."""

MUTE = (State.SKIPPED, State.INTERRUPTED, State.INFRASTRUCTURE)
"""States that say nothing about a job."""

_CONTRADICTED = (State.NONDETERMINISTIC, State.DEVICE_DEPENDENT)


@dataclass(frozen=True)
class Run:
    """A run; `began` is in UTC. `toolchain` is a digest of its versions and sources.

    Of a merged run `parts` has the ids of its parts, with blanks between them.
    """

    id: str
    began: datetime
    seconds: float
    exit_code: int
    verdict: str
    host: str
    commit: str
    branch: str
    toolchain: str
    compared: str
    parts: str


@dataclass(frozen=True)
class Ended:
    """How a job ended in a run."""

    job: str
    run: str
    began: datetime
    commit: str
    toolchain: str
    state: State
    seconds: float
    device: str
    fingerprint: str
    message: str

    @property
    def red(self) -> bool:
        """Whether it failed or was not judged, also if that did not count because a baseline has it too."""
        return self.state is State.KNOWN_FAILURE or OUTCOMES[self.state].outcome in RED


@dataclass(frozen=True)
class Change:
    """A job that ends otherwise than the last time; `before` is None if it never ended before."""

    job: str
    now: Ended
    before: Ended | None


@dataclass(frozen=True)
class Failing:
    """A job that is red, since the run `since`: so many runs with this one, and days of the calendar."""

    job: str
    since: str
    runs: int
    days: int
    now: Ended


@dataclass(frozen=True)
class Flaky:
    """A job that ended `changes` times as nothing explains; `runs` had it."""

    job: str
    changes: int
    runs: int
    states: tuple[State, ...]
    last: str


@dataclass(frozen=True)
class Moved:
    """A metric that is further from the median of the earlier values than noise explains.

    Where it is deterministic only the last of them counts. `mad` is their median absolute deviation,
    `values` their number; `model` is the device model, or for `seconds` the host, that all of them are of.
    `percent` is the change from the median.
    """

    job: str
    metric: str
    value: float
    median: float
    mad: float
    percent: float
    values: int
    model: str


@dataclass(frozen=True)
class Measured:
    """A metric of a job in a run and in those before it, the last first: each run and its value."""

    job: str
    metric: str
    model: str
    values: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Gone:
    """A job that no run has had since `last`, though a run like the one asked about had it."""

    job: str
    last: str
    state: State


@dataclass(frozen=True)
class Counted:
    """How the results of some runs ended at one place. `rate` is the part of those judged that passed."""

    name: str
    runs: int
    states: Mapping[str, int]
    rate: float | None


@dataclass(frozen=True)
class Boundary:
    """Between which runs and commits a job broke; `good` is None if it never passed before."""

    job: str
    good: Ended | None
    bad: Ended


@dataclass(frozen=True)
class Difference:
    """Something that two runs do not have alike: what, and what it is in each."""

    what: str
    one: str
    other: str


@dataclass(frozen=True)
class Night:
    """A run with the number of its jobs in each state."""

    run: Run
    states: Mapping[str, int]


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
                return _run(row)
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
        for now, before in _stories(history, run, last)
        if now.red and now.state is not State.INTERRUPTED
        if not before or before[0].fingerprint != now.fingerprint
    )


def fixed(history: History, run: Run, last: int = LAST) -> tuple[Change, ...]:
    """Jobs that passed, or fail only as expected, and were red when they last said something."""
    return fixed_in(_stories(history, run, last))


def fixed_in(stories: Sequence[Story]) -> tuple[Change, ...]:
    """The same, of stories that are known already."""
    return tuple(
        Change(now.job, now, before[0])
        for now, before in map(_speaking, stories)
        if now.state in (State.PASSED, State.EXPECTED_FAILURE) and before and before[0].red
    )


def failing(history: History, run: Run, last: int = LAST) -> tuple[Failing, ...]:
    """Jobs that are red, those that have failed in the same way for longest first. All runs are looked at."""
    red = [now.job for now, _ in _stories(history, run, 0) if now.red]
    found = []
    for now, before in _stories(history, run, None, red):
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
    return flaky_in(_stories(history, run, last))


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
    return skipped_in(stories_of(history, run, last))


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
    recent = _recent(run, last + 1)
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
    return tuple(sorted(_moved(values, 1), key=lambda one: -one.percent))


def faster(history: History, run: Run, last: int = LAST) -> tuple[Moved, ...]:
    """Metrics that are lower than noise explains, those that moved most first."""
    return faster_in(measured(history, run, last))


def faster_in(values: Iterable[Measured]) -> tuple[Moved, ...]:
    """The same, of values that are known already."""
    return tuple(sorted(_moved(values, -1), key=lambda one: one.percent))


def first_bad(history: History, run: Run, job: str) -> tuple[Boundary, ...]:
    """Between which runs a job broke that is red; empty if it is not."""
    now, before = _story(history, run, job)
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
    now, before = _story(history, run, job)
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
            {now.job: now.fingerprint or now.state.value for now, _ in _stories(history, run, 0)},
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
        known, texts, kinds = (_texts(connection, table) for table in (jobs, names, fingerprints))
        for job, kind, stage, tensor, against, golden, actual in connection.execute(wanted):
            _, outputs = found.setdefault(known[job], (kinds[kind], {}))
            if golden is not None and texts[against] == "golden":
                outputs[texts[stage], texts[tensor], golden] = actual or golden
    return {job: Earlier(run.id, kind, outputs) for job, (kind, outputs) in found.items()}


def strip(history: History, run: Run, last: int = LAST) -> dict[str, tuple[Ended, ...]]:
    """By job of the run how it ended in the last runs, the oldest first."""
    return strip_in(stories_of(history, run, last))


def strip_in(stories: Sequence[Story]) -> dict[str, tuple[Ended, ...]]:
    """The same, of stories that are known already."""
    return {now.job: tuple(reversed((now, *before))) for now, before in stories}


def nights(history: History, run: Run, last: int = 365) -> tuple[Night, ...]:
    """The last runs, the oldest first."""
    counts = sa.select(results.c.run_id, results.c.state, sa.func.count()).group_by("run_id", "state")
    states: dict[int, dict[str, int]] = {}
    with history.reading() as connection:
        rows = connection.execute(_recent(run, last)).all()
        ids = [row.id for row in rows]
        for number, state, count in connection.execute(counts.where(results.c.run_id.in_(ids))):
            states.setdefault(number, {})[state] = count
    return tuple(Night(_run(row), states.get(row.id, {})) for row in reversed(rows))


def _run(row: Any) -> Run:
    same = [each.name for each in fields(Run) if each.name not in ("id", "began")]
    return Run(id=row.run, began=utc(row.began), **{name: getattr(row, name) for name in same})


def _recent(run: Run, last: int | None) -> sa.Select[Any]:
    """A run and those before it that can be compared with it, the last first; None: all of them."""
    comparable = sa.select(runs).where(runs.c.run <= run.id, runs.c.compared == run.compared)
    return comparable.order_by(runs.c.run.desc()).limit(last)


Story = tuple[Ended, Sequence[Ended]]
"""How a job ended in the run asked about, and in the runs before it, the last first."""


def stories_of(history: History, run: Run, last: int = LAST) -> list[Story]:
    """The story of each job of a run over the last runs, with results that say nothing about the job."""
    return _stories(history, run, last, mute=True)


def _speaking(story: Story) -> Story:
    now, before = story
    return now, [one for one in before if one.state not in MUTE or one.state is now.state]


def _stories(
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
        recent = _recent(run, None if last is None else last + 1)
        among = {row.id: row for row in connection.execute(recent)}
        wanted = {row.id: row.job for row in connection.execute(_jobs_of(run, only))}
        kinds = _texts(connection, fingerprints)
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
        stories.append((now, before) if mute else _speaking((now, before)))
    return sorted(stories, key=lambda story: story[0].job)


def _jobs_of(run: Run, only: Sequence[str] | None) -> sa.Select[Any]:
    """The jobs of a run, or those that are named, whether it had them or not."""
    if only is not None:
        return sa.select(jobs.c.id, jobs.c.job).where(jobs.c.job.in_(only))
    return sa.select(jobs.c.id, jobs.c.job).join_from(jobs, results).join(runs).where(runs.c.run == run.id)


def _story(history: History, run: Run, job: str) -> Story:
    """The story of one job over all runs up to this one, from the last that said something about it.

    Raises:
        HistoryError: no run had the job.
    """
    job = legible(job)
    for now, before in _stories(history, run, None, [job]):
        if now.state in MUTE and (said := [one for one in before if one.state not in MUTE]):
            return said[0], said[1:]
        return now, before
    with history.reading() as connection:
        known = list(connection.scalars(sa.select(jobs.c.job)))
    raise HistoryError(f"no run up to {run.id} has the job {job!r}: {closest(job, known)}")


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
        known, texts = _texts(connection, jobs), _texts(connection, names)
        return {
            f"{known[job]} {texts[stage]} {texts[tensor]} against {texts[against]}": (
                f"{(actual or golden)[:12]}, expected {golden[:12]}"
            )
            for job, stage, tensor, against, golden, actual in connection.execute(wanted)
        }


def _counted(history: History, run: Run, last: int, ended: sa.Select[Any]) -> tuple[Counted, ...]:
    states: dict[str, Counter[str]] = {}
    seen: dict[str, set[int]] = {}
    with history.reading() as connection:
        ids = [row.id for row in connection.execute(_recent(run, last + 1))]
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


def _moved(values: Iterable[Measured], sign: int) -> Iterator[Moved]:
    """Metrics that moved up (1) or down (-1). Values of jobs that did not pass mean nothing."""
    for one in values:
        job, metric, (value, *before) = one.job, one.metric, (value for _, value in one.values)
        noise = next(part for name, part in NOISE.items() if metric == name or metric.endswith(f".{name}"))
        if len(before) < (FEWEST if noise else 1):
            continue
        if not noise:
            before = before[:1]  # its earlier changes are neither noise nor news
        median = statistics.median(before)
        mad = statistics.median(abs(each - median) for each in before)
        if sign * (value - median) > max(_SPREADS * mad, noise * median, _LEAST.get(metric, 0)):
            percent = 100 * (value - median) / median if median else 0.0
            yield Moved(job, metric, value, median, mad, percent, len(before), one.model)


def measured(history: History, run: Run, last: int = LAST) -> Iterator[Measured]:
    """What is tracked of the jobs that passed, over the last runs; only where this run has a value."""
    values: dict[tuple[int, int | None, int | None, int | str], list[tuple[str, float]]] = {}
    with history.reading() as connection:
        known, texts = _texts(connection, jobs), _texts(connection, names)
        among = {row.id: row for row in connection.execute(_recent(run, last + 1))}
        passed = (results.c.run_id.in_(list(among)), results.c.state == State.PASSED.value)
        whole = sa.select(results.c.run_id, results.c.job_id, results.c.seconds, devices.c.host)
        for run_id, job, value, host in connection.execute(whole.outerjoin(devices).where(*passed)):
            of = among[run_id]
            if host or not of.parts:  # of several hosts only a device says which it was
                values.setdefault((job, None, None, host or of.host), []).append((of.run, value))
        tracked = [number for number, text in texts.items() if text in NOISE]
        for table, model_id in ((metrics, sa.null()), (timings, timings.c.model_id)):
            staged = (
                sa.select(results.c.run_id, results.c.job_id, stages.c.name_id, table.c.name_id)
                .add_columns(table.c.value, model_id)
                .join_from(results, stages)
                .join(table, table.c.stage_id == stages.c.id)
                .where(table.c.name_id.in_(tracked), *passed)
            )
            for run_id, job, stage, name, value, model in connection.execute(staged):
                values.setdefault((job, stage, name, model or ""), []).append((among[run_id].run, value))
    for (job, stage, name, model), found in values.items():
        ordered = sorted(found, reverse=True)
        if ordered[0][0] == run.id:
            metric = SECONDS if stage is None or name is None else f"{texts[stage]}.{texts[name]}"
            measured_on = texts[model] if isinstance(model, int) else model
            yield Measured(known[job], metric, measured_on, ordered)


def _texts(connection: sa.Connection, table: sa.Table) -> dict[int, str]:
    """The texts of a table by their numbers: many rows name one of them."""
    return {number: text for number, text, *_ in connection.execute(sa.select(table))}
