"""The tables of the history. `migrations` makes them; a test compares the two."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

REVISION = "0002"
"""The newest migration: what a database has when it fits this pipeline."""

metadata = MetaData()


class Sha(TypeDecorator[str]):
    """A hash in hexadecimal digits, stored as bytes: there are very many."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> bytes | None:
        """As it is stored."""
        return None if value is None else bytes.fromhex(value)

    def process_result_value(self, value: Any | None, dialect: Any) -> str | None:
        """As it is read."""
        return None if value is None else bytes(value).hex()


def _id() -> Column[int]:
    """A number that the writer gives: there is one writer at a time."""
    return Column("id", Integer, primary_key=True, autoincrement=False)


def _of(table: str, name: str = "", *, key: bool = False, optional: bool = False) -> Column[int]:
    """The row of another table that this row names."""
    what = ForeignKey(f"{table}.id")
    return Column(name or f"{table[:-1]}_id", Integer, what, primary_key=key, nullable=optional)


def _owner(table: str, *, key: bool = True) -> Column[int]:
    """The row of another table that this row goes with."""
    what = ForeignKey(f"{table}.id", ondelete="CASCADE")
    return Column(f"{table[:-1]}_id", Integer, what, primary_key=key, nullable=False)


runs = Table(
    "runs",
    metadata,
    _id(),
    Column("run", String(40), nullable=False, unique=True),
    Column("began", DateTime, nullable=False, index=True),  # UTC
    Column("seconds", Float, nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("commit", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("toolchain", String(12), nullable=False),  # digest of versions and sources
    Column("compared", Text, nullable=False),  # JSON of `Settings.compared`
    Column("usual", Boolean, nullable=False),  # whether that is the default
    Column("parts", Text, nullable=False),  # ids of the runs that it was merged from
    Column("header", Text, nullable=False),  # results.json without its jobs
)
versions = Table(
    "versions",
    metadata,
    _owner("runs"),
    Column("name", String(80), primary_key=True),
    Column("version", Text, nullable=False),
)
names = Table("names", metadata, _id(), Column("name", Text, nullable=False, unique=True))
jobs = Table(
    "jobs",
    metadata,
    _id(),
    Column("job", Text, nullable=False, unique=True),
    Column("lane", Text, nullable=False),
    Column("platform", Text, nullable=False),
    Column("geometry", Text, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("profile", Text, nullable=False),
)
fingerprints = Table(
    "fingerprints", metadata, _id(), Column("fingerprint", Text, nullable=False, unique=True)
)
devices = Table(
    "devices",
    metadata,
    _id(),
    Column("host", Text, nullable=False),
    Column("device", Text, nullable=False),
    UniqueConstraint("host", "device"),
)
results = Table(
    "results",
    metadata,
    _id(),
    _owner("runs", key=False),
    _of("jobs"),
    Column("state", String(20), nullable=False),
    Column("seconds", Float, nullable=False),
    _of("devices", optional=True),
    _of("fingerprints", optional=True),
    _of("names", "backends_id"),
    Column("message", Text),  # of a job that did not pass
    Column("entry", Text),  # JSON: what identifies the entry that expects it to fail
    Column("peak_memory", BigInteger),  # in bytes, if it is known
    Index("ix_results_run", "run_id", "job_id", unique=True),
    Index("ix_results_job", "job_id", "run_id"),
)
attempts = Table(
    "attempts",
    metadata,
    _owner("results"),
    Column("number", Integer, primary_key=True),
    _of("devices", optional=True),
    Column("state", String(20), nullable=False),
    Column("seconds", Float, nullable=False),
    Column("message", Text),
    sqlite_with_rowid=False,
)
stages = Table(
    "stages",
    metadata,
    _id(),
    _owner("results", key=False),
    _of("names"),
    Column("state", String(20), nullable=False),
    Column("seconds", Float, nullable=False),
    Index("ix_stages_result", "result_id"),
)
diffs = Table(
    "diffs",
    metadata,
    _owner("stages"),
    Column("number", Integer, primary_key=True),
    _of("names", "tensor_id"),
    _of("names", "against_id"),
    Column("count", BigInteger, nullable=False),
    Column("mismatches", BigInteger, nullable=False),
    Column("max_abs", BigInteger, nullable=False),
    Column("golden", Sha, nullable=False),
    Column("actual", Sha),  # missing if it is the golden's
    sqlite_with_rowid=False,
)
metrics = Table(
    "metrics",
    metadata,
    _owner("stages"),
    _of("names", key=True),
    Column("value", Float, nullable=False),
    sqlite_with_rowid=False,
)
timings = Table(
    "timings",
    metadata,
    _owner("stages"),
    _of("names", key=True),
    Column("value", Float, nullable=False),  # in microseconds
    _of("names", "model_id"),
    sqlite_with_rowid=False,
)


def utc(moment: datetime) -> datetime:
    """A time as the database gives it, with its zone."""
    return moment.replace(tzinfo=timezone.utc)
