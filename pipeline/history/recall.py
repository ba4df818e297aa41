"""The past as the database remembers it. SQLAlchemy is imported when an answer depends on it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from golden.errors import UserError
from pipeline.ground.jobs import State
from pipeline.history.past import DEPTH, MEASURED, End, Folders, Measured, Past, may_exist, state_of
from pipeline.report.text import one_line

if TYPE_CHECKING:
    from pipeline.history.store import History

Answer = TypeVar("Answer")


def past_of(place: str | Path, folders: Folders, now: datetime, tell: Callable[[str], object]) -> Past:
    """The past of a host: its database, or the folders of its runs if it has no database file.

    If the database cannot be used, `tell` is told once why, and the folders answer.
    """
    if not may_exist(place):
        return folders
    return Remembered(place, folders, f"{now:%Y%m%d-%H%M%S}-g", tell)


@dataclass
class Remembered:
    """See `Past`. Runs with an id behind `until` began later."""

    place: str | Path
    folders: Folders
    until: str
    tell: Callable[[str], object]
    _opened: ExitStack = field(default_factory=ExitStack)
    _history: History | None = None
    _lost: bool = False

    def ends(self, job: str) -> Iterator[tuple[str, End]]:
        """See `Past`. At most the `DEPTH` last results are looked at."""
        yield from self._asked(lambda: self._ends(job), lambda: list(self.folders.ends(job)))

    def measured(self) -> Mapping[str, Measured]:
        """See `Past`."""
        return self._asked(self._measured, self.folders.measured)

    def _asked(self, database: Callable[[], Answer], folders: Callable[[], Answer]) -> Answer:
        if not self._lost:
            try:
                return database()
            except Exception as error:  # a run never ends otherwise because of its history
                self._lost = True
                said = (
                    str(error)
                    if isinstance(error, UserError)
                    else f"history: {type(error).__name__}: {error}"
                )
                self.tell(f"{one_line(said)}; what earlier runs say is read from {self.folders.root}")
        return folders()

    def _open(self) -> History:
        if self._history is None:
            from pipeline.history.store import open_history

            self._history = self._opened.enter_context(open_history(self.place, self.tell))
        return self._history

    def _ends(self, job: str) -> list[tuple[str, End]]:
        history = self._open()
        import sqlalchemy as sa

        from pipeline.history.tables import diffs, fingerprints, jobs, names, results, runs, stages

        tensor, against = names.alias(), names.alias()
        ended = (
            sa.select(
                *(runs.c.run, runs.c.host, runs.c.compared, fingerprints.c.fingerprint),
                *(results.c.id, results.c.state, results.c.entry, names.c.name),
            )
            .select_from(results)
            .join(runs)
            .join(jobs)
            .join(names, results.c.backends_id == names.c.id)
            .outerjoin(fingerprints)
            .where(jobs.c.job == job, runs.c.run <= self.until, runs.c.run != self.folders.current)
            .order_by(runs.c.run.desc())
            .limit(DEPTH)
        )
        compared = (
            sa.select(
                *(stages.c.result_id, names.c.name.label("stage"), tensor.c.name.label("tensor")),
                *(diffs.c.golden, diffs.c.actual),
            )
            .select_from(diffs)
            .join(stages)
            .join(names, stages.c.name_id == names.c.id)
            .join(tensor, diffs.c.tensor_id == tensor.c.id)
            .join(against, diffs.c.against_id == against.c.id)
            .where(against.c.name == "golden")
        )
        with history.reading() as connection:
            rows = connection.execute(ended).all()
            failed = [row.id for row in rows if row.fingerprint]
            outputs: dict[int, dict[tuple[str, str, str], str]] = {}
            for one in connection.execute(compared.where(stages.c.result_id.in_(failed))) if failed else ():
                key = (one.stage, one.tensor, one.golden)
                outputs.setdefault(one.result_id, {})[key] = one.actual or one.golden
        return [
            (
                row.run,
                End(
                    state_of(row.state),
                    row.fingerprint or "",
                    tuple(json.loads(row.entry or "[]")),
                    row.state == State.EXPECTED_FAILURE.value,
                    outputs.get(row.id, {}),
                    tuple(row.name.split("+")),
                    tuple(json.loads(row.compared)),
                    row.host == socket.gethostname() or row.run in self.folders.ids,
                ),
            )
            for row in rows
        ]

    def _measured(self) -> Mapping[str, Measured]:
        history = self._open()
        import sqlalchemy as sa

        from pipeline.history.tables import jobs, results, runs

        last = (
            sa.select(results.c.job_id, sa.func.max(runs.c.run).label("run"))
            .join(runs)
            .where(results.c.state.in_([state.value for state in MEASURED]), runs.c.run <= self.until)
            .group_by(results.c.job_id)
            .subquery()
        )
        measured = (
            sa.select(jobs.c.job, results.c.seconds, results.c.peak_memory)
            .select_from(results)
            .join(runs)
            .join(jobs)
            .join(last, (last.c.job_id == results.c.job_id) & (last.c.run == runs.c.run))
        )
        with history.reading() as connection:
            rows = connection.execute(measured)
            return {row.job: Measured(row.seconds, row.peak_memory or 0) for row in rows}
