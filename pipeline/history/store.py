"""The database of the history: opened, migrated, written by one at a time, pruned."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    SQLAlchemyError,
    StatementError,
)

from pipeline.commands.facts import SOURCES_DIGEST
from pipeline.ground.results import FINGERPRINT, OUTCOMES, Attempt, Outcome, Result, Source
from pipeline.ground.settings import Settings
from pipeline.history import tables
from pipeline.history.past import ContentError, HistoryError, entry_of
from pipeline.report.results import RunResults
from pipeline.report.text import one_line
from pipeline.results.fingerprint import fingerprint
from pipeline.run.devices import lock_name
from pipeline.run.folders import began, is_run_id
from pipeline.run.messages import encode

_MIGRATIONS = Path(__file__).parent / "migrations"
PATIENCE = 10.0
"""Seconds to wait for a server, and for another run that writes."""

LONGEST_STATEMENT = 120
"""Seconds after which a server gives up a statement."""

_MESSAGE = 300
_CLOCKS = (Source.DEVICE_CLOCK, Source.HOST_CLOCK)
_POSTGRESQL, _SQLITE = "postgresql", "sqlite"
_DRIVER = "postgresql+psycopg"
_WRITES = {"writes": True}
_DAMAGED = ": it is damaged: move it away, and bring runs in again with `history import`"
_FULL = ": make room on its disk, or name another"
_NOT_WRITABLE = ("readonly", "disk I/O error", "unable to open")
_REMEDIES = {
    **dict.fromkeys(("no such table", "no such column", 'relation "', "malformed"), _DAMAGED),
    **dict.fromkeys(("disk is full", "No space left", "disk I/O error"), _FULL),
    "readonly": ": it may not be written, or its disk is full: make room there, or name another",
    **dict.fromkeys(("locked", "lock timeout"), ": try again when the command that writes it has ended"),
}
"""By a part of what a database says, what helps."""

_NAME_ANOTHER = "; set PIPELINE_HISTORY to one that can be used, or to off"

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
    url = URL.create(_SQLITE, database=str(place)) if isinstance(place, Path) else _parsed(place)
    with _named(url):
        engine = _engine(url, patience, silence)
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
        with _named(self._url), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The only connection that writes; it waits for another one."""
        with _named(self._url), self._engine.execution_options(**_WRITES).begin() as connection:
            if connection.dialect.name == _POSTGRESQL:
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
                raise HistoryError(f"{_shown(self._url)}: is a database of another program; name another")
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
                raise HistoryError(f"{_shown(self._url)}: does not say which form it has{_DAMAGED}")
            if before is not None and before not in known:
                what = f"a newer pipeline wrote it (form {before}, this one knows up to {to})"
                raise HistoryError(f"{_shown(self._url)}: {what}: update this checkout, or name another")
            config.attributes["connection"] = connection
            command.upgrade(config, to)
        if before not in (None, to):
            tell(f"{_shown(self._url)}: brought from form {before} to {to}")

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
            with _held(results.run):
                _Writer(connection).write(results)
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
        if gone and self._engine.dialect.name == _SQLITE:
            alone = self._engine.execution_options(isolation_level="AUTOCOMMIT")
            with _named(self._url), alone.connect() as connection:
                connection.exec_driver_sql("VACUUM")
        return len(gone)


def _forget(connection: Connection, runs: Iterable[str]) -> None:
    connection.execute(sa.delete(tables.runs).where(tables.runs.c.run.in_(list(runs))))


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


def _compared(settings: Settings) -> str:
    return encode(settings.compared).decode()


def _revision(connection: Connection) -> str | None:
    """The migration that a database has, empty if it lost that; None if it has no tables of ours."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() or "")


def _is_another_programs(connection: Connection) -> bool:
    """Whether a database has tables, but not those of a history."""
    found = set(sa.inspect(connection).get_table_names())
    return bool(found) and not found.issuperset({"alembic_version", "runs", "results"})


def _parsed(url: str) -> URL:
    # The text is not shown: it may hold a password.
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or not parsed.database or not url.isprintable() or not _plain(parsed):
        raise HistoryError(
            "PIPELINE_HISTORY: is no URL of a history; write sqlite:////FOLDER/history.sqlite or "
            "postgresql://USER@HOST/DATABASE"
        )
    if parsed.drivername == _SQLITE:
        return parsed
    if url.count("@") > (parsed.username is not None):
        raise HistoryError(
            "PIPELINE_HISTORY: where its user and password end is not clear; write @ as %40, / as %2F and "
            ": as %3A in them"
        )
    return parsed.set(drivername=_DRIVER)


def _plain(url: URL) -> bool:
    """Whether a URL names a SQLite file and nothing else, or a PostgreSQL server."""
    if url.drivername == _SQLITE:
        others = (url.host, url.port, url.username, url.password, url.query)
        return not any(others) and not str(url.database).startswith((":memory:", "file:"))
    return url.drivername in (_POSTGRESQL, "postgres", _DRIVER)


def _engine(url: URL, patience: float, silence: float) -> Engine:
    if url.get_backend_name() == _SQLITE:
        Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
        engine = sa.create_engine(url, connect_args={"timeout": patience})
        sa.event.listen(engine, "do_connect", _connected)
        sa.event.listen(engine, "begin", _begin)
        return engine
    limits = f"-c lock_timeout={1000 * patience:.0f} -c statement_timeout={1000 * LONGEST_STATEMENT}"
    # These win over the URL's parameters of the same name.
    given = {name: str(value) for name, value in url.query.items()}
    limited = {"connect_timeout": PATIENCE, **given, "options": f"{limits} {given.get('options', '')}"}
    try:
        import psycopg

        psycopg.conninfo.make_conninfo(**given)  # refuses options of the Python driver, which change its ways
        engine = sa.create_engine(url, connect_args=limited)
    except psycopg.Error as error:
        raise HistoryError(f"{_shown(url)}: {one_line(str(error))}; leave it out") from error
    except ImportError as error:
        remedy = "pip install 'conv-pair-pipeline[postgresql]'"
        raise HistoryError(f"{_shown(url)}: needs the package psycopg: {remedy}") from error

    class Impatient(psycopg.Connection[Any]):
        """What is silent may still hold the connection open, as a proxy does: no timeout of TCP passes."""

        def wait(self, gen: Any, *args: Any, **waiting: Any) -> Any:
            try:
                return super().wait(_unless_silent(gen, silence), *args, **waiting)
            except TimeoutError as error:
                self.close()  # else whoever rolls back would wait as long again
                raise psycopg.OperationalError(str(error)) from error

    @sa.event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, words: Any, parameters: Any) -> Any:
        return Impatient.connect(*words, **parameters)

    return engine


def _unless_silent(waiting: Generator[Any, Any, Any], silence: float) -> Generator[Any, Any, Any]:
    """What waits for a server: it is sent whether the server is ready. Gives up after so many seconds."""
    ready, heard = None, time.monotonic()
    while True:
        try:
            wanted = waiting.send(ready)
        except StopIteration as end:
            return end.value
        if ready := (yield wanted):
            heard = time.monotonic()
        elif time.monotonic() - heard > silence:
            raise TimeoutError(f"the server has said nothing for {silence:g} s")


def _connected(_dialect: Any, _record: Any, words: Any, parameters: Any) -> sqlite3.Connection:
    """A connection to SQLite. Where nothing can be written, not even for its locks, the file as it is."""
    connection: sqlite3.Connection = sqlite3.connect(*words, **parameters)
    try:
        _prepare(connection)
        return connection
    except sqlite3.OperationalError as error:
        connection.close()
        path = Path(words[0])
        if not any(sign in str(error) for sign in _NOT_WRITABLE) or not path.is_file():
            raise
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, **parameters)
    connection.isolation_level = None
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Prepare a connection to SQLite: transactions are ours, and readers do not wait for a writer."""
    connection.isolation_level = None
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    # The form of the file of another program, which is going to be refused, does not change.
    wal = ("journal_mode=WAL",) if not found or "alembic_version" in found else ()
    for pragma in ("foreign_keys=ON", *wal, "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    """Begin a transaction. One that writes waits here: a reader that begins to write is refused at once."""
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")


@contextmanager
def _named(url: URL) -> Iterator[None]:
    """Whatever a database refuses here is a `HistoryError` that names it."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        said = str(getattr(error, "orig", None) or error)
        remedy = next((remedy for sign, remedy in _REMEDIES.items() if sign in said), _NAME_ANOTHER)
        if any(str(secret) in said for secret in (url.password, url.query.get("password")) if secret):
            # Stars in its place would show a short one, by the words around them.
            said = f"{type(error).__name__}; what it says is not shown, because the password may be in it"
        raise HistoryError(f"{_shown(url)}: {one_line(said)}{remedy}") from error


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


def _shown(url: URL) -> str:
    """A database without what is secret about it."""
    if url.get_backend_name() == _SQLITE:
        return f"history {url.database}"
    return f"history {url.set(query={}, drivername=_POSTGRESQL).render_as_string(hide_password=True)}"


def utc(moment: datetime) -> datetime:
    """A time as the database gives it, with its zone."""
    return moment.replace(tzinfo=timezone.utc)
