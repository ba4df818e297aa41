"""Results read again from a JUnit file of this pipeline: what its cases and properties say, and no more."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import (
    OUTCOMES,
    Amount,
    Attempt,
    Attempts,
    Count,
    DeviceId,
    Metric,
    Outcome,
    Result,
    Source,
    StageResult,
)
from pipeline.ground.settings import Settings
from pipeline.report.document import OUTCOME_TAGS, ReportError, outcome, properties_of
from pipeline.report.results import RunResults, results_of
from pipeline.results.performance import TRACKED
from pipeline.run.folders import is_run_id
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.states import exit_code

_FACT = re.compile(r"([\w.@ -]+)=(.*)")
_OF_THE_CASE = (
    *("platform", "engine", "variant", "device", "profile"),
    *("seed", "seconds", "attempts", "peak_memory", "state", "cause"),
)
"""Facts of a case that are fields of a `Result`."""


class FactError(ReportError):
    """What a case says of itself cannot be read."""


class _Measured(msgspec.Struct, frozen=True):
    """The facts of a case that are numbers of a `Result`."""

    device: DeviceId | None = None
    seconds: Amount = 0.0
    attempts: Attempts = 1
    peak_memory: Count = 0


_ANEW = "write the report anew, from its run"
_STATES = frozenset(state.value for state in State)
_LANES = tuple(f"{lane.value}/" for lane in Lane)
"""What the names of jobs begin with; other cases tell problems of a run or of a merge."""


def reread(root: ET.Element, path: Path) -> RunResults:
    """The results that a JUnit file tells: states, messages, facts, tracked metrics; no diffs, no artefacts.

    A merged file counts as one run, whose id is made from the ids of its parts.

    Raises:
        ReportError: the file does not say of which runs it is.
        FactError: a fact of a case has to be a number, and is none.
    """
    facts: dict[str, dict[str, None]] = {}
    for suite in root:
        for name, text in properties_of(suite).items():
            facts.setdefault(name, {}).update(dict.fromkeys(text.split("; ") if name == "run" else [text]))
    runs = sorted(facts.get("run", ()))
    if not runs or not all(map(is_run_id, runs)):
        raise ReportError(
            f"{path}: does not say of which runs it is: it is no JUnit file of this pipeline; name one"
        )
    cases = [case for suite in root for case in suite.iter("testcase")]
    problems = [case for case in cases if not case.get("name", "").startswith(_LANES)]
    try:
        jobs = tuple(_results(case for case in cases if case.get("name", "").startswith(_LANES)))
    except FactError as error:
        raise FactError(f"{path}: {error}; {_ANEW}") from None
    said = {name: "; ".join(values) for name, values in facts.items()}
    states = [job.state for job in jobs] + [State.NO_RESULT] * bool(problems)
    parts = tuple(runs) if len(runs) > 1 else ()
    info = RunInfo(
        _merged_id(parts) if parts else runs[0],
        path.parent,
        tuple(job.job for job in jobs),
        min(facts.get("started", {"": None})),
        0,
        said,
        settings=Settings(
            inputs=said.get("inputs"), inject=said.get("inject", ""), stage=said.get("stage", "all")
        ),
    )
    told = tuple(_outcome_text(case)[0] for case in problems)
    try:
        seconds = msgspec.convert(root.get("time", "0"), Amount, strict=False)
    except msgspec.ValidationError:
        what = f"its time is {root.get('time')!r}, not a number of seconds"
        raise FactError(f"{path}: {what}; {_ANEW}") from None
    return results_of(
        info, RunSummary(info.run_id, path.parent, jobs, exit_code(states), seconds, problems=told), parts
    )


def _merged_id(parts: tuple[str, ...]) -> str:
    """An id in the form of a run's, always the same for the same parts, that sorts behind its first part."""
    return f"{parts[0][:16]}{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:10]}"


def _results(cases: Iterator[ET.Element]) -> Iterator[Result]:
    """A result for each job. Cases of stages follow the case of their job, and their names begin with its."""
    last: Result | None = None
    for case in cases:
        name, facts = case.get("name", ""), _facts_of(case)
        message, details = _outcome_text(case)
        state = state_of(case)
        if last is not None and name.startswith(f"{last.job.id}/"):
            stage = StageResult(
                name.removeprefix(f"{last.job.id}/"),
                state,
                message,
                details,
                float(case.get("time", "0")),
                metrics=tuple(_metrics(name, "", facts)),
            )
            last = replace(last, stages=(*last.stages, stage))
            continue
        if last is not None:
            yield last
        last = _result(name, state, message, details, facts)
    if last is not None:
        yield last


def _result(name: str, state: State, message: str, details: str, facts: Mapping[str, str]) -> Result:
    job = _job(name, facts)
    told = next((each for each in facts.get("device", "").split("+") if each.isdecimal()), None)
    try:
        measured = msgspec.convert({**facts, "device": told}, _Measured, strict=False)
    except msgspec.ValidationError as error:
        raise FactError(f"case {name}: a fact is no number as it must be: {error}") from None
    stages: dict[str, list[Metric]] = {}
    for stage, metric in _stage_metrics(name, facts):
        stages.setdefault(stage, []).append(metric)
    executed = state is not State.SKIPPED
    return Result(
        job,
        state,
        message if OUTCOMES[state].outcome is not Outcome.PASSED else "",
        details,
        measured.seconds,
        device=measured.device,
        attempts=measured.attempts,
        stages=tuple(StageResult(stage, state, metrics=tuple(each)) for stage, each in stages.items()),
        facts={key: value for key, value in facts.items() if key not in _OF_THE_CASE},
        causes=tuple(filter(None, facts.get("cause", "").split(" or "))),
        tries=(Attempt("", state, message, measured.seconds),) if executed else (),
        peak_memory=measured.peak_memory,
    )


def _job(name: str, facts: Mapping[str, str]) -> Job:
    """The job as its id and its facts tell it."""
    lane, *parts = name.split("/")
    names, engines, variants = (facts.get(each, "").split("+") for each in ("platform", "engine", "variant"))
    platforms = [
        Platform(name, engine, "", variant)
        for name, engine, variant in zip(names, engines, variants, strict=False)
    ]
    geometry, kernel = [*parts, "", "", ""][1:3]
    profile = facts.get("profile", "none")
    return Job(
        name,
        Lane(lane),
        platforms[-1],
        WorkloadName(""),
        geometry,
        {},
        "all" if lane == Lane.COMPARE.value else kernel,
        None if profile == "none" else profile,
        0.0,
        other=platforms[0] if len(platforms) > 1 else None,
        other_first=len(platforms) > 1,
    )


def _stage_metrics(case: str, facts: Mapping[str, str]) -> Iterator[tuple[str, Metric]]:
    """The tracked metrics of the stages that a job's own case holds, each with its stage."""
    stages = {key.rpartition(".")[0] for key in facts if key.rpartition(".")[2] in TRACKED}
    for stage in sorted(stages - {"reference"}):
        if stage and not stage.startswith("reference."):
            yield from ((stage, metric) for metric in _metrics(case, f"{stage}.", facts))


def _metrics(case: str, prefix: str, facts: Mapping[str, str]) -> Iterator[Metric]:
    units = {"cycles": ("cycles", Source.COST_MODEL), "device_us": ("us", Source.DEVICE_CLOCK)}
    for name in TRACKED:
        if written := facts.get(prefix + name):
            try:
                value = msgspec.convert(written.split(" ")[0], Amount, strict=False)
            except msgspec.ValidationError:
                raise FactError(f"case {case}: its {prefix}{name} is {written!r}, no number") from None
            yield Metric(name, value, *units[name])


def state_of(case: ET.Element) -> State:
    """The end state of a case; one that failed in another tool's report counts as not judged."""
    if outcome(case) is Outcome.PASSED:
        return State.PASSED
    (said,) = (child.get("type", "") for child in case if child.tag in OUTCOME_TAGS)
    return State(said) if said in _STATES else State.NO_RESULT


def _outcome_text(case: ET.Element) -> tuple[str, str]:
    """The message of a case and its body without it."""
    for child in case:
        if child.tag in OUTCOME_TAGS:
            message = child.get("message", "")
            return message, (child.text or "").removeprefix(message).strip()
    return "", ""


def _facts_of(case: ET.Element) -> dict[str, str]:
    """The `key=value` lines that a case's record begins with."""
    facts = {}
    for line in (case.findtext("system-out") or "").splitlines():
        match = _FACT.fullmatch(line)
        if match is None:
            break
        facts[match[1]] = match[2]
    return facts
