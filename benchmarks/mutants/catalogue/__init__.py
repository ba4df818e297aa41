"""All mutants, by the file that they edit."""

from __future__ import annotations

from benchmarks.mutants.catalogue import (
    blocks,
    equivalent,
    fused,
    issue,
    pairs,
    passes,
    plans,
    rectangles,
    single,
    streams,
)
from benchmarks.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *issue.MUTANTS,
    *fused.MUTANTS,
    *blocks.MUTANTS,
    *passes.MUTANTS,
    *plans.MUTANTS,
    *rectangles.MUTANTS,
    *single.MUTANTS,
    *streams.MUTANTS,
    *pairs.MUTANTS,
    *equivalent.MUTANTS,
)
