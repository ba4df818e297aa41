"""Performance references: what each job's cycles and times were, and how far they may move before it fails.

The model is ReFrame's: (value, lower %, upper %, unit) a metric, named by its stage, as `fused.cycles`.
Cycles of a deterministic cost model compare exactly; times of a device within bounds, and only on the same
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from golden.errors import UserError
from pipeline.ground.files import read_file
from pipeline.ground.jobs import Result, State
from pipeline.run.messages import write_atomically


class ReferencesError(UserError):
    """The file of references cannot be used; one line: what, where, remedy."""


@dataclass(frozen=True)
class Reference:
    """A metric's reference: it may change by `lower` (at most 0) to `upper` percent of `value`.

    `model` is the device model it was measured on; empty where the metric needs no device.
    """

    value: float
    lower: float
    upper: float
    unit: str
    model: str = ""

    def __post_init__(self) -> None:
        if not (self.value > 0 and self.lower <= 0 <= self.upper):
            raise ValueError("value must be positive, lower at most 0, upper at least 0")


References = Mapping[str, Mapping[str, Reference]]
"""Job id, then metric."""

TRACKED: Mapping[str, tuple[float, float]] = {"cycles": (0, 0), "device_us": (-10, 5)}
"""Metrics of a stage that are tracked, with `lower` and `upper` of a reference when it is first recorded."""


def load_references(path: Path, *, must_exist: bool = False) -> References:
    """Read references; a missing file holds none, unless it `must_exist`.

    Raises:
        ReferencesError: the file cannot be read, or is not in the form that `save_references` writes.
    """
    try:
        return msgspec.json.decode(read_file(path), type=dict[str, dict[str, Reference]])
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not must_exist:
            return {}
        raise ReferencesError(f"{path}: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        remedy = "remove it, then write it anew with --update-references"
        raise ReferencesError(f"{path}: {error}; {remedy}") from error


def save_references(path: Path, references: References) -> None:
    """Write references in order, each metric on lines of its own, so that a review shows what changed.

    Raises:
        ReferencesError: the file cannot be written.
    """
    ordered = {job: dict(sorted(references[job].items())) for job in sorted(references)}
    try:
        write_atomically(path, msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n")
    except OSError as error:
        raise ReferencesError(f"{path}: cannot be written: {error.strerror}") from error


def measured(result: Result) -> Iterator[tuple[str, Reference]]:
    """The metrics of a result, each as the reference it would make."""
    for stage in result.stages:
        for metric in stage.metrics:
            if bounds := TRACKED.get(metric.name):
                reference = Reference(metric.value, *bounds, metric.unit, metric.model)
                yield f"{stage.name}.{metric.name}", reference


def judge(result: Result, references: References) -> Result:
    """Fail a job that passed but whose metrics left their bounds; facts say what was compared.

    A mismatch stays a mismatch: the cycles of a wrong kernel mean nothing.
    """
    known = references.get(result.job.id, {})
    if result.state is not State.PASSED or not known:
        return result
    facts, broken = dict(result.facts), []
    for metric, now in measured(result):
        reference = known.get(metric)
        if reference is None:
            continue
        if reference.model != now.model:
            facts[f"reference.{metric}"] = f"not compared: measured on {reference.model}, this is {now.model}"
            continue
        moved = 100 * (now.value - reference.value) / reference.value
        bounds = f"{reference.value:g} {reference.unit} {reference.lower:+g} % {reference.upper:+g} %"
        facts[f"reference.{metric}"] = bounds
        if not reference.lower <= moved <= reference.upper:
            broken.append(f"{metric} is {now.value:g} {now.unit}, {moved:+.2f} % of the reference {bounds}")
    if broken:
        return replace(result, state=State.PERFORMANCE, message="; ".join(broken), facts=facts)
    return replace(result, facts=facts)


def updated(references: References, results: Sequence[Result]) -> tuple[References, tuple[str, ...]]:
    """The references updated by these results, and a line for each change. Bounds that were set stay."""
    new = {job: dict(metrics) for job, metrics in references.items()}
    changes = []
    for result in results:
        if result.state not in (State.PASSED, State.PERFORMANCE):
            continue
        for metric, now in measured(result):
            old = new.get(result.job.id, {}).get(metric)
            if old is not None and (old.value, old.model) == (now.value, now.model):
                continue
            then = f"{old.value:g} {old.unit}" if old is not None else "no reference"
            changes.append(f"{result.job.id} {metric}: {then} -> {now.value:g} {now.unit}")
            kept = now if old is None else replace(now, lower=old.lower, upper=old.upper)
            new.setdefault(result.job.id, {})[metric] = kept
    return new, tuple(changes)
