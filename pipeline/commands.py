"""What each command of the command line does; every function gives the exit code."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from golden import profiles
from kernels.catalogue import KERNELS, PROGRAMS
from pipeline.engines.base import Availability
from pipeline.engines.registry import BACKENDS, engine_for
from pipeline.faults import FaultError, fault_named
from pipeline.jobs import OUTCOMES, Job, Lane, Platform, Result, State
from pipeline.matrix.errors import shown
from pipeline.matrix.expand import COMPARED, expand
from pipeline.matrix.explain import explain
from pipeline.matrix.load import load
from pipeline.matrix.model import Matrix
from pipeline.matrix.pairing import pair_up, parse_engines, platforms_of
from pipeline.matrix.select import (
    EmptySelectionError,
    FilterError,
    Filters,
    division,
    parse_shard,
    select,
    take_shard,
)
from pipeline.options import LANES
from pipeline.reproduce import INPUTS
from pipeline.words import counted

if TYPE_CHECKING:
    from pipeline.performance import References

_BASE = Path("matrix.yaml")
_KEPT_RUNS, _KEPT_DAYS, _KEPT_GOLDENS = 50, 30, 2 * 1024**3
_SINGLE, _PAIRED = "pipeline.stages:execute", "pipeline.versus:execute"

INFRASTRUCTURE = OUTCOMES[State.INFRASTRUCTURE].exit_code
"""Exit code where only the host is at fault."""

_UNSET = {"matrix": "no overlay", "injected": "no fault", "inputs": "the profiles", "stage": "all"}
"""The run facts that change what every job does, and what holds without them."""


class ToolchainError(Exception):
    """A toolchain that was set up cannot be used; one line a problem, with its remedy. Exit code 6."""


def list_jobs(arguments: Namespace) -> int:
    """`list`: the selected jobs' ids, a line each, or where one job comes from."""
    today = arguments.date or date.today()
    matrix = _matrix(arguments)
    if arguments.explain:
        lines = [str(origin) for origin in explain(matrix, arguments.explain, today)]
    else:
        lanes = [Lane(arguments.lane)] if arguments.lane else [Lane.COMPILE, Lane.DEVICE]
        lines = [job.id for job in _selected(matrix, lanes, arguments, today)[0]]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def run_lane(arguments: Namespace, command: Sequence[str]) -> int:
    """`compile`, `run`, `compare`: the selected jobs of the lane, or the rest or failures of an old run.

    Raises:
        ToolchainError: what was asked for of a toolchain cannot be had, or its parts do not fit each other.
    """
    # Imported here, since `list` needs none of it and must answer at once.
    from golden.cache import prune
    from pipeline.facts import run_facts
    from pipeline.history.questions import History
    from pipeline.performance import load_references
    from pipeline.report.files import ReportFiles
    from pipeline.report.terminal import OutlastingConsole, Terminal
    from pipeline.review import review
    from pipeline.run.controller import Host, RunOptions, resume_run, run_jobs
    from pipeline.run.devices import lock_folder
    from pipeline.run.folders import failed_jobs, prune_runs, read_run
    from pipeline.run.goldens import missing_goldens
    from pipeline.run.listener import Listener

    _refuse_unsayable(arguments)
    _refuse_overwriting(arguments)
    # First of all, so that no mistake found later leaves an older report where this run's is looked for.
    files = ReportFiles(arguments.junit, arguments.summary)
    root = arguments.output.absolute() / "runs"
    _refuse_unheeded(arguments)
    matrix = _matrix(arguments)
    today = arguments.date or date.today()
    settings = _settings(arguments)
    repeat = getattr(arguments, "repeat", None)
    shard: dict[str, str] = {}
    if arguments.resume or arguments.failed:
        run = _run_id(root, arguments.resume or arguments.failed)
        record = read_run(root, run)
        settings = _as_begun(record.facts, settings)
        plan = record.plan if arguments.resume else failed_jobs(record)
        if not plan:
            raise EmptySelectionError(f"nothing failed in run {run}")
        if arguments.resume:
            repeat = repeat or int(record.facts.get("repeat", "1"))
    else:
        plan, shard = _selected(matrix, [LANES[arguments.command]], arguments, today)
    inject = settings.get("injected", "")
    if inject:
        _check_injection(inject, plan)
    inputs = Path(settings["inputs"]) if "inputs" in settings else None
    if inputs is not None:
        plan = _on_inputs(plan, getattr(arguments, "inputs", None) or inputs)
    _refuse_broken_toolchains(plan)
    facts = run_facts(command) | settings | shard
    if repeat:
        facts["repeat"] = str(repeat)
    retries = matrix.document.retries
    cache = arguments.output.absolute() / "goldens"
    options = RunOptions(
        root=root,
        cache=cache,
        locks=lock_folder(os.environ),
        jobs=arguments.jobs,
        pools=_pools(plan, arguments.devices),
        queue=_queue(arguments),
        inputs=inputs,
        stage=settings.get("stage", "all"),
        inject=inject,
        repeat=repeat or 1,
        deadline=arguments.deadline,
        preload=("pipeline.engines.warm",),
        missing=missing_goldens(plan, cache, inputs),
        target=_PAIRED if any(job.other for job in plan) else _SINGLE,
        facts=facts,
    )
    limit = arguments.retries if arguments.retries is not None else retries.limit
    if limit is not None:
        options = replace(options, retries=limit)
    references = load_references(arguments.references)
    history = History(root, current=run if arguments.resume else "")
    options = replace(
        options,
        patterns=(*options.patterns, *retries.patterns),
        review=lambda result: review(result, references, history, settings),
    )
    # The terminal comes last: it can then say that the files could not be written.
    listeners: list[Listener] = [files, Terminal(OutlastingConsole())]
    host = Host(availability)
    if arguments.resume:
        summary = resume_run(run, options, listeners, host)
    else:
        summary = run_jobs(plan, options, listeners, host)
    if arguments.update_references:
        _update_references(arguments.references, references, summary.results)
    now, max_age = datetime.now(timezone.utc), timedelta(days=_KEPT_DAYS)
    prune_runs(root, spared=summary.run_id, keep=_KEPT_RUNS, max_age=max_age, now=now)
    prune(cache, max_bytes=_KEPT_GOLDENS, max_age=max_age, now=now)
    return summary.exit_code


def examine_host(arguments: Namespace) -> int:
    """`doctor`: what is installed, which jobs can run here, and why the others cannot, with remedies."""
    from pipeline.doctor import examine, installed
    from pipeline.engines.pypto.toolchain import preflight

    matrix = _matrix(arguments)
    jobs = expand(matrix, date.today())
    for line in examine(jobs, availability, installed(os.environ)):
        sys.stdout.write(f"{line}\n")
    problems = preflight(list(matrix.platforms.values()), os.environ)
    for problem in problems:
        sys.stdout.write(f"problem: {problem}\n")
    lacking = {job.platform.name for job in jobs if job.platform.required and not availability(job)}
    for name in sorted(lacking):
        sys.stdout.write(f"problem: platform {name} is required, and not all of its jobs can run\n")
    return INFRASTRUCTURE if problems or lacking else 0


def show_report(arguments: Namespace) -> int:
    """`report show`: an earlier run's summary on the terminal, and its report files where asked for."""
    from pipeline.report.files import ReportFiles
    from pipeline.report.terminal import OutlastingConsole, Terminal
    from pipeline.run.folders import read_run
    from pipeline.run.listener import Listener, RunInfo, RunSummary
    from pipeline.run.states import INTERNAL_ERROR, exit_code

    _refuse_overwriting(arguments)
    root = arguments.output.absolute() / "runs"
    run_id = _run_id(root, arguments.run)
    record = read_run(root, run_id)
    results = record.all_results()
    run = RunInfo(run_id, root / run_id, record.plan, record.started, 0, record.facts, record.notes)
    seconds = sum(result.seconds for result in results)
    summary = RunSummary(run_id, root / run_id, results, exit_code(results), seconds)
    if record.broken:
        said = f"it failed in this run; what it said stands in {root / run_id}, if anywhere"
        summary = replace(summary, exit_code=INTERNAL_ERROR, problems=(said,))
    listeners: list[Listener] = [Terminal(OutlastingConsole())]
    if arguments.junit or arguments.summary:
        listeners.append(ReportFiles(arguments.junit, arguments.summary))
        for listener in listeners[1:]:
            listener.run_started(run)
    for listener in listeners:
        listener.run_finished(summary)
    return summary.exit_code


def replay_job(arguments: Namespace) -> int:
    """`replay`: a mismatch of an earlier run judged again, from what the run kept."""
    from pipeline.replay import account, replay
    from pipeline.report.text import safe
    from pipeline.run.folders import read_run
    from pipeline.run.states import exit_code

    root = arguments.output.absolute() / "runs"
    run_id = _run_id(root, arguments.run)
    result = replay(read_run(root, run_id), root / run_id, arguments.job, arguments.output / "goldens")
    sys.stdout.write(safe(account(result)))
    return exit_code([result])


def merge_reports(arguments: Namespace) -> int:
    """`report merge`: one JUnit file of several."""
    from pipeline.report.files import clear
    from pipeline.report.merge import merge

    if arguments.out.resolve() not in {path.resolve() for path in arguments.files}:
        clear(arguments.out)
    merged = merge(arguments.files, arguments.out, arguments.shards)
    sys.stdout.write(f"{arguments.out}: {merged}\n")
    return merged.exit_code


def availability(job: Job) -> Availability:
    """Whether a job can run here, by what its engine says of the job's programs."""
    programs = KERNELS.get(job.kernel, tuple(PROGRAMS))
    if job.other:
        from pipeline.versus import PROGRAMS as COMPARED

        programs = tuple(program for program, _ in COMPARED.values())
        other = _can(job.other, programs)
        if not other:
            return other
    return _can(job.platform, programs, compile_only=job.profile is None)


def _can(platform: Platform, programs: Sequence[str], *, compile_only: bool = False) -> Availability:
    if platform.backend not in BACKENDS:
        return Availability(f"backend {platform.backend} is not available yet")
    return engine_for(platform.backend).probe(platform, programs, compile_only=compile_only)


def _matrix(arguments: Namespace) -> Matrix:
    return load([_BASE, *arguments.matrix])


def _selected(
    matrix: Matrix, lanes: Sequence[Lane], arguments: Namespace, today: date
) -> tuple[tuple[Job, ...], dict[str, str]]:
    """The jobs that are asked for, and the facts of a shard that a merge needs."""
    engines = _engines(arguments, matrix)
    if list(lanes) == [Lane.COMPARE] and arguments.kernel and set(arguments.kernel) <= set(KERNELS):
        raise EmptySelectionError(
            f"--kernel {' '.join(arguments.kernel)}: a job of the compare lane runs every program of a pair, "
            f"and its kernel is called `{COMPARED}`; leave --kernel out"
        )
    filters = Filters(
        geometries=tuple(arguments.geometry),
        platforms=tuple(engine.name for engine in engines) or tuple(arguments.platform),
        kernels=tuple(arguments.kernel),
        profiles=tuple(arguments.profile),
        ids=tuple(arguments.id),
    )
    if engines:
        jobs = pair_up(select(expand(matrix, today), [Lane.DEVICE], filters), *engines)
    else:
        jobs = select(expand(matrix, today), lanes, filters)
    facts = {}
    if arguments.shard:
        durations = _durations(arguments.output / "runs")
        facts = {"shard": arguments.shard, f"division.{arguments.command}": division(jobs, durations)}
        jobs = take_shard(jobs, parse_shard(arguments.shard), durations)
    # The seed of the night is settled once, so that all jobs of a run and of a replay agree on it.
    settled = tuple(
        job if job.profile is None else replace(job, profile=profiles.resolve(job.profile, today))
        for job in jobs
    )
    return settled, facts


def _engines(arguments: Namespace, matrix: Matrix) -> tuple[Platform, ...]:
    """The two platforms to hold against one another, or none."""
    written = getattr(arguments, "engines", "")
    if not written:
        return ()
    for name in ("platform", "kernel", "id", "stage"):
        if getattr(arguments, name):
            raise FilterError(f"--{name} does not go with --engines, which says what is compared and where")
    return parse_engines(written, matrix.platforms)


def _refuse_unsayable(arguments: Namespace) -> None:
    """Raise `FilterError` where orders to jobs, which are UTF-8, could not name a path."""
    for option in ("output", "inputs"):
        path: Path | None = getattr(arguments, option, None)
        try:
            str(path and path.absolute()).encode()
        except UnicodeEncodeError:
            raise FilterError(f"--{option} {shown(path)}: its full path is not UTF-8; name another") from None


def _refuse_overwriting(arguments: Namespace) -> None:
    """Raise `FilterError` where a report would take the place of a file the run needs or of the other."""
    given = vars(arguments)
    read = [_BASE, *given.get("matrix", ()), given.get("references"), given.get("inputs")]
    taken = {path.resolve() for path in read if path is not None}
    for option in ("junit", "summary"):
        path: Path | None = getattr(arguments, option)
        if path is None:
            continue
        if path.resolve() in taken:
            raise FilterError(f"--{option} {path}: this file has another use in this run; name another")
        taken.add(path.resolve())


def _refuse_unheeded(arguments: Namespace) -> None:
    """Raise `FilterError` where an option of the selection goes with a run that brings its own plan."""
    brought = next((name for name in ("resume", "failed") if getattr(arguments, name)), None)
    for name in ("geometry", "platform", "kernel", "profile", "id", "shard", "date", "engines"):
        if brought and getattr(arguments, name, None):
            raise FilterError(f"--{name} does not go with --{brought}, which brings a plan of its own")


def _on_inputs(plan: Sequence[Job], inputs: Path) -> tuple[Job, ...]:
    """The jobs on a user's tensors in place of their profiles': one for each that differ in more than that.

    Raises:
        InputsError: the file does not fit a job's geometry.
    """
    from golden.inputs import InputsError, load_inputs

    geometries = {job.geometry_name: job.geometry for job in plan}
    for name, geometry in geometries.items():
        try:
            load_inputs(inputs, geometry)
        except InputsError as error:
            if len(geometries) == 1:
                raise
            raise InputsError(f"{error}, in geometry {name}: choose the file's with --geometry") from error
    found: dict[str, Job] = {}
    for job in plan:
        renamed = f"{job.id.rpartition('/')[0]}/{INPUTS}"
        found.setdefault(renamed, replace(job, id=renamed, profile=INPUTS))
    return tuple(found.values())


def _settings(arguments: Namespace) -> dict[str, str]:
    """What is asked for that changes what every job of a run does, as the run's facts record it."""
    inputs: Path | None = getattr(arguments, "inputs", None)
    asked = {
        "matrix": shlex.join(map(str, arguments.matrix)),
        "injected": getattr(arguments, "inject", ""),
        "inputs": str(inputs.absolute()) if inputs is not None else "",
        "stage": getattr(arguments, "stage", ""),
    }
    return {fact: value for fact, value in asked.items() if value}


def _as_begun(facts: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """The settings that the run to be taken up was begun with, by its facts.

    Raises:
        FilterError: others are asked for now.
    """
    for fact, value in asked.items():
        begun = facts.get(fact, _UNSET[fact])
        if value != begun:
            raise FilterError(f"{fact}: the earlier run was begun with {begun}, not with {value}")
    return {fact: facts[fact] for fact in _UNSET if fact in facts}


def _check_injection(name: str, plan: Sequence[Job]) -> None:
    """Raise `FaultError` where there is no such fault, or a job that is not the emulator's."""
    fault_named(name)
    for job in plan:
        platform = platforms_of(job)[0] if job.other else job.platform
        if platform.backend != "emulator":
            raise FaultError(
                f"--inject {name}: faults are injected on the emulator only, and {job.id} runs on "
                f"{platform.backend}: choose platforms with --platform"
            )


def _pools(plan: Sequence[Job], requested: str | None) -> Mapping[str, tuple[int, ...]]:
    from pipeline.engines.npu_smi import survey_host
    from pipeline.run.devices import choose_ids, parse_ids

    wanted = parse_ids(requested, "--devices") if requested is not None else None
    lent_text = os.environ.get("TASK_DEVICE")
    lent = parse_ids(lent_text, "TASK_DEVICE") if lent_text is not None else None
    platforms = {job.platform.name: job.platform for job in plan}
    pools = {}
    for name, each in platforms.items():
        cards = [card.number for card in survey_host().of(each.soc)] if each.on_cards else []
        pools[name] = choose_ids(each, requested=wanted, lent=lent, discovered=cards or None)
    return pools


def _queue(arguments: Namespace) -> float | None:
    """How long jobs may wait for a card of `task-submit`; None where this host's own cards are locked."""
    if arguments.launcher == "local":
        return None
    from pipeline.run.task_submit import require

    require()
    return float(arguments.queue)


def _refuse_broken_toolchains(plan: Sequence[Job]) -> None:
    """One error at the start, rather than one for every job."""
    from pipeline.engines.pypto.toolchain import preflight

    problems = preflight(list({job.platform.name: job.platform for job in plan}.values()), os.environ)
    if problems:
        raise ToolchainError("\n".join(problems))


def _update_references(path: Path, references: References, results: Sequence[Result]) -> None:
    """Show what changes, then write it."""
    from pipeline.performance import TRACKED, measured, save_references, updated

    if not any(True for result in results for _ in measured(result)):
        sys.stdout.write(f"{path}: no job of this run has a metric that is tracked ({', '.join(TRACKED)})\n")
        return
    new, changes = updated(references, results)
    sys.stdout.write("".join(f"{change}\n" for change in changes) or f"{path}: nothing changes\n")
    if changes:
        save_references(path, new)
        sys.stdout.write(f"{path}: {counted(len(changes), 'reference')} written\n")


def _run_id(root: Path, written: str) -> str:
    from pipeline.run.folders import RunFolderError, run_ids

    if written != "last":
        return written
    ids = run_ids(root)
    if not ids:
        raise RunFolderError(f"{root}: there is no run yet")
    return ids[-1]


def _durations(root: Path) -> Mapping[str, float]:
    """Seconds of each job in the last run that had it, for balancing shards."""
    from pipeline.run.folders import RunFolderError, read_run, run_ids
    from pipeline.run.journal import JournalError

    found: dict[str, float] = {}
    for run_id in run_ids(root)[-10:]:
        try:
            results = read_run(root, run_id).results
        except (RunFolderError, JournalError):
            continue  # a run that was killed before it began has no durations to give
        found |= {job: result.seconds for job, result in results.items() if _was_judged(result)}
    return found


def _was_judged(result: Result) -> bool:
    return result.state in (State.PASSED, State.MISMATCH)
