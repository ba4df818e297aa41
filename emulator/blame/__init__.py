"""Which lines of a program are to blame for a failed proof, in words, and which number would mend them."""

from __future__ import annotations

from emulator.backward import NOTHING
from emulator.blame.finding import Finding, Hint, chain
from emulator.blame.search import blame
from emulator.blame.task import Task

__all__ = ["NOTHING", "Finding", "Hint", "Task", "blame", "chain"]
