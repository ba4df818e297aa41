"""What a job needs of a node, as far as it decides where the job can run, and where it begins soonest."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from golden.cache import entry_of, notes_in
from golden.definition import DefinitionError
from golden.errors import UserError
from pipeline.ground.jobs import Job
from pipeline.run.goldens import Wanted, golden_kind


def kind_of(job: Job) -> Hashable:
    """What decides whether a host can run a job."""
    return (job.platform, job.other, job.workload, job.kernel, job.profile is None)


def built_by(job: Job) -> Hashable:
    """What a host may have built for a job that another one can use."""
    return (job.platform.name, job.workload, job.geometry_name, job.kernel)


def goldens_in(folder: Path) -> tuple[str, ...]:
    """The names of the files of goldens in a folder, and of the notes that say whose outputs they have."""
    return tuple(sorted(path.name for path in (*folder.glob("*.golden"), *notes_in(folder))))


class GoldenFiles:
    """The files of goldens in a cache; `inputs` is the path of a user's tensors."""

    def __init__(self, cache: Path, inputs: str | None) -> None:
        self._cache, self._inputs = cache, inputs
        self._entries: dict[Hashable, Path | None] = {}

    def of(self, job: Job) -> Path | None:
        """The file of a job's golden; None if it needs none or has none."""
        if job.profile is None:
            return None
        kind = golden_kind(job)
        if kind not in self._entries:
            wanted = Wanted(job, str(self._cache), self._inputs, 0.0)
            try:
                self._entries[kind] = entry_of(wanted.wanted(), self._cache)
            except (UserError, DefinitionError, MemoryError):
                self._entries[kind] = None
        entry = self._entries[kind]
        return entry if entry is not None and entry.exists() else None
