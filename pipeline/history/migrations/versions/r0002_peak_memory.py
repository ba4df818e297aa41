"""What jobs had in memory."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add it; of results that are there it is not known."""
    op.add_column("results", sa.Column("peak_memory", sa.BigInteger))
