"""The database of the history: opened, migrated, written by one at a time, pruned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from pipeline.history import tables
from pipeline.history.database import (
    DAMAGED,
    PATIENCE,
    POSTGRESQL,
    SQLITE,
    WRITES,
    engine_of,
    refusals_of,
    shown,
    url_of,
)
from pipeline.history.past import ContentError, HistoryError
from pipeline.history.writer import write_run
from pipeline.report.results import RunResults
from pipeline.run.folders import began, is_run_id

_MIGRATIONS = Path(__file__).parent / "migrations"

_LOCK = sa.text("SELECT pg_advisory_xact_lock(7150311200)")


@contextmanager
def open_history(
    place: str | Path,
    tell: Callable[[str], object] = lambda line: None,
    patience: float = PATIENCE,
    silence: float = PATIENCE + 1,
) -> Iterator[History]:
    """Open the database at a URL, or in a file; it is made, or brought up to date, if it has to be.

    `tell` is told in one line that an older database was brought up to date. A server is given up after
    `silence` seconds in which it sends nothing: more than `patience`, after which it says that it is locked.

    Raises:
        HistoryError: it cannot be used: in one line, which names no password.
    """
    url = url_of(place)
    with refusals_of(url):
        engine = engine_of(url, patience, silence)
    try:
        history = History(engine, url, tell)
        history.migrate(tell)
        yield history
    finally:
        engine.dispose()


class History:
    """An open history. `reading` and `writing` give a connection in a transaction."""

    def __init__(self, engine: Engine, url: URL, tell: Callable[[str], object]) -> None:
        self._engine, self._url, self.tell = engine, url, tell

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees the database as it is now."""
        with refusals_of(self._url), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The only connection that writes; it waits for another one."""
        with refusals_of(self._url), self._engine.execution_options(**WRITES).begin() as connection:
            if connection.dialect.name == POSTGRESQL:
                connection.execute(_LOCK)
            yield connection

    def migrate(
        self, tell: Callable[[str], object], to: str = tables.REVISION, migrations: Path = _MIGRATIONS
    ) -> None:
        """Make the tables, or bring those of an older pipeline up to date.

        Raises:
            HistoryError: a newer pipeline wrote it.
        """
        with self.reading() as connection:
            now = _revision(connection)
            if _is_another_programs(connection):
                raise HistoryError(f"{shown(self._url)}: is a database of another program; name another")
            if now == to:
                return
        from alembic import command
        from alembic.config import Config
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(migrations).replace("%", "%%"))
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        with self.writing() as connection:
            before = _revision(connection)  # again: another run may have been quicker
            if before == "":
                raise HistoryError(f"{shown(self._url)}: does not say which form it has{DAMAGED}")
            if before is not None and before not in known:
                what = f"a newer pipeline wrote it (form {before}, this one knows up to {to})"
                raise HistoryError(f"{shown(self._url)}: {what}: update this checkout, or name another")
            config.attributes["connection"] = connection
            command.upgrade(config, to)
        if before not in (None, to):
            tell(f"{shown(self._url)}: brought from form {before} to {to}")

    def run_ids(self) -> tuple[str, ...]:
        """Ids of all runs and of the parts of merged ones, oldest first."""
        with self.reading() as connection:
            rows = connection.execute(sa.select(tables.runs.c.run, tables.runs.c.parts))
            return tuple(sorted({run for row in rows for run in (row.run, *row.parts.split())}))

    def record(self, results: RunResults) -> bool:
        """Write a run; what is known of it already is replaced.

        A merged run takes the place of its parts, and of what was merged from some of these alone; none of
        that is written where the merged run is known. False if so.

        Raises:
            ContentError: what it says cannot be held, or some of its parts, and not all, are parts of another
                merged run that is known: they would count twice.
            HistoryError: it has no id of a run, or cannot be written.
        """
        if not is_run_id(results.run):
            raise HistoryError(f"{results.run!r} is no id of a run")
        with self.writing() as connection:
            parts = {*results.parts} - {results.run}  # else it would stand in its own way
            results = msgspec.structs.replace(results, parts=tuple(filter(parts.__contains__, results.parts)))
            rows = connection.execute(sa.select(tables.runs.c.run, tables.runs.c.parts))
            merged = {run: set(text.split()) for run, text in rows if text and run != results.run}
            if any(results.run in those or (parts and parts < those) for those in merged.values()):
                return False
            smaller = [run for run, those in merged.items() if those <= parts]
            for run, those in merged.items():
                if run not in smaller and (twice := those & parts):
                    what = f"run {min(twice)} is also a part of the merged run {run}, which is there"
                    remedy = "merge the reports of all parts into one, and bring that in"
                    raise ContentError(f"run {results.run}: {what}, and would count twice; {remedy}")
            _forget(connection, [results.run, *parts, *smaller])
            write_run(connection, results)
            return True

    def prune(
        self, before: datetime | None = None, keep: int | None = None, now: datetime | None = None
    ) -> int:
        """Remove runs that began before a time, and all but the youngest `keep`; says how many there were.

        Runs that began after `now` (the time of the call) are the first to go. A SQLite file shrinks too.
        """
        now = now or datetime.now(timezone.utc)
        with self.writing() as connection:
            ids = sorted(
                connection.scalars(sa.select(tables.runs.c.run)),
                key=lambda run: (began(run) <= now, run),
                reverse=True,
            )
            gone = {run for run in ids if before is not None and began(run) < before}
            gone.update(ids[keep:] if keep is not None else ())
            _forget(connection, gone)
        if gone and self._engine.dialect.name == SQLITE:
            alone = self._engine.execution_options(isolation_level="AUTOCOMMIT")
            with refusals_of(self._url), alone.connect() as connection:
                connection.exec_driver_sql("VACUUM")
        return len(gone)


def _forget(connection: Connection, runs: Iterable[str]) -> None:
    connection.execute(sa.delete(tables.runs).where(tables.runs.c.run.in_(list(runs))))


def _revision(connection: Connection) -> str | None:
    """The migration that a database has, empty if it lost that; None if it has no tables of ours."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() or "")


def _is_another_programs(connection: Connection) -> bool:
    """Whether a database has tables, but not those of a history."""
    found = set(sa.inspect(connection).get_table_names())
    return bool(found) and not found.issuperset({"alembic_version", "runs", "results"})
