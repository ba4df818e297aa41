"""`compile`, `run` and `compare`: a run of a lane's jobs."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from golden.cache import prune
from pipeline.commands.attachments import relative_to
from pipeline.commands.facts import run_facts
from pipeline.commands.hosts import availability, device_pools, queue_limit, refuse_broken_toolchains
from pipeline.commands.options import LANES, REFERENCES
from pipeline.commands.refusals import refuse_overwriting, refuse_unheeded, refuse_unsayable
from pipeline.commands.selection import on_inputs, read_matrix, select_jobs
from pipeline.commands.settings import check_injection, places_asked, settings_asked, settings_begun
from pipeline.ground.jobs import Job, Result
from pipeline.ground.words import counted
from pipeline.matrix.model import Matrix
from pipeline.matrix.schema import Retries
from pipeline.matrix.select import EmptySelectionError
from pipeline.report.files import ReportFiles
from pipeline.report.terminal import OutlastingConsole, Terminal
from pipeline.results.history import History
from pipeline.results.performance import (
    TRACKED,
    References,
    load_references,
    measured,
    save_references,
    updated,
)
from pipeline.results.review import review
from pipeline.run.controller import Host, RunOptions, resume_run, run_jobs
from pipeline.run.devices import lock_folder
from pipeline.run.folders import failed_jobs, named_run, prune_runs, read_run
from pipeline.run.goldens import missing_goldens
from pipeline.run.listener import Listener
from pipeline.run.verdict import Pattern

_KEPT_RUNS, _KEPT_DAYS, _KEPT_GOLDENS = 50, 30, 2 * 1024**3
_SINGLE, _PAIRED = "pipeline.work.stages:execute", "pipeline.work.versus:execute"


@dataclass(frozen=True)
class _Asked:
    """What a command line asks for: jobs, and what holds for them all.

    `resumed` is the id of the run that is finished, or empty; `shard` holds facts that a merge needs.
    """

    plan: tuple[Job, ...]
    settings: Mapping[str, str]
    repeat: int | None
    resumed: str = ""
    shard: Mapping[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> Path | None:
        """The user's tensors in place of the profiles'."""
        return Path(self.settings["inputs"]) if "inputs" in self.settings else None

    @property
    def inject(self) -> str:
        """The fault to commit, or empty."""
        return self.settings.get("injected", "")


def run_lane(arguments: Namespace, command: Sequence[str]) -> int:
    """`compile`, `run`, `compare`: the selected jobs of the lane, or the rest or failures of an old run.

    Raises:
        ToolchainError: what was asked for of a toolchain cannot be had, or its parts do not fit each other.
    """
    refuse_unsayable(arguments)
    refuse_overwriting(arguments)
    # First of all, so that no mistake found later leaves an older report where this run's is looked for.
    attached = relative_to(arguments.attachments, os.environ)
    files = ReportFiles(arguments.junit, arguments.summary, attached)
    refuse_unheeded(arguments)
    matrix = read_matrix(arguments)
    asked = _asked(arguments, matrix)
    if asked.inject:
        check_injection(asked.inject, asked.plan)
    refuse_broken_toolchains(asked.plan)
    path = arguments.references or REFERENCES
    must_exist = arguments.references is not None and not arguments.update_references
    references = load_references(path, must_exist=must_exist)
    options = _options(arguments, asked, matrix.document.retries)
    history = History(options.root, current=asked.resumed)
    settings = {**asked.settings, **places_asked(arguments)}
    options = replace(
        options,
        facts={**run_facts(command), **options.facts},
        review=lambda result: review(result, references, history, settings),
    )
    # The terminal comes last: it can then say that the files could not be written.
    listeners: list[Listener] = [files, Terminal(OutlastingConsole())]
    host = Host(availability)
    if asked.resumed:
        summary = resume_run(asked.resumed, options, listeners, host)
    else:
        summary = run_jobs(asked.plan, options, listeners, host)
    if arguments.update_references:
        _update_references(path, references, summary.results)
    now, max_age = datetime.now(timezone.utc), timedelta(days=_KEPT_DAYS)
    prune_runs(options.root, spared=summary.run_id, keep=_KEPT_RUNS, max_age=max_age, now=now)
    prune(options.cache, max_bytes=_KEPT_GOLDENS, max_age=max_age, now=now)
    return summary.exit_code


def _asked(arguments: Namespace, matrix: Matrix) -> _Asked:
    settings = settings_asked(arguments)
    repeat = getattr(arguments, "repeat", None)
    if arguments.resume or arguments.failed:
        asked = _asked_again(arguments, settings, repeat)
    else:
        today = arguments.date or date.today()
        plan, shard = select_jobs(matrix, [LANES[arguments.command]], arguments, today)
        asked = _Asked(plan, settings, repeat, shard=shard)
    if asked.inputs is None:
        return asked
    given = getattr(arguments, "inputs", None) or asked.inputs
    return replace(asked, plan=on_inputs(asked.plan, given))


def _asked_again(arguments: Namespace, settings: Mapping[str, str], repeat: int | None) -> _Asked:
    """The rest, or the failures, of an earlier run."""
    root = arguments.output.absolute() / "runs"
    run = named_run(root, arguments.resume or arguments.failed)
    record = read_run(root, run)
    settings = settings_begun(record.facts, settings)
    if arguments.resume:
        return _Asked(record.plan, settings, repeat or int(record.facts.get("repeat", "1")), resumed=run)
    plan = failed_jobs(record)
    if not plan:
        raise EmptySelectionError(f"nothing failed in run {run}")
    return _Asked(plan, settings, repeat)


def _options(arguments: Namespace, asked: _Asked, retries: Retries) -> RunOptions:
    """How to run what is asked for; what looks at the results is left to the caller."""
    repeat = {"repeat": str(asked.repeat)} if asked.repeat else {}
    cache = arguments.output.absolute() / "goldens"
    options = RunOptions(
        root=arguments.output.absolute() / "runs",
        cache=cache,
        locks=lock_folder(os.environ),
        jobs=arguments.jobs,
        pools=device_pools(asked.plan, arguments.devices),
        queue=queue_limit(arguments),
        inputs=asked.inputs,
        stage=asked.settings.get("stage", "all"),
        inject=asked.inject,
        repeat=asked.repeat or 1,
        deadline=arguments.deadline,
        preload=("pipeline.engines.warm",),
        missing=missing_goldens(asked.plan, cache, asked.inputs),
        target=_PAIRED if any(job.other for job in asked.plan) else _SINGLE,
        facts={**asked.settings, **asked.shard, **repeat},
    )
    limit = arguments.retries if arguments.retries is not None else retries.limit
    if limit is not None:
        options = replace(options, retries=limit)
    return replace(options, patterns=(*options.patterns, *map(Pattern, retries.patterns)))


def _update_references(path: Path, references: References, results: Sequence[Result]) -> None:
    """Show what changes, then write it."""
    if not any(True for result in results for _ in measured(result)):
        sys.stdout.write(f"{path}: no job of this run has a metric that is tracked ({', '.join(TRACKED)})\n")
        return
    new, changes = updated(references, results)
    sys.stdout.write("".join(f"{change}\n" for change in changes) or f"{path}: nothing changes\n")
    if changes:
        save_references(path, new)
        sys.stdout.write(f"{path}: {counted(len(changes), 'reference')} written\n")
