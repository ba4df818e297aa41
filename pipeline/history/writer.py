"""Writes a run into the tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from pipeline.commands.facts import SOURCES_DIGEST
from pipeline.ground.results import FINGERPRINT, OUTCOMES, Attempt, Outcome, Result, Source
from pipeline.ground.settings import Settings
from pipeline.history import tables
from pipeline.history.past import ContentError, entry_of
from pipeline.report.results import RunResults
from pipeline.report.text import one_line
from pipeline.results.fingerprint import fingerprint
from pipeline.run.devices import lock_name
from pipeline.run.folders import began
from pipeline.run.messages import encode

_MESSAGE = 300
_CLOCKS = (Source.DEVICE_CLOCK, Source.HOST_CLOCK)


def write_run(connection: Connection, results: RunResults) -> None:
    """Write all rows of a run, of which nothing is there.

    Raises:
        ContentError: what it says cannot be held.
    """
    with _held(results.run):
        _Writer(connection).write(results)


class _Writer:
    """Writes one run. Numbers of rows are given here, because nobody else writes meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: dict[sa.Table, list[dict[str, Any]]] = {}
        self._next: dict[sa.Table, int] = {}
        self._known: dict[sa.Table, dict[tuple[str, ...], int]] = {}

    def write(self, results: RunResults) -> None:
        """Write all rows of a run, those first that others name."""
        run = self._run(results)
        for result in {one.job.id: one for one in results.jobs}.values():
            self._result(run, result, result.facts.get("host", results.host))
        for table in tables.metadata.sorted_tables:
            if rows := self._rows.get(table):
                self._connection.execute(table.insert(), rows)

    def _run(self, results: RunResults) -> int:
        compared = _compared(results.settings)
        versions = {name: one_line(version) for name, version in results.versions.items()}
        digest = encode([sorted(versions.items()), results.facts.get(SOURCES_DIGEST, "")])
        run = self._new(
            tables.runs,
            run=results.run,
            began=began(results.run).replace(tzinfo=None),
            seconds=results.seconds,
            exit_code=results.exit_code,
            verdict=one_line(results.verdict),
            host=one_line(results.host),
            commit=one_line(results.commit),
            branch=one_line(results.branch),
            toolchain=hashlib.sha256(digest).hexdigest()[:12],
            compared=compared,
            usual=compared == _compared(Settings()),
            parts=" ".join(results.parts),
            header=encode(msgspec.structs.replace(results, jobs=())).decode(),
        )
        for name, version in versions.items():
            self._add(tables.versions, run_id=run, name=one_line(name, 80), version=version)
        return run

    def _result(self, run: int, result: Result, host: str) -> None:
        if result.state not in OUTCOMES:
            raise ValueError(f"{one_line(result.job.id)} is {result.state.value}, which is no end")
        job, passed = result.job, OUTCOMES[result.state].outcome is Outcome.PASSED
        kind = result.facts.get(FINGERPRINT) or fingerprint(result)  # what never began was not reviewed
        entry = entry_of(result)
        ran_on = None if result.device is None else lock_name(job.platform, result.device)
        number = self._new(
            tables.results,
            run_id=run,
            job_id=self._id(
                tables.jobs,
                job=job.id,
                lane=job.lane.value,
                platform=job.platform_name,
                geometry=job.geometry_name,
                kernel=job.kernel,
                profile=job.written_profile or job.profile or "",
            ),
            state=result.state.value,
            seconds=result.seconds,
            device_id=self._device(host, ran_on),
            fingerprint_id=self._id(tables.fingerprints, fingerprint=one_line(kind)) if kind else None,
            backends_id=self._name("+".join(platform.backend for platform in job.platforms)),
            message=None if passed else one_line(result.message, _MESSAGE),
            entry=encode(entry).decode() if entry else None,
            peak_memory=result.peak_memory or None,
        )
        tries = result.tries
        if not tries and ran_on:
            tries = (Attempt(ran_on, result.state, result.message, result.seconds),)
        for nth, one in enumerate(tries, 1):
            self._add(
                tables.attempts,
                result_id=number,
                number=nth,
                device_id=self._device(host, one.device),
                state=one.state.value,
                seconds=one.seconds,
                message=one_line(one.message, _MESSAGE) or None,
            )
        self._stages(number, result)

    def _stages(self, result_id: int, result: Result) -> None:
        for stage in result.stages:
            number = self._new(
                tables.stages,
                result_id=result_id,
                name_id=self._name(stage.name),
                state=stage.state.value,
                seconds=stage.seconds,
            )
            for nth, diff in enumerate(stage.diffs):
                self._add(
                    tables.diffs,
                    stage_id=number,
                    number=nth,
                    tensor_id=self._name(diff.tensor),
                    against_id=self._name(diff.against),
                    count=diff.count,
                    mismatches=diff.mismatches,
                    max_abs=diff.max_abs,
                    golden=diff.golden_sha,
                    actual=None if diff.actual_sha == diff.golden_sha else diff.actual_sha,
                )
            for metric in {each.name: each for each in stage.metrics}.values():
                row = {"stage_id": number, "name_id": self._name(metric.name)}
                if metric.source in _CLOCKS and metric.unit == "us":
                    self._add(tables.timings, **row, value=metric.value, model_id=self._name(metric.model))
                else:
                    self._add(tables.metrics, **row, value=metric.value)

    def _device(self, host: str, device: str | None) -> int | None:
        return self._id(tables.devices, host=one_line(host), device=device) if device else None

    def _name(self, name: str) -> int:
        return self._id(tables.names, name=one_line(name))

    def _id(self, table: sa.Table, **row: str) -> int:
        """The number of a row that many others name; its unique columns tell it apart."""
        (unique,) = (one for one in table.constraints if isinstance(one, sa.UniqueConstraint))
        if table not in self._known:
            rows = self._connection.execute(sa.select(*unique.columns, table.c.id))
            self._known[table] = {tuple(known[:-1]): known[-1] for known in rows}
        key = tuple(row[column.name] for column in unique.columns)
        if key not in self._known[table]:
            self._known[table][key] = self._new(table, **row)
        return self._known[table][key]

    def _new(self, table: sa.Table, **row: Any) -> int:
        if table not in self._next:
            highest = self._connection.scalar(sa.select(sa.func.max(table.c.id)))
            self._next[table] = (highest or 0) + 1
        number = self._next[table]
        self._next[table] += 1
        self._add(table, id=number, **row)
        return number

    def _add(self, table: sa.Table, **row: Any) -> None:
        self._rows.setdefault(table, []).append(row)


@contextmanager
def _held(run: str) -> Iterator[None]:
    """What a run says may be wrong, which is not the database's fault."""
    try:
        yield
    except (StatementError, ArithmeticError, LookupError, ValueError) as error:
        if isinstance(error, DBAPIError) and not isinstance(error, (DataError, IntegrityError)):
            raise
        cause = getattr(error, "orig", None) or error
        why = one_line(f"{type(cause).__name__}: {cause}")
        raise ContentError(
            f"run {run}: its results cannot be brought in: {why}; write its report anew, or leave it out"
        ) from error


def _compared(settings: Settings) -> str:
    return encode(settings.compared).decode()
