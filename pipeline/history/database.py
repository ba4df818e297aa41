"""A database at a URL or in a file: how it is connected to, and what it refuses, in one line."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from pipeline.history.past import HistoryError
from pipeline.report.text import one_line

PATIENCE = 10.0
"""Seconds to wait for a server, and for another run that writes."""

_PAUSE = 0.02
"""Seconds until what was refused at once is asked again."""

LONGEST_STATEMENT = 120
"""Seconds after which a server gives up a statement."""

POSTGRESQL, SQLITE = "postgresql", "sqlite"
_DRIVER = "postgresql+psycopg"
WRITES = {"writes": True}
"""Options of a connection that writes: it waits where it begins."""

DAMAGED = ": it is damaged: move it away, and bring runs in again with `history import`"
"""What helps where a history is not whole."""

_FULL = ": make room on its disk, or name another"
_NOT_WRITABLE = ("readonly", "disk I/O error", "unable to open")
_REMEDIES = {
    **dict.fromkeys(("no such table", "no such column", 'relation "', "malformed"), DAMAGED),
    **dict.fromkeys(("disk is full", "No space left", "disk I/O error"), _FULL),
    "readonly": ": it may not be written, or its disk is full: make room there, or name another",
    **dict.fromkeys(("locked", "lock timeout"), ": try again when the command that writes it has ended"),
}
"""By a part of what a database says, what helps."""

_NAME_ANOTHER = "; set PIPELINE_HISTORY to one that can be used, or to off"


def url_of(place: str | Path) -> URL:
    """The URL of a database, of which a URL is given, or the file.

    Raises:
        HistoryError: it is no URL of a history.
    """
    return URL.create(SQLITE, database=str(place)) if isinstance(place, Path) else _parsed(place)


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
    if parsed.drivername == SQLITE:
        return parsed
    if url.count("@") > (parsed.username is not None):
        raise HistoryError(
            "PIPELINE_HISTORY: where its user and password end is not clear; write @ as %40, / as %2F and "
            ": as %3A in them"
        )
    return parsed.set(drivername=_DRIVER)


def _plain(url: URL) -> bool:
    """Whether a URL names a SQLite file and nothing else, or a PostgreSQL server."""
    if url.drivername == SQLITE:
        others = (url.host, url.port, url.username, url.password, url.query)
        return not any(others) and not str(url.database).startswith((":memory:", "file:"))
    return url.drivername in (POSTGRESQL, "postgres", _DRIVER)


def engine_of(url: URL, patience: float, silence: float) -> Engine:
    """What connects to a database; the times are those of `open_history`.

    Raises:
        HistoryError: there is no driver for it, or the URL has parameters that it does not take.
    """
    if url.get_backend_name() == SQLITE:
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
        raise HistoryError(f"{shown(url)}: {one_line(str(error))}; leave it out") from error
    except ImportError as error:
        remedy = "pip install 'conv-pair-pipeline[postgresql]'"
        raise HistoryError(f"{shown(url)}: needs the package psycopg: {remedy}") from error

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
        _prepare(connection, parameters["timeout"])
        return connection
    except sqlite3.OperationalError as error:
        connection.close()
        path = Path(words[0])
        if not any(sign in str(error) for sign in _NOT_WRITABLE) or not path.is_file():
            raise
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, **parameters)
    connection.isolation_level = None
    return connection


def _prepare(connection: sqlite3.Connection, patience: float) -> None:
    """Prepare a connection to SQLite: transactions are ours, and readers do not wait for a writer."""
    connection.isolation_level = None
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    # The form of the file of another program, which is going to be refused, does not change.
    if not found or "alembic_version" in found:
        _write_ahead(connection, patience)
    for pragma in ("foreign_keys=ON", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _write_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Let readers not wait for a writer. SQLite refuses this at once while another run makes the file."""
    until = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
        time.sleep(_PAUSE)


def _begin(connection: Connection) -> None:
    """Begin a transaction. One that writes waits here: a reader that begins to write is refused at once."""
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")


@contextmanager
def refusals_of(url: URL) -> Iterator[None]:
    """Whatever a database refuses here is a `HistoryError` that names it."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        said = str(getattr(error, "orig", None) or error)
        remedy = next((remedy for sign, remedy in _REMEDIES.items() if sign in said), _NAME_ANOTHER)
        if any(str(secret) in said for secret in (url.password, url.query.get("password")) if secret):
            # Stars in its place would show a short one, by the words around them.
            said = f"{type(error).__name__}; what it says is not shown, because the password may be in it"
        raise HistoryError(f"{shown(url)}: {one_line(said)}{remedy}") from error


def shown(url: URL) -> str:
    """A database without what is secret about it."""
    if url.get_backend_name() == SQLITE:
        return f"history {url.database}"
    return f"history {url.set(query={}, drivername=POSTGRESQL).render_as_string(hide_password=True)}"
