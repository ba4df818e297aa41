from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

import pytest

from pipeline.history import database
from pipeline.history.past import HistoryError
from pipeline.history.store import History, open_history

from .conftest import ended, night, refusal


def test_a_locked_database_is_told_in_one_line(place: str | Path) -> None:
    with open_history(place) as history, history.writing():
        said = refusal(place, patience=0.1)
    assert "locked" in said or "lock timeout" in said
    assert said.endswith("try again when the command that writes it has ended")


def test_what_is_no_database_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_text("last night's notes, which are long enough to be taken for a page of a database\n" * 20)
    remedy = "; set PIPELINE_HISTORY to one that can be used, or to off"
    assert refusal(path) == f"history {path}: file is not a database{remedy}"
    (tmp_path / "folder").mkdir()
    folder = tmp_path / "folder"
    assert refusal(folder) == f"history {folder}: unable to open database file{remedy}"


def test_on_a_full_disk_a_history_can_be_asked_and_not_written(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "a #?%41.sqlite"
    with open_history(path) as history:
        history.record(night(0, ended("a")))
    with full_disk():
        with open_history(path) as history:
            known = history.run_ids()
        said = refusal(path)
    assert known == (night(0).run,)
    assert said.endswith("or its disk is full: make room there, or name another")


@pytest.mark.parametrize("secret", ["a", "secret", "failed"])
def test_what_a_database_says_does_not_show_a_password(secret: str) -> None:
    urls = [f"postgresql://ann:{secret}@h/nights", f"postgresql://ann@h/nights?password={secret}"]
    for url in map(database.url_of, urls):
        with pytest.raises(HistoryError) as refused, database.refusals_of(url):
            raise OSError("connection failed: ann, secret: at last")
        said = str(refused.value).removeprefix(database.shown(url))
        assert said == (
            ": OSError; what it says is not shown, because the password may be in it; "
            "set PIPELINE_HISTORY to one that can be used, or to off"
        )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:secret@127.0.0.1:1/nights",
        "postgresql://ann@127.0.0.1:1/nights?password=secret",
        "postgresql://ann:secret@127.0.0.1:1/nights?nonsense=1",
        "postgresql://ann:secret@[::1/nights",
        "mysql://ann:secret@host/nights",
        "sqlite://",  # of a history in memory nothing is left
        "secret",
        "sqlite+aiosqlite:////tmp/secret",
        "sqlite+pysqlcipher://:secret@/tmp/h",
        "sqlite://ann:secret@host/tmp/h",
        "sqlite:///:memory:",
        "sqlite:///file:secret",
        "sqlite:////tmp/secret?timeout=abc",
        "sqlite:////tmp/secret\x00",
        "postgresql+asyncpg://ann:secret@host/nights",
    ],
)
def test_no_message_has_a_password(url: str) -> None:
    said = refusal(url, patience=1)
    assert "secret" not in said
    assert said.startswith(("history postgresql://ann", "PIPELINE_HISTORY: is no URL of a history; write "))


def test_a_database_that_lost_a_table_or_has_no_room_says_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"

    def fill(history: History) -> None:
        with history.writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            connection.exec_driver_sql("INSERT INTO names VALUES (1, ?)", ("x" * 100_000,))

    with open_history(path) as history, pytest.raises(HistoryError, match="full: make room"):
        fill(history)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE devices")
    assert refusal(path).endswith("bring runs in again with `history import`")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:my@secret@host/nights",
        "postgresql://ann:my@secret/secret@host/nights",
        "postgresql://ann:my@host/secret?secret@host/nights",
        "postgresql://an/n:secret@host/nights",
        "postgresql://ann:my#secret@secret@host/nights",
    ],
)
def test_a_url_that_may_show_a_part_of_its_password_is_refused_unseen(url: str) -> None:
    said = refusal(url, patience=1)
    assert "secret" not in said
    assert "write @ as %40" in said or "is no URL of a history" in said


def test_the_parameters_of_a_url_are_heeded(server: str) -> None:
    url = f"postgresql://history@/postgres?host={server}&connect_timeout=3"
    given = f"{url}&sslmode=require&application_name=nights&options=-c%20work_mem%3D512kB"
    engine = database.engine_of(database.url_of(given), 7.0, 7.0)
    with engine.connect() as connection:
        told = [
            connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("application_name", "work_mem", "lock_timeout")
        ]
    engine.dispose()
    assert told == ["nights", "512kB", "7s"]
    assert 'invalid sslmode value: "never"; set PIPELINE_HISTORY to' in refusal(f"{url}&sslmode=never")
    assert refusal(f"{url}&autocommit=1").endswith('invalid connection option "autocommit"; leave it out')
    assert refusal(f"{url.replace('=3', '=soon')}").count("bad value for connect_timeout: 'soon'; set ")


@pytest.fixture
def proxy(server: str) -> Iterator[tuple[int, threading.Event]]:
    """The port of a proxy for the server; once the event is set, it takes everything and forwards nothing."""
    silent, open_ends = threading.Event(), list[socket.socket]()

    def forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not silent.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(f"{server}/.s.PGSQL.5432")
                open_ends.extend((near, far))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=forward, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=[listener], daemon=True).start()

        def close() -> None:
            for end in open_ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        rescue = threading.Timer(30, close)  # a test whose client waits for ever fails
        rescue.start()
        yield listener.getsockname()[1], silent
        rescue.cancel()
        close()


def test_a_server_that_falls_silent_is_given_up(server: str, proxy: tuple[int, threading.Event]) -> None:
    port, silent = proxy
    url = f"postgresql://history@127.0.0.1:{port}/postgres"
    with open_history(url, silence=0.2) as history:
        assert history.run_ids() == ()
        silent.set()
        with pytest.raises(HistoryError, match=r"nothing for 0\.2 s") as refused:
            history.run_ids()
    assert str(refused.value).startswith(f"history {url}: the server ")


def test_a_wrong_password_is_told_without_it(server: str) -> None:
    assert "nowhere" in refusal(f"postgresql://history:secret@/nowhere?host={server}")
    assert "secret" not in refusal(f"postgresql://history:secret@/nowhere?host={server}")
