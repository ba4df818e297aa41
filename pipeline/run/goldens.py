"""Goldens computed ahead of the jobs that need them, so that no job has to import torch.

One process of a run, forked from the nursery, computes the goldens that are not in the cache, in the order in
which the jobs that need them begin.
Meanwhile jobs whose goldens are in the cache run. Only this process imports torch. If the nursery imported
it, each job would be forked with torch's 150 megabytes of private pages, which costs more than most goldens.
If the jobs computed their goldens, two jobs of one pair that start together would both compute the same one.

If the process fails, hangs or is killed, the jobs that waited for it compute their goldens themselves.
"""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import msgspec

import golden.cache
from golden.cache import golden_for, is_cached
from golden.definition import DefinitionError
from golden.inputs import InputsError
from golden.profiles import ProfileError
from golden.reference import TorchError
from kernels.plan import PlanError
from pipeline.engines.registry import takes_tiles
from pipeline.ground.jobs import Job
from pipeline.ground.subject import subject_of, wanted_golden
from pipeline.run import processes
from pipeline.run.messages import Channel
from workloads.base import WorkloadError

_KEPT_BYTES, _KEPT_AGE = 2 * 1024**3, timedelta(days=30)

_TORCH_IMPORT = 60.0
"""Seconds that importing torch may take, even on a busy host."""


class Wanted(msgspec.Struct, frozen=True):
    """A golden to compute into the cache. `job` is the first job that needs it.

    `inputs` is a file of tensors that replace those of the profile, or None. `limit` is how many seconds the
    computation may take.
    """

    job: Job
    cache: str
    inputs: str | None
    limit: float

    def wanted(self) -> golden.cache.Wanted:
        """What the golden is computed from; raises what `wanted_golden` raises."""
        return wanted_golden(self.job, Path(self.inputs) if self.inputs is not None else None)


def prune_goldens(folder: Path, now: datetime) -> None:
    """Remove the goldens of a host that no job there used for long, and the oldest if there are too many."""
    golden.cache.prune(folder, max_bytes=_KEPT_BYTES, max_age=_KEPT_AGE, now=now)


def missing_goldens(plan: Sequence[Job], cache: Path, inputs: str | None) -> Mapping[str, Wanted]:
    """By job id, the goldens that jobs need and the cache lacks. Empty if torch is not installed.

    A job whose workload cannot be loaded, or whose geometry cannot be tiled, does not wait: it reports itself
    what is wrong.
    """
    if find_spec("torch") is None:
        return {}
    first: dict[Hashable, Wanted | None] = {}
    missing = {}
    for job in plan:
        if job.profile is None:
            continue
        kind = golden_kind(job)
        try:
            if job.other is None and takes_tiles(job.platform.backend):
                subject_of(job).plan  # noqa: B018 (raises where the geometry cannot be tiled)
            if kind not in first:
                one = Wanted(job, str(cache), inputs, job.timeout + _TORCH_IMPORT)
                first[kind] = None if is_cached(one.wanted(), cache) else one
        except (PlanError, ProfileError, WorkloadError):
            continue
        if (found := first[kind]) is not None:
            missing[job.id] = found
    return missing


def golden_kind(job: Job) -> Hashable:
    """The same for all jobs of a run that need the same golden."""
    geometry = msgspec.json.encode(job.geometry, order="deterministic")
    return job.workload, geometry, job.profile, job.platform.variant


class Goldens(Channel[bool]):
    """The controller's side: which jobs wait for a golden, and the process that computes the goldens.

    `give_up_at` is when to stop waiting for the golden that is being computed (monotonic, seconds): at once
    if all are computed or the process has ended.
    """

    def __init__(self, missing: Mapping[str, Wanted], connection: socket.socket) -> None:
        """Ask for the goldens `missing`, by job id, in that order; `connection` leads to `serve`."""
        super().__init__(connection, msgspec.json.Decoder(bool))
        self._missing = dict(missing)
        self._ask()

    def holds(self, job_id: str) -> bool:
        """Whether a job still has to wait."""
        return job_id in self._missing

    def receive(self) -> None:
        """Release the jobs whose golden has been computed; to be called when the socket is readable."""
        if not self.read():
            self.give_up_at = 0.0
        elif self.arrived:
            self.arrived.clear()
            self._missing = {job: one for job, one in self._missing.items() if one != self._asked}
            self._ask()

    def _ask(self) -> None:
        self.give_up_at = 0.0
        if self._missing:
            self._asked = next(iter(self._missing.values()))
            self.give_up_at = time.monotonic() + self._asked.limit
            self.send(self._asked)


def serve(connection: socket.socket) -> None:
    """Compute each golden that is asked for and answer with `true`; end when the other end closes.

    A golden that cannot be computed is answered as well: the job that needs it will report why. An error that
    is neither the host's nor the user's fault is printed here too.
    """
    processes.die_with_parent()
    asked = Channel(connection, msgspec.json.Decoder(Wanted))
    while (one := asked.next()) is not None:
        try:
            with suppress(InputsError, TorchError, WorkloadError, DefinitionError, MemoryError):
                golden_for(one.wanted(), Path(one.cache))
        except Exception:
            traceback.print_exc()
        asked.send(True)
