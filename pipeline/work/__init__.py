"""What a job does: its stages, each run and compared; engines side by side; an old mismatch judged again."""
