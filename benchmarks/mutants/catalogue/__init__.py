"""All mutants."""

from __future__ import annotations

from benchmarks.mutants.catalogue import issue
from benchmarks.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (*issue.MUTANTS,)
