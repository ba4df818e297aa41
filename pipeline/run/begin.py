"""Begins runs: new ones, and those that are resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.ground.jobs import Job
from pipeline.ground.words import counted
from pipeline.run.controller import Run
from pipeline.run.executor import Terms
from pipeline.run.folders import create_run, reopen_run
from pipeline.run.listener import Listener, RunSummary
from pipeline.run.options import Host, RunOptions


def run_jobs(
    plan: Sequence[Job], options: RunOptions, listeners: Sequence[Listener], host: Host
) -> RunSummary:
    """Run `plan` as a new run, in the main thread.

    SIGINT, SIGTERM and SIGHUP end the run in an orderly way: running jobs are ended, unfinished jobs become
    `interrupted`, and the summary is as complete as that of any run. The listeners are told every event, in
    their order, after the run's own journal.

    Raises:
        ValueError: two jobs have the same id.
        RunFolderError, DeviceError: a folder cannot be used.
    """
    ids = [job.id for job in plan]
    if len(set(ids)) < len(ids):
        twice = next(job for job in ids if ids.count(job) > 1)
        raise ValueError(f"two jobs of the plan have the id {twice}")
    executor = host.executor(_terms(plan, options, host))
    try:
        folder = create_run(options.root, host.now())
    except BaseException:
        executor.close()
        raise
    return Run(plan, {}, options, listeners, host, folder, executor).execute()


def resume_run(run_id: str, options: RunOptions, listeners: Sequence[Listener], host: Host) -> RunSummary:
    """Finish the run `run_id`: run the jobs that have no result or were interrupted. See `run_jobs`.

    If sources have changed, the jobs that had ended are run again too.

    Raises:
        RunFolderError, JournalError: the run cannot be resumed.
        DeviceError: the lock folder cannot be used.
    """
    folder, record = reopen_run(options.root, run_id)
    try:
        executor = host.executor(_terms(record.plan, options, host))
    except BaseException:
        folder.close()
        raise
    # The report must show what has changed since the run began (the commit, a package's version).
    changed = {f"resumed.{name}": now for name, now in options.facts.items() if record.facts.get(name) != now}
    kept, notes = record.finished, record.notes
    if kept and (names := _differing(record.sources, options.sources)):
        again = (
            f"{counted(len(kept), 'job')} that had ended will run again; changed since: {', '.join(names)}"
        )
        changed["resumed.sources"], notes, kept = again, (*notes, again), {}
    options = replace(options, facts={**record.facts, **changed})
    nothing_left = record.seconds is not None and kept.keys() >= {job.id for job in record.plan}
    ended = record if nothing_left else None
    run = Run(record.plan, kept, options, listeners, host, folder, executor, ended)
    return run.execute(notes, resumed=True)


def _terms(plan: Sequence[Job], options: RunOptions, host: Host) -> Terms:
    return Terms(
        plan=plan,
        cache=options.cache,
        locks=options.locks,
        jobs=options.jobs,
        pools=options.pools,
        settings=options.settings,
        queue=options.queue,
        grace=options.grace,
        preload=options.preload,
        target=options.target,
        environment=host.environment,
        available=host.available,
        memory=options.memory,
    )


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names whose values differ, or that only one has."""
    return sorted({name for name, _ in {*one.items()} ^ {*other.items()}})
