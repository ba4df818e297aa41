"""Metrics as text: the only place that writes them as `key=value` facts and table cells of a report."""

from __future__ import annotations

from pipeline.ground.jobs import Metric, StageResult

_DECIMALS = {"us": 1}
"""Digits behind the point by unit; all others are whole numbers."""


def shown(metric: Metric) -> str:
    """A metric's value, with its limit if it has one: `1024 of 524288`."""
    digits = _DECIMALS.get(metric.unit, 0)
    of = f" of {metric.limit:.{digits}f}" if metric.limit is not None else ""
    return f"{metric.value:.{digits}f}{of}"


def facts_of(stage: StageResult) -> dict[str, str]:
    """All that is known of a stage as text, by name: its metrics, then its facts."""
    return {**{metric.name: shown(metric) for metric in stage.metrics}, **stage.facts}
