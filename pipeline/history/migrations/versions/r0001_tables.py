"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "runs",
        _id(),
        sa.Column("run", sa.String(40), nullable=False, unique=True),
        sa.Column("began", sa.DateTime, nullable=False, index=True),
        *(_value("seconds", sa.Float), _value("exit_code", sa.Integer)),
        *(_value(name) for name in ("verdict", "host", "commit", "branch")),
        *(_value("toolchain", sa.String(12)), _value("compared"), _value("usual", sa.Boolean)),
        *(_value("parts"), _value("header")),
    )
    op.create_table("versions", _owner("run"), _key("name", sa.String(80)), _value("version"))
    for table, name in (("names", "name"), ("fingerprints", "fingerprint")):
        op.create_table(table, _id(), sa.Column(name, sa.Text, nullable=False, unique=True))
    op.create_table(
        "jobs",
        _id(),
        sa.Column("job", sa.Text, nullable=False, unique=True),
        *(_value(name) for name in ("lane", "platform", "geometry", "kernel", "profile")),
    )
    op.create_table("devices", _id(), _value("host"), _value("device"), sa.UniqueConstraint("host", "device"))
    op.create_table(
        "results",
        _id(),
        _owner("run", key=False),
        _of("jobs", "job_id"),
        *(_value("state", sa.String(20)), _value("seconds", sa.Float)),
        *(_of("devices", "device_id", optional=True), _of("fingerprints", "fingerprint_id", optional=True)),
        _of("names", "backends_id"),
        *(sa.Column("message", sa.Text), sa.Column("entry", sa.Text)),
    )
    op.create_index("ix_results_run", "results", ["run_id", "job_id"], unique=True)
    op.create_index("ix_results_job", "results", ["job_id", "run_id"])
    op.create_table(
        "attempts",
        *(_owner("result"), _key("number", sa.Integer), _of("devices", "device_id", optional=True)),
        *(_value("state", sa.String(20)), _value("seconds", sa.Float), sa.Column("message", sa.Text)),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "stages",
        *(_id(), _owner("result", key=False), _of("names", "name_id")),
        *(_value("state", sa.String(20)), _value("seconds", sa.Float)),
    )
    op.create_index("ix_stages_result", "stages", ["result_id"])
    op.create_table(
        "diffs",
        *(_owner("stage"), _key("number", sa.Integer)),
        *(_of("names", "tensor_id"), _of("names", "against_id")),
        *(_value(name, sa.BigInteger) for name in ("count", "mismatches", "max_abs")),
        *(_value("golden", sa.LargeBinary), sa.Column("actual", sa.LargeBinary)),
        sqlite_with_rowid=False,
    )
    for table, more in (("metrics", ()), ("timings", (_of("names", "model_id"),))):
        op.create_table(
            table,
            *(_owner("stage"), _of("names", "name_id", key=True), _value("value", sa.Float), *more),
            sqlite_with_rowid=False,
        )


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, primary_key=True, autoincrement=False)


def _key(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True)


def _value(name: str, kind: Any = sa.Text) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _of(table: str, name: str, *, key: bool = False, optional: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, sa.ForeignKey(f"{table}.id"), primary_key=key, nullable=optional)


def _owner(row: str, *, key: bool = True) -> sa.Column[int]:
    what = sa.ForeignKey(f"{row}s.id", ondelete="CASCADE")
    return sa.Column(f"{row}_id", sa.Integer, what, primary_key=key, nullable=False)
