"""How a plan is run, and what of the machine: what the controller is told before it begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job
from pipeline.ground.results import Result
from pipeline.ground.settings import Settings
from pipeline.run import verdict
from pipeline.run.executor import Executor, Terms
from pipeline.run.goldens import Wanted
from pipeline.run.local import LocalExecutor


@dataclass(frozen=True)
class RunOptions:
    """How to run a plan. Paths are absolute; times are in seconds.

    Args:
        root: folder that holds the run folders.
        cache: folder of the golden cache.
        locks: the host's folder of device locks (`devices.lock_folder`).
        jobs: how many jobs run in parallel; 0: as many as there are processors.
        pools: by platform name, the ids of the devices it may use; without an entry, those of matrix.yaml.
        settings: what the command line asks of every job; passed on to the jobs (`JobContext`).
        queue: if set, jobs on cards go through `task-submit`, and each waits at most this long for a card.
        retries: how often a job is retried after an infrastructure error; the settings come before it.
        marks: patterns of infrastructure errors in the text of a job that was not judged.
        deadline: time from the start within which the whole run must end; None: no limit.
        grace: time between TERM and KILL.
        artefact_bytes: limit on the size of the folders of all jobs and probes together.
        preload: modules imported once for all jobs, besides the target's; they must not start threads.
        missing: by job id, the golden that is not in the cache and that the job has to wait for.
        expected: by job id, how long a job is expected to take; the longest begin first.
        memory: see `Terms`.
        builds: by job id, what is built once for several jobs and is not built yet. One of them begins
            before all other jobs and builds it; the others wait until that one has ended.
        target: `module:function` that does a job's work.
        facts: facts of the run for the report.
        sources: digests of what the verdicts depend on, by name; a resumed run keeps no results of others.
        review: completes a job's result, also of a job that cannot run here, before requirements are applied
            to it; it may excuse a failure, or make a pass or a skip red.
    """

    root: Path
    cache: Path
    locks: Path
    jobs: int = 0
    pools: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    queue: float | None = None
    retries: int = 2
    marks: tuple[verdict.Mark, ...] = verdict.DEFAULT_MARKS
    deadline: float | None = None
    grace: float = 5.0
    artefact_bytes: int = 2 * 1024**3
    preload: tuple[str, ...] = ("numpy",)
    missing: Mapping[str, Wanted] = field(default_factory=dict)
    expected: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    builds: Mapping[str, Set[str]] = field(default_factory=dict)
    target: str = "pipeline.work.stages:execute"
    facts: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    review: Callable[[Result], Result] = lambda result: result


@dataclass(frozen=True)
class Host:
    """What a run needs from the machine it runs on.

    `available` says quickly whether a job can run here; if it cannot, it is skipped with that reason.
    `environment` is that of the jobs' processes, and `executor` makes what runs them.
    """

    available: Callable[[Job], Availability]
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    executor: Callable[[Terms], Executor] = LocalExecutor
