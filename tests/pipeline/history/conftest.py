"""Nights to remember, and the databases to remember them in."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from golden.errors import UserError
from pipeline.ground.jobs import Job, Lane, Platform, PlatformKind, State, WorkloadName
from pipeline.ground.results import FINGERPRINT, OUTCOMES, Result
from pipeline.ground.settings import Settings
from pipeline.history import tables
from pipeline.history.past import HistoryError
from pipeline.history.store import History, open_history
from pipeline.report.results import RunResults, results_of
from pipeline.results.fingerprint import RED
from pipeline.run.listener import RunInfo, RunSummary

NIGHT = datetime(2026, 3, 1, 4, tzinfo=timezone.utc)
SHA, OTHER = "ab" * 32, "cd" * 32

REMEDY = "needs a PostgreSQL server: apt-get install postgresql"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The folder of the socket of a PostgreSQL server of this test run alone; it listens to nothing else."""
    found = [shutil.which("initdb"), *map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    initdb = next(filter(None, found), None)
    if initdb is None:
        pytest.skip(REMEDY)
    programs = Path(initdb).resolve().parent
    # The server refuses to run as root.
    account = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    who: dict[str, Any] = {"user": account.pw_uid} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="pg") as folder:  # a socket's path must be short
        os.chown(folder, account.pw_uid, -1)
        data, log = f"{folder}/data", f"{folder}/log"
        options = f"-c listen_addresses='' -k {folder} -F -c max_connections=20"

        def call(*words: str) -> None:
            subprocess.run([*words], check=True, cwd=folder, stdout=subprocess.DEVNULL, **who)

        call(str(programs / "initdb"), "-D", data, "-U", "history", "-A", "trust", "--no-sync")
        call(str(programs / "pg_ctl"), "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield folder
        finally:
            call(str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "stop")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where a new history can be made: a file, or an empty database of a server."""
    if request.param == "sqlite":
        return tmp_path / "history.sqlite"
    folder = request.getfixturevalue("server")
    url = f"postgresql+psycopg://history@/postgres?host={folder}"
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("DROP DATABASE IF EXISTS nights WITH (FORCE)")
        connection.exec_driver_sql("CREATE DATABASE nights")
    engine.dispose()
    return f"postgresql://history@/nights?host={folder}"


def job_named(name: str, **changes: Any) -> Job:
    """A job of the device lane, on a platform with cards."""
    platform = Platform("a2a3", "pypto", "a2a3", devices=(0, 1), kind=PlatformKind.CARD)
    job = Job(f"device/a2a3/g/k/{name}", Lane.DEVICE, platform, WorkloadName("w"), "g", {}, "k", name, 60.0)
    return replace(job, **changes)


def ended(name: str, state: State | str = State.PASSED, **changes: Any) -> Result:
    """How a job ended: in a state, or as a mismatch with the fingerprint that is given as text."""
    kind = state if isinstance(state, str) and not isinstance(state, State) else ""
    state = State.MISMATCH if kind else State(state)
    if not kind and OUTCOMES[state].outcome in RED:
        kind = state.value
    facts = {FINGERPRINT: kind} if kind else {}
    return Result(job_named(name), state, facts={**facts, **changes.pop("facts", {})}, **changes)


MakeNight = Callable[..., RunResults]


def night(number: int, *results: Result, **facts: Any) -> RunResults:
    """The results of a night. Facts are `git`, `branch`, `host`, `python`, and `settings`."""
    began = NIGHT + timedelta(days=number)
    run = f"{began:%Y%m%d-%H%M%S}-{number:010x}"
    settings = facts.pop("settings", Settings())
    told = {"host": "h1", "git": "c1", "branch": "main", "python": "3.11.7", **facts}
    plan = tuple(one.job for one in results)
    info = RunInfo(run, Path("unused"), plan, began.isoformat(), 1, told, settings=settings)
    code = max((OUTCOMES[one.state].exit_code for one in results), default=0)
    return results_of(info, RunSummary(run, Path("unused"), results, code, 60.0))


def contents(history: History) -> list[list[tuple[Any, ...]]]:
    """All rows of the tables, with what they name in the place of numbers."""
    names = {table.name: table for table in tables.metadata.sorted_tables}

    def told(connection: sa.Connection, table: sa.Table) -> dict[Any, tuple[Any, ...]]:
        rows = {}
        owners = {
            column.name: told(connection, names[key.column.table.name])
            for column in table.columns
            for key in column.foreign_keys
        }
        for row in connection.execute(sa.select(table)):
            cells = row._asdict()
            rows[cells.get("id", tuple(row))] = tuple(
                owners[name].get(value) if name in owners else value
                for name, value in cells.items()
                if name != "id"
            )
        return rows

    with history.reading() as connection:
        facts = ("runs", "versions", "results", "attempts", "stages", "diffs", "metrics", "timings")
        return [sorted(told(connection, names[name]).values(), key=repr) for name in facts]


def refusal(place: str | Path, **waiting: float) -> str:
    """The line with which a history is refused."""
    with pytest.raises(HistoryError) as refused, open_history(place, **waiting) as history:
        history.record(night(0, ended("a")))
    assert "\n" not in str(refused.value)
    assert UserError.exit_code == 4
    return str(refused.value)
