"""Alembic's environment: the connection is handed in by `pipeline.history.store`, in its transaction."""

from __future__ import annotations

from alembic import context

from pipeline.history.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
