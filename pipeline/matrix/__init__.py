"""matrix.yaml: its schema, strict loading, expansion to jobs, selection."""
