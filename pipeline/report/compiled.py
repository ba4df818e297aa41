"""What the compile lane found of each program that compiled: memory, traffic of mid, cost, verification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pipeline.engines.base import ACCEPTED_PASSES
from pipeline.ground.jobs import Lane, State
from pipeline.ground.results import PROVED, VERIFY, YES, Result, StageResult
from pipeline.report.text import shown

COLUMNS = (
    "job, program",
    "engine",
    "L1 peak (bytes)",
    "mid read from GM (bytes)",
    "mid written to GM (bytes)",
    "estimated cycles",
    "proved",
    "verified on",
)
"""Headings of the columns of `rows`."""

UNKNOWN = "-"
"""Stands for a metric that the engine does not give, and for a program that was not verified."""


def rows(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """The cells of each program that compiled in a job of the compile lane, in the order of the results.

    A program that was skipped or refused has none; other parts of a report give the reason.
    """
    return [_row(*found) for found in _compiled(results)]


def in_short(results: Iterable[Result]) -> list[str]:
    """A line for each engine: how many programs it compiled, proved, refuted, verified, and found exact."""
    found: dict[str, list[tuple[StageResult, StageResult | None]]] = {}
    for result, compiled, verification in _compiled(results):
        found.setdefault(result.job.platform.backend, []).append((compiled, verification))
    lines = []
    for engine, programs in found.items():
        proved = [compiled for compiled, _ in programs if compiled.facts.get(PROVED) == YES]
        states = [each.state for _, each in programs if each is not None]
        refuted = sum(compiled.state is State.REFUTED for compiled, _ in programs)
        counts = (("proved", len(proved)), ("refuted", refuted))
        proofs = ", ".join(f"{what}: {count}" for what, count in counts if count) or "not proved"
        told = f"verified: {len(states)}, exact: {states.count(State.PASSED)}" if states else "not verified"
        lines.append(f"programs compiled by {engine}: {len(programs)}; {proofs}; {told}")
    return lines


def _compiled(results: Iterable[Result]) -> Iterator[tuple[Result, StageResult, StageResult | None]]:
    """Each result with a stage that compiled a program, and the one that verified it, if any did."""
    for result in results:
        if result.job.lane is Lane.COMPILE:
            stages = {stage.name: stage for stage in result.stages}
            for name, stage in stages.items():
                if stage.state in (State.PASSED, State.REFUTED) and not name.startswith(VERIFY):
                    yield result, stage, stages.get(VERIFY + name)


def _row(result: Result, compiled: StageResult, verification: StageResult | None) -> tuple[str, ...]:
    metrics = _metrics(compiled)
    return (
        f"{result.job.id} {compiled.name}",
        result.job.platform.backend,
        metrics.get("l1_peak", UNKNOWN),
        # An engine counts these two only if the workload hands anything over.
        metrics.get("mid_gm_read", UNKNOWN),
        metrics.get("mid_gm_written", UNKNOWN),
        _cycles(metrics),
        compiled.facts.get(PROVED, UNKNOWN),
        f"{result.job.profile}: {_verdict(verification)}" if verification is not None else UNKNOWN,
    )


def _metrics(stage: StageResult) -> Mapping[str, str]:
    return {metric.name: shown(metric) for metric in stage.metrics}


def _cycles(metrics: Mapping[str, str]) -> str:
    """The cycles of a cost model, and what they cover: those of different engines cannot be compared."""
    for name, of in (("cycles", "whole chip"), ("estimated_cycles.overlap", "one core")):
        if name in metrics:
            return f"{metrics[name]}, {of}"
    return UNKNOWN


def _verdict(verification: StageResult) -> str:
    """How a verification ended, and how many compiler passes the framework accepts."""
    passes = _metrics(verification).get(ACCEPTED_PASSES)
    accepted = f", {passes} passes accepted" if passes else ""
    return ("exact" if verification.state is State.PASSED else verification.state.value) + accepted
