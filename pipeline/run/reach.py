"""Which places the jobs of a run can have: devices of this host, or places on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.ground.jobs import Job
from pipeline.run.executor import Executor
from pipeline.run.tries import places_of


class Reach:
    """The places of each job that the run can choose, as they are now. Nodes may come during a run."""

    def __init__(self, plan: Sequence[Job], executor: Executor) -> None:
        """Ask the executor which places the jobs of `plan` can have."""
        self._plan, self._executor = plan, executor
        self._places: dict[str, tuple[str, ...]] = {}
        self._widths: dict[str, int] = {}
        self._most_workers = 0
        self.take()

    def take(self) -> None:
        """Ask again, since there are others."""
        executor = self._executor
        self._places.update((job.id, places) for job in self._plan if (places := executor.reach(job)))
        for name in places_of(self._places):
            if name not in self._widths:
                self._widths[name] = executor.width(name)
        self._most_workers = max(self._most_workers, executor.workers)

    @property
    def places(self) -> Mapping[str, tuple[str, ...]]:
        """By job id, the places; jobs that need none are left out. It stays the same object."""
        return self._places

    @property
    def widths(self) -> Mapping[str, int]:
        """By place, how many jobs it takes at a time; also places that are there no more."""
        return self._widths

    @property
    def most_workers(self) -> int:
        """How many jobs could run in parallel at most, at any time so far."""
        return self._most_workers

    def of(self, job: Job) -> tuple[str, ...]:
        """The places that the run can choose for a job; empty if it needs none."""
        return self._places.get(job.id, ())

    def usable(self, job: Job) -> tuple[str, ...]:
        """Those of its places that were not set aside."""
        places, aside = self.of(job), self._executor.set_aside
        if aside.keys().isdisjoint(places):  # there may be hundreds, and this is asked for each job
            return places
        return tuple(name for name in places if name not in aside)
