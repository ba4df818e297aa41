"""Which single constant of a program, given another value, would mend it.

Candidates come from what is demanded of the operators that are under suspicion. Whether one holds is for the
proof of the changed program to say.
"""

from __future__ import annotations

from emulator.repair.candidates import candidates
from emulator.repair.change import Change
from emulator.repair.numbers import numbered, numbers

__all__ = ["Change", "candidates", "numbered", "numbers"]
