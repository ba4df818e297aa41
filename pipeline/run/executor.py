"""Where the processes of a run's jobs run: all that the controller knows of it.

An executor has places for processes and says what happened to them. It knows nothing of tries, repeats or
verdicts: those are the controller's. `local.py` has the executor that runs all processes on this host.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job
from pipeline.ground.results import Result
from pipeline.ground.settings import Settings
from pipeline.run.devices import Device
from pipeline.run.goldens import Wanted
from pipeline.run.messages import Report

MARGIN = 5.0
"""Seconds that a keeper has to report after a job's process has been ended."""


@dataclass(frozen=True)
class Terms:
    """What the processes of all jobs of a run have in common. Times are in seconds.

    Args:
        plan: every job of the run.
        cache: folder of the golden cache.
        locks: the host's folder of device locks.
        jobs: how many jobs run in parallel; 0: as many as there are processors.
        pools: by platform name, the ids of the devices it may use; without an entry, those of matrix.yaml.
        settings: what the command line asks of every job.
        queue: if set, jobs on cards go through `task-submit`, and each waits at most this long for a card.
        grace: time between TERM and KILL.
        preload: modules that are imported once for all jobs.
        target: `module:function` that does a job's work.
        environment: that of the jobs' processes.
        available: says quickly whether a job can run on this host.
        memory: by job id, how many bytes of memory a job is expected to need; without an entry, that is not
            known. Only a cluster asks for it.
    """

    plan: Sequence[Job]
    cache: Path
    locks: Path
    jobs: int
    pools: Mapping[str, tuple[int, ...]]
    settings: Settings
    queue: float | None
    grace: float
    preload: tuple[str, ...]
    target: str
    environment: Mapping[str, str]
    available: Callable[[Job], Availability]
    memory: Mapping[str, float] = field(default_factory=dict)

    @property
    def patience(self) -> float:
        """How long a keeper may take to end a job and report."""
        return 2 * self.grace + MARGIN

    def queued(self, job: Job) -> bool:
        """Whether a job gets its card from `task-submit`, which has locks of its own."""
        return self.queue is not None and job.platform.on_cards

    def devices_of(self, job: Job) -> tuple[int, ...]:
        """The ids of the devices that a job may use."""
        return self.pools.get(job.platform.name, job.platform.devices)


@dataclass(frozen=True)
class Site:
    """The folder of a run on the host whose processes run. `resumed`: the run was begun earlier."""

    run_id: str
    folder: Path
    resumed: bool = False

    @cached_property
    def results(self) -> Path:
        """Folder of the results that were written and not read yet."""
        return self.folder / "results"

    def result(self, number: int) -> Path:
        """The file of the result of a run's `number`-th process."""
        return self.results / f"{number}.json"


@dataclass(frozen=True)
class Process:
    """A process that shall run: the `number`-th of its run. `device` is the place that it was given."""

    number: int
    job: Job
    folder: Path
    device: Device | None


@dataclass(frozen=True)
class Ended:
    """How a process ended; its files are in its folder, and the result that it wrote is at `Site.result`.

    Without a report, its keeper ended first: `fault` is the error that was reported (empty if the keeper was
    killed), and `gave_up` says that it was ended because it no longer answered. `lost` is the result instead
    if the process was lost together with the host on which it ran. `returned`: it did not begin, since its
    place was not free after all. `facts` are added to those of the job.
    """

    report: Report | None = None
    fault: str = ""
    gave_up: bool = False
    lost: Result | None = None
    returned: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """Whom an executor tells what happens, in the controller's own thread.

    `ended`: the process of a number ended, and its place is free again. `set_aside`: a place is used no
    longer (its name, the reason). `remark`: a line for people. `changed`: `reach` gives other places now.
    `stop`: the run has to end, for this reason.
    """

    ended: Callable[[int, Ended], None]
    set_aside: Callable[[str, str], None] = lambda _name, _reason: None
    remark: Callable[[str], None] = lambda _text: None
    changed: Callable[[], None] = lambda: None
    stop: Callable[[str], None] = lambda _reason: None


class Executor(Protocol):
    """Places for the processes of one run. Places are devices, by the names of their locks, or hosts.

    `set_aside` says why the run has stopped using places, by their names; the controller adds to it.
    """

    set_aside: dict[str, str]

    @property
    def workers(self) -> int:
        """How many processes can run at the same time."""

    @property
    def has_room(self) -> bool:
        """Whether another process can begin, if there is a place for it."""

    @property
    def wake_at(self) -> float:
        """When `wake` has to be called, whatever happens until then (monotonic, seconds)."""

    def remarks(self) -> Sequence[str]:
        """Lines for people about where the run takes place."""

    def open(self, site: Site, selector: selectors.BaseSelector, told: Told) -> None:
        """Begin. What `selector` then finds ready has a function as its data, which is to be called."""

    def wake(self) -> None:
        """Give up what has not answered in time."""

    def available(self, job: Job) -> Availability:
        """Whether a job can run here, and if not, why."""

    def reach(self, job: Job) -> tuple[str, ...]:
        """The places that the run can choose for a job; empty if it needs none."""

    def width(self, name: str) -> int:
        """How many processes a place takes at a time; asked once, when `reach` first names it."""

    def lent(self, job: Job) -> tuple[int, ...]:
        """The ids of the devices that a scheduler can lend a job that needs no place."""

    def place_of(self, result: Result) -> str:
        """The place where a job ended that ran in an earlier part of this run; empty: at none."""

    def take(self, job: Job, names: Sequence[str]) -> Device | None:
        """Take a free one of these places for a job, the first or the nearest. None if all are busy."""

    def ready(self, job: Job, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of these places, free or not, where nothing is being built that a job would wait for."""

    def held_elsewhere(self, names: Sequence[str]) -> tuple[str, ...]:
        """Of places that could not be taken just now, those that another run or program holds."""

    def holder(self, name: str) -> str:
        """Who holds a place elsewhere, in words."""

    def start(self, process: Process) -> None:
        """Begin a process. How it ends is told exactly once."""

    def cancel(self) -> None:
        """End all processes that are running, soon."""

    def compute(self, missing: Mapping[str, Wanted]) -> None:
        """Begin to compute the goldens that jobs need, by their ids."""

    def awaits_golden(self, job: Job) -> bool:
        """Whether a job has to wait for its golden."""

    def close(self) -> None:
        """End everything. No process and no lock is left behind."""
