"""What a job does: run and compare its stages, compare two engines, judge an old mismatch again."""
