"""Goldens computed ahead of the jobs that need them, so that no job has to import torch.

One process of a run, a fork of the nursery's, computes the goldens that are not in the cache, in the plan's
order, while jobs whose goldens are there already run. It alone imports torch, and holds it. Were torch in the
nursery, each job would be forked with its hundred and fifty megabytes of private pages, which costs more than
most goldens; and two jobs of one pair, started together, would both compute its golden.

Where the process fails, hangs or is killed, the jobs that waited for it compute what they need themselves.
"""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec

import golden.cache
from golden.cache import golden_for, is_cached
from golden.inputs import InputsError
from golden.reference import TorchError
from pipeline.ground.goldens import wanted_golden
from pipeline.ground.jobs import Job
from pipeline.run import processes
from pipeline.run.messages import encode
from workloads.base import WorkloadError

_TORCH_IMPORT = 60.0
"""Seconds within which torch has been imported even on a busy host."""


class Wanted(msgspec.Struct, frozen=True):
    """A golden to compute into the cache: that of a job, of which the first that needs it stands for all.

    `inputs` is a file of tensors that stands in for the profile, or None. `limit` is how many seconds it may
    take.
    """

    job: Job
    cache: str
    inputs: str | None
    limit: float

    @property
    def kind(self) -> tuple[object, ...]:
        """All that determines the golden: what two jobs have in common that need the same."""
        job = self.job
        geometry = msgspec.json.encode(job.geometry, order="deterministic")
        return job.workload, geometry, job.profile, job.platform.variant

    def wanted(self) -> golden.cache.Wanted:
        """What the golden is computed from; raises as `wanted_golden`."""
        return wanted_golden(self.job, Path(self.inputs) if self.inputs is not None else None)


def missing_goldens(plan: Sequence[Job], cache: Path, inputs: str | None) -> Mapping[str, Wanted]:
    """By job id, the goldens that jobs need and the cache lacks. Empty where there is no torch.

    A job whose workload cannot be had waits for none: it says itself what is wrong.
    """
    if find_spec("torch") is None:
        return {}
    first: dict[tuple[object, ...], Wanted | None] = {}
    missing = {}
    for job in plan:
        if job.profile is None:
            continue
        one = Wanted(job, str(cache), inputs, job.timeout + _TORCH_IMPORT)
        if one.kind not in first:
            first[one.kind] = None if _needs_none(one, cache) else one
        found = first[one.kind]
        if found is not None:
            missing[job.id] = found
    return missing


def _needs_none(one: Wanted, cache: Path) -> bool:
    try:
        return is_cached(one.wanted(), cache)
    except WorkloadError:
        return True


class Goldens:
    """The controller's end: which jobs wait for a golden, and the process that computes one after the other.

    Args:
        missing: by job id, the goldens to compute, in that order.
        connection: leads to a process that does `serve`.

    Attributes:
        give_up_at: when the golden that is computed now should have been there long ago (monotonic, seconds).
    """

    def __init__(self, missing: Mapping[str, Wanted], connection: socket.socket) -> None:
        self._socket = connection
        self._missing = dict(missing)
        self._ask()

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` has something."""
        return self._socket.fileno()

    def holds(self, job_id: str) -> bool:
        """Whether a job has yet to wait."""
        return job_id in self._missing

    def receive(self) -> bool:
        """Let go of the jobs whose golden is there now; to be called when readable.

        Returns:
            False where there is nothing more to wait for: all is computed, or the process is gone.
        """
        with suppress(ConnectionError):
            if self._socket.recv(1):
                self._missing = {job: one for job, one in self._missing.items() if one != self._asked}
                self._ask()
                return bool(self._missing)
        return False

    def _ask(self) -> None:
        if self._missing:
            self._asked = next(iter(self._missing.values()))
            self.give_up_at = time.monotonic() + self._asked.limit
            with suppress(ConnectionError):  # it is gone: the next read says so
                self._socket.sendall(encode(self._asked) + b"\n")

    def close(self) -> None:
        """Let the process end once it has computed what it is about, at the latest with the run."""
        self._socket.close()


def serve(descriptor: int) -> None:
    """Compute each golden asked for over the socket `descriptor`, answering with a byte; end when it closes.

    One that cannot be computed is answered as well: the job that needs it will say why. What is no fault of
    the host or the user is said here too.
    """
    processes.die_with_parent()
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rb") as lines:
        for line in lines:
            wanted = msgspec.json.decode(line, type=Wanted)
            try:
                with suppress(InputsError, TorchError, WorkloadError, MemoryError):
                    golden_for(wanted.wanted(), Path(wanted.cache))
            except Exception:
                traceback.print_exc()
            try:
                connection.sendall(b".")
            except ConnectionError:
                return  # nobody waits any more
