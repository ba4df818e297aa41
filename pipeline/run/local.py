"""The executor that runs all processes on this host: keepers, the goldens, and the locks of devices."""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job
from pipeline.ground.results import Result
from pipeline.run import processes
from pipeline.run.ahead import GoldensAhead
from pipeline.run.devices import Device, DevicePool, lock_name, lock_names, network_warning, number_of
from pipeline.run.executor import Ended, Process, Site, Terms, Told
from pipeline.run.goldens import Wanted
from pipeline.run.keeper import KeeperClient
from pipeline.run.messages import Cancel, Fault, Order
from pipeline.run.nursery import Nursery
from pipeline.run.waiting import holder_of

SWEEP_PATIENCE = 5.0
"""Seconds within which processes that were left behind have to be killed."""


@dataclass
class _AtWork:
    """One process. A keeper that is silent until `give_up_at` has hung."""

    process: Process
    marker: str
    give_up_at: float
    gave_up: bool = False


class LocalExecutor:
    """See `Executor`."""

    def __init__(self, terms: Terms, workers: int | None = None) -> None:
        """Use this host, for at most `workers` processes at the same time (None: as `terms` say).

        Raises:
            DeviceError: the folder of locks cannot be used.
        """
        self._terms = terms
        self._pool = DevicePool(terms.locks)
        self.set_aside = self._pool.set_aside
        most = min(terms.jobs or processes.processors(), len(terms.plan)) if workers is None else workers
        self._workers = max(1, most)
        self._at_work: dict[KeeperClient, _AtWork] = {}
        self._idle: list[KeeperClient] = []
        self._goldens = GoldensAhead()
        self._nursery: Nursery | None = None

    @property
    def workers(self) -> int:
        """See `Executor`."""
        return self._workers

    @property
    def has_room(self) -> bool:
        """See `Executor`."""
        return len(self._at_work) < self._workers

    @property
    def wake_at(self) -> float:
        """See `Executor`."""
        return min(self._goldens.wake_at, *(one.give_up_at for one in self._at_work.values()), math.inf)

    def remarks(self) -> Sequence[str]:
        """See `Executor`."""
        remarks = [network_warning(self._terms.locks)]
        if not processes.SUPPORTED:
            remarks.append("not Linux: processes that leave their job's tree are not found")
        return tuple(filter(None, remarks))

    def open(self, site: Site, selector: selectors.BaseSelector, told: Told) -> None:
        """See `Executor`."""
        self._site, self._selector, self._told = site, selector, told
        if site.resumed:
            processes.kill_marked(f"/{site.run_id}/", SWEEP_PATIENCE)
        preload = (*self._terms.preload, self._terms.target.partition(":")[0])
        # matplotlib keeps its list of fonts here. Without a home folder it would make a temporary folder for
        # each job, which would stay: a job's process ends without the libraries' own cleanup.
        environment = {"MPLCONFIGDIR": str(site.folder / "matplotlib"), **self._terms.environment}
        self._nursery = Nursery(preload, environment, site.folder / "nursery.log")

    def wake(self) -> None:
        """See `Executor`."""
        now = time.monotonic()
        for keeper, one in self._at_work.items():
            if now >= one.give_up_at:
                one.gave_up, one.give_up_at = True, math.inf
                keeper.kill()
        self._goldens.wake()

    def available(self, job: Job) -> Availability:
        """See `Executor`."""
        return self._terms.available(job)

    def reach(self, job: Job) -> tuple[str, ...]:
        """See `Executor`."""
        if self._terms.queued(job):
            return ()
        return lock_names(job.platform, self._terms.devices_of(job))

    def width(self, name: str) -> int:
        """See `Executor`."""
        return 1

    def lent(self, job: Job) -> tuple[int, ...]:
        """See `Executor`."""
        return self._terms.devices_of(job)

    def place_of(self, result: Result) -> str:
        """See `Executor`."""
        return "" if result.device is None else lock_name(result.job.platform, result.device)

    def take(self, job: Job, names: Sequence[str]) -> Device | None:
        """See `Executor`."""
        return self._pool.acquire(
            job.platform, [number for name in names if (number := number_of(name)) is not None]
        )

    def ready(self, job: Job, names: tuple[str, ...]) -> tuple[str, ...]:
        """See `Executor`. What is built here before a run's other jobs begin is in its options."""
        return names

    def held_elsewhere(self, names: Sequence[str]) -> tuple[str, ...]:
        """See `Executor`."""
        return self._pool.held_elsewhere(names)

    def holder(self, name: str) -> str:
        """See `Executor`."""
        return holder_of(self._pool.lock_file(name))

    def start(self, process: Process) -> None:
        """See `Executor`."""
        terms, device = self._terms, process.device
        order = Order(
            job=process.job,
            target=terms.target,
            folder=str(process.folder),
            result=str(self._site.result(process.number)),
            cache=str(terms.cache),
            settings=terms.settings,
            device=device.number if device is not None else None,
            marker=f"{self._pool.mark_prefix(device)}{self._site.run_id}/{process.number}/",
            threads=processes.thread_share(self._workers),
            grace=terms.grace,
            queue=terms.queue if terms.queued(process.job) else None,
        )
        if self._idle:
            keeper = self._idle.pop()
        else:
            keeper = self._warm.new_keeper()
            self._selector.register(keeper, selectors.EVENT_READ, lambda: self._receive(keeper))
        give_up_at = time.monotonic() + order.limit + terms.patience
        self._at_work[keeper] = _AtWork(process, order.marker, give_up_at)
        keeper.send(order)

    def cancel(self) -> None:
        """See `Executor`."""
        for keeper, one in self._at_work.items():
            if not one.gave_up:
                one.give_up_at = min(one.give_up_at, time.monotonic() + self._terms.patience)
                keeper.send(Cancel(self._terms.grace))

    def compute(self, missing: Mapping[str, Wanted]) -> None:
        """See `Executor`."""
        self._goldens.compute(missing, self._warm, self._selector)

    def awaits_golden(self, job: Job) -> bool:
        """See `Executor`."""
        return self._goldens.awaited_by(job.id)

    def close(self) -> None:
        """See `Executor`."""
        self._goldens.close()
        for keeper in (*self._idle, *self._at_work):
            keeper.close()
        if self._nursery is not None:
            self._nursery.close()
        self._pool.close()

    @property
    def _warm(self) -> Nursery:
        if self._nursery is None:
            raise RuntimeError("the executor is not open")
        return self._nursery

    def _receive(self, keeper: KeeperClient) -> None:
        report = keeper.receive()
        if report is None:
            return
        one = self._at_work.pop(keeper, None)
        if isinstance(report, Fault):
            self._selector.unregister(keeper)
            keeper.close()
            if one is None:
                self._idle.remove(keeper)
                return
            fault = report.text if keeper.pid is not None else self._warm.fault()
            _, alive = processes.kill_marked(one.marker, SWEEP_PATIENCE)
            ended = Ended(fault=fault, gave_up=one.gave_up)
        else:
            self._idle.append(keeper)
            if one is None:
                raise RuntimeError("a keeper sent a report, but had no order")
            alive, ended = list(report.alive), Ended(report)
        self._pool.release(one.process.device, alive)
        self._told.ended(one.process.number, ended)
