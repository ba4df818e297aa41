"""Commits one fault of `pipeline.faults` in a program, its inputs or its output, on the emulator."""
