"""Performance references: what each job's cycles and times were, and how far they may move before it fails.

The model is ReFrame's: (value, lower %, upper %, unit) a metric, named by its stage, as `fused.cycles`.
Cycles of a deterministic cost model compare exactly; times of a device within bounds, and only on the same
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from golden.errors import UserError
from pipeline.ground.files import check_folder, read_file
from pipeline.ground.jobs import State
from pipeline.ground.results import TIMING, Result
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

    def __str__(self) -> str:
        return f"{self.value:g} {self.unit} {self.lower:+g} % {self.upper:+g} %"


References = Mapping[str, Mapping[str, Reference]]
"""Job id, then metric."""

TRACKED: Mapping[str, tuple[float, float]] = {"cycles": (0.0, 0.0), "device_us": (-10.0, 5.0)}
"""Metrics of a stage that are tracked, with `lower` and `upper` of a reference when it is first recorded."""

REFERENCE = "reference."
"""What the facts of a result begin with that say what a metric was compared with."""

NOT_COMPARED = "not compared"
"""What such a fact begins with if the reference is of another device model."""


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
        remedy = "name another file, or write it with --update-references"
        raise ReferencesError(f"{path}: the references cannot be read: {error.strerror}; {remedy}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        remedy = "remove it, then write it anew with --update-references"
        raise ReferencesError(f"{path}: {error}; {remedy}") from error


def check_references(path: Path) -> None:
    """Raise `ReferencesError` if `save_references` cannot write this file. Nothing is made."""
    with _writing(path):
        check_folder(path.parent)


def save_references(path: Path, references: References) -> None:
    """Write references in order, each metric on lines of its own, so that a review shows what changed.

    Raises:
        ReferencesError: the file cannot be written.
    """
    ordered = {job: dict(sorted(references[job].items())) for job in sorted(references)}
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"the references cannot be written: {error.strerror}"
        raise ReferencesError(f"{path}: {what}; name another file with --references") from error


def measured(result: Result) -> Iterator[tuple[str, Reference]]:
    """The metrics of a result, each as the reference it would make."""
    for stage in result.stages:
        for metric in stage.metrics:
            if bounds := TRACKED.get(metric.name):
                reference = Reference(metric.value, *bounds, metric.unit, metric.model)
                yield f"{stage.name}.{metric.name}", reference


def unmeasured(result: Result, references: References, *, whole: bool = True) -> list[str]:
    """The metrics that have a reference and were not measured.

    If the job was not run as a `whole`, as with `--stage tile`, stages that it lacks are left out.
    """
    now, stages = dict(measured(result)), {stage.name for stage in result.stages}
    known = references.get(result.job.id, {})
    return [name for name in known if name not in now and (whole or name.rpartition(".")[0] in stages)]


def judge(result: Result, references: References, *, whole: bool = True) -> Result:
    """Fail a job that passed if a metric left its bounds or was not measured; facts say what was compared.

    A mismatch stays a mismatch: the cycles of a wrong kernel mean nothing. `whole`: see `unmeasured`.
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
            facts[REFERENCE + metric] = f"{NOT_COMPARED}: measured on {reference.model}, this is {now.model}"
            continue
        moved = 100 * (now.value - reference.value) / reference.value
        facts[REFERENCE + metric] = str(reference)
        if not reference.lower <= moved <= reference.upper:
            found = f"{metric} is {now.value:g} {now.unit}"
            broken.append(f"{found}, {moved:+.2f} % of the reference {reference}")
    reasons = {stage.name: stage.facts.get(TIMING, "") for stage in result.stages}
    for metric in unmeasured(result, references, whole=whole):
        why = reasons.get(metric.rpartition(".")[0])
        broken.append(
            f"{metric} was not measured{f' ({why})' if why else ''}, but has the reference {known[metric]}; "
            "--update-references removes it"
        )
    if broken:
        return replace(result, state=State.PERFORMANCE, message="; ".join(broken), facts=facts)
    return replace(result, facts=facts)


def updated(
    references: References, results: Sequence[Result], *, whole: bool = True
) -> tuple[References, tuple[str, ...]]:
    """The references updated by these results, and a line for each change. Bounds that were set stay.

    A reference of a metric that was not measured goes. `whole`: see `unmeasured`.
    """
    new = {job: dict(metrics) for job, metrics in references.items()}
    changes = []
    for result in results:
        if result.state not in (State.PASSED, State.PERFORMANCE):
            continue
        job = result.job.id
        for metric, now in measured(result):
            old = new.get(job, {}).get(metric)
            if old is not None and (old.value, old.model) == (now.value, now.model):
                continue
            then = f"{old.value:g} {old.unit}" if old is not None else "no reference"
            changes.append(f"{job} {metric}: {then} -> {now.value:g} {now.unit}")
            kept = now if old is None else replace(now, lower=old.lower, upper=old.upper)
            new.setdefault(job, {})[metric] = kept
        for metric in unmeasured(result, references, whole=whole):
            old = new[job].pop(metric)
            changes.append(f"{job} {metric}: {old.value:g} {old.unit} -> removed, it was not measured")
    return {job: metrics for job, metrics in new.items() if metrics}, tuple(changes)
