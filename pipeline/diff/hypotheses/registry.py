"""All hypotheses: every family of known faults, for one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipeline.diff.hypotheses import (
    bands,
    hand_over,
    k_loop,
    layout,
    memory,
    padding,
    requantisation,
    store,
)
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.model import Model

FAMILIES: tuple[Callable[[Model], Iterator[Hypothesis]], ...] = (
    requantisation.hypotheses,
    layout.hypotheses,
    hand_over.hypotheses,
    store.hypotheses,
    padding.hypotheses,
    bands.hypotheses,
    k_loop.hypotheses,
    memory.hypotheses,
)
"""Each family yields those of its faults that a program can have."""


def hypotheses(model: Model) -> tuple[Hypothesis, ...]:
    """Every known fault that the program can have; of two that predict alike the first is named first."""
    return tuple(hypothesis for family in FAMILIES for hypothesis in family(model))
