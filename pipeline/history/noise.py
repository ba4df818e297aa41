"""What is measured of jobs that passed, and which of it moved by more than noise."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping

import sqlalchemy as sa

from pipeline.ground.jobs import State
from pipeline.history.answers import Measured, Moved, Run
from pipeline.history.store import History
from pipeline.history.stories import LAST, recent_runs, texts_of
from pipeline.history.tables import devices, jobs, metrics, names, results, stages, timings

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


def measured(history: History, run: Run, last: int = LAST) -> Iterator[Measured]:
    """What is tracked of the jobs that passed, over the last runs; only where this run has a value."""
    values: dict[tuple[int, int | None, int | None, int | str], list[tuple[str, float]]] = {}
    with history.reading() as connection:
        known, texts = texts_of(connection, jobs), texts_of(connection, names)
        among = {row.id: row for row in connection.execute(recent_runs(run, last + 1))}
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


def moved(values: Iterable[Measured], sign: int) -> Iterator[Moved]:
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
