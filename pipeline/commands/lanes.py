"""`compile`, `run` and `compare`: a run of a lane's jobs."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kernels.plan import PlanError
from pipeline.commands.facts import (
    SOURCES_DIGEST,
    run_facts,
    shared_digest,
    source_digests,
    workload_facts,
)
from pipeline.commands.hosts import availability, device_pools, queue_limit, refuse_broken_toolchains
from pipeline.commands.nodes import cluster_executor
from pipeline.commands.options import LANES, REFERENCES
from pipeline.commands.selection import check_inputs, read_matrix, select_jobs, tell
from pipeline.commands.settings import (
    check_injection,
    refuse_overwriting,
    refuse_unheeded,
    refuse_unsayable,
    report_files,
    settings_given,
)
from pipeline.dashboard.site import write_of_run
from pipeline.ground.jobs import Job
from pipeline.ground.patterns import Pattern
from pipeline.ground.results import Result
from pipeline.ground.settings import Settings, take_up
from pipeline.ground.subject import subject_of
from pipeline.ground.words import counted, unbroken
from pipeline.history.named import located
from pipeline.history.past import OFF, VARIABLE, Folders, Measured, ends_of_folder, place
from pipeline.history.recall import past_of
from pipeline.history.recording import record_run
from pipeline.matrix.schema import Retries
from pipeline.matrix.select import EmptySelectionError
from pipeline.report.terminal import SizedConsole, Terminal
from pipeline.results.baseline import known, read_baseline
from pipeline.results.performance import (
    TRACKED,
    References,
    check_references,
    load_references,
    measured,
    save_references,
    updated,
)
from pipeline.results.review import History, review
from pipeline.run.begin import resume_run, run_jobs
from pipeline.run.devices import lock_folder
from pipeline.run.folders import check_root, failed_jobs, prune_runs, read_run
from pipeline.run.goldens import missing_goldens, prune_goldens
from pipeline.run.listener import Listener
from pipeline.run.options import Host, RunOptions
from pipeline.run.sequence import builds, expected, expected_memory
from pipeline.run.verdict import Mark
from workloads.base import WorkloadError

_DAY = "date"
"""The fact of a run that gives the day of its plan; `--resume` and `--failed` keep it."""

_KEPT_RUNS, _KEPT_DAYS = 50, 30


@dataclass(frozen=True)
class _Asked:
    """What a command line asks for: jobs, the settings of all of them, and the retries of the matrix.

    `facts` tell the settings, and the shard for a merge; `resumed` is the id of the run to be finished.
    """

    plan: tuple[Job, ...]
    settings: Settings
    retries: Retries
    facts: Mapping[str, str]
    resumed: str = ""


def run_lane(
    arguments: Namespace, command: Sequence[str], clock: Callable[[], datetime], target: str = ""
) -> int:
    """`compile`, `run`, `compare`: the selected jobs of the lane, or the rest or failures of an old run.

    `clock` gives the time; `target` does the work of jobs, if it is given (`RunOptions`).

    Raises:
        ToolchainError: a toolchain does not have what was asked for, or its parts do not fit each other.
    """
    refuse_unsayable(arguments)
    refuse_overwriting(arguments)
    # This comes first: if a mistake is found later, no older report is left in the place of this run's.
    files = report_files(arguments)
    refuse_unheeded(arguments)
    check_root(_runs(arguments))
    asked = _asked(arguments)
    settings = asked.settings
    if settings.inject:
        check_injection(settings.inject, asked.plan)
    on_cluster = arguments.executor == "ray"
    if not on_cluster:  # else each node says it of itself
        refuse_broken_toolchains(asked.plan)
    path = arguments.references or Path(settings.references or REFERENCES)
    named = arguments.references is not None or settings.references is not None
    references = load_references(path, must_exist=named and not arguments.update_references)
    if arguments.update_references:
        check_references(path)
    where, runs = place(arguments.output, os.environ), Folders(_runs(arguments), asked.resumed)
    baseline = None
    if settings.baseline:
        baseline = read_baseline(settings.baseline, runs.root, where, settings, asked.resumed)
    past = past_of(where, runs, clock(), tell)
    history = History(past, asked.resumed, ends_of_folder(runs.root, asked.resumed) if asked.resumed else {})
    options = _options(
        arguments,
        asked,
        command,
        lambda result: known(review(result, references, history, settings), baseline),
        past.measured() if len(asked.plan) > 1 or on_cluster else {},
    )
    read = {"references": path, "inputs": settings.inputs}
    sources = source_digests(asked.plan, read)
    facts = {**options.facts, SOURCES_DIGEST: shared_digest(sources)}
    options = replace(options, sources=sources, facts=facts, target=target or options.target)
    # The terminal comes last: it can then say that the files could not be written.
    listeners: list[Listener] = [files, Terminal(SizedConsole())]
    host = Host(availability, clock)
    if on_cluster:
        host = replace(host, executor=cluster_executor(arguments, options))
    if asked.resumed:
        summary = resume_run(asked.resumed, options, listeners, host)
    else:
        summary = run_jobs(asked.plan, options, listeners, host)
    if os.environ.get(VARIABLE) != OFF:
        record_run(where, options.root, summary.run_id, tell)
    write_of_run(options.root / summary.run_id, where, tell)
    if arguments.update_references:
        _update_references(path, references, summary.results, whole=settings.whole)
    now, max_age = clock(), timedelta(days=_KEPT_DAYS)
    prune_runs(options.root, spared=summary.run_id, keep=_KEPT_RUNS, max_age=max_age, now=now)
    prune_goldens(options.cache, now)
    return summary.exit_code


def _asked(arguments: Namespace) -> _Asked:
    given = settings_given(arguments)
    if arguments.baseline:
        where = place(arguments.output, os.environ)
        given["baseline"] = located(arguments.baseline, _runs(arguments), where)
    if arguments.resume or arguments.failed:
        asked = _asked_again(arguments, given)
    else:
        settings = Settings(**given)
        matrix = read_matrix(settings.matrix)
        plan, shard = select_jobs(matrix, [LANES[arguments.command]], arguments, arguments.day)
        facts = {_DAY: str(arguments.day), **settings.facts(), **shard}
        asked = _Asked(plan, settings, matrix.document.retries, facts)
    if (inputs := asked.settings.inputs) is not None:
        check_inputs(asked.plan, getattr(arguments, "inputs", None) or Path(inputs))
    return asked


def _asked_again(arguments: Namespace, given: Mapping[str, Any]) -> _Asked:
    """The rest, or the failures, of an earlier run, with its settings."""
    record = read_run(_runs(arguments), arguments.resume or arguments.failed)
    settings = take_up(record.run_id, record.settings, given)
    retries = read_matrix(settings.matrix).document.retries
    if arguments.resume:
        facts = settings.facts(record.settings)
        return _Asked(record.plan, settings, retries, facts, resumed=record.run_id)
    plan = failed_jobs(record)
    if not plan:
        raise EmptySelectionError(f"nothing failed in run {record.run_id}; name another run")
    # The jobs are those of the day that the earlier run settled, and so are their expected failures.
    day = record.facts.get(_DAY, str(arguments.day))
    return _Asked(plan, settings, retries, {_DAY: day, **settings.facts()})


def _runs(arguments: Namespace) -> Path:
    """The folder of runs."""
    return Path(arguments.output.absolute() / "runs")


def _options(
    arguments: Namespace,
    asked: _Asked,
    command: Sequence[str],
    reviewed: Callable[[Result], Result],
    measured: Mapping[str, Measured],
) -> RunOptions:
    """How to run what is asked for; `measured` says what jobs took in earlier runs, by their ids."""
    on_cluster = arguments.executor == "ray"
    seconds = {job: one.seconds for job, one in measured.items()}
    memory = {job: float(one.peak_memory) for job, one in measured.items() if one.peak_memory}
    cache = arguments.output.absolute() / "goldens"
    retries = asked.retries.limit
    return RunOptions(
        root=_runs(arguments),
        cache=cache,
        locks=lock_folder(os.environ),
        jobs=arguments.jobs,
        pools={} if on_cluster else device_pools(asked.plan, arguments.devices),
        queue=queue_limit(arguments),
        settings=asked.settings,
        deadline=arguments.deadline,
        preload=("pipeline.engines.warm",),
        missing=missing_goldens(asked.plan, cache, asked.settings.inputs),
        expected=expected(asked.plan, seconds, _macs_of),
        memory=expected_memory(asked.plan, memory, _macs_of) if on_cluster else {},
        builds={} if on_cluster else builds(asked.plan),
        retries=RunOptions.retries if retries is None else retries,
        marks=(*RunOptions.marks, *(Mark(Pattern(text)) for text in asked.retries.patterns)),
        facts={**run_facts(command), **asked.facts, **workload_facts(asked.plan)},
        review=reviewed,
    )


def _macs_of(job: Job) -> float:
    """Multiply-accumulates of a job's programs; 0 if its workload cannot be loaded."""
    try:
        return float(subject_of(job).device.macs)
    except (WorkloadError, PlanError, AttributeError):  # a user's geometry may not say it
        return 0.0


def _update_references(path: Path, references: References, results: Sequence[Result], *, whole: bool) -> None:
    """Print how the references change, then write them."""
    new, changes = updated(references, results, whole=whole)
    sys.stdout.write("".join(f"{unbroken(change)}\n" for change in changes))
    if changes:
        save_references(path, new)
        said = f"{counted(len(changes), 'reference')} written"
    elif any(True for result in results for _ in measured(result)):
        said = "nothing changes"
    else:
        said = f"no job of this run has a metric that is tracked ({', '.join(TRACKED)})"
    sys.stdout.write(f"{unbroken(f'{path}: {said}')}\n")
