"""All hypotheses: every family of known faults, for one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipeline.diff.hypotheses import maps, products, requantisation, store, windows
from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.model import Model

FAMILIES: tuple[Callable[[Model], Iterator[Hypothesis]], ...] = (
    requantisation.hypotheses,
    products.orders,
    maps.of_x,
    maps.of_mid,
    store.hypotheses,
    windows.past_edges,
    windows.strides,
    maps.of_bands,
    products.k_loops,
    maps.in_shared_memory,
)
"""Each family yields those of its faults that a program can have."""


def hypotheses(model: Model) -> tuple[Hypothesis, ...]:
    """Every known fault that the program can have; of two that predict alike the first is named first."""
    return tuple(hypothesis for family in FAMILIES for hypothesis in family(model))
