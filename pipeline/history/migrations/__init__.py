"""The forms of the database, one migration after the other, by Alembic."""
