"""Which jobs of a run build what several of them need, once for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from pipeline.ground.jobs import Job


class Builders:
    """What was not built when a run began, and which job has built it since."""

    def __init__(self, needed: Mapping[str, Set[str]]) -> None:
        """`needed` are by job id the builds that it needs, see `sequence.builds`."""
        self._needed = needed
        self._builders: dict[str, str] = {}

    def needed_by(self, job: Job) -> Set[str]:
        """The builds that a job needs, those that are there by now included."""
        return self._needed.get(job.id, frozenset())

    def is_being_built(self, job: Job, running: Iterable[Job]) -> bool:
        """Whether one of the jobs that run builds what this one would have to build."""
        lacking = self.needed_by(job) - self._builders.keys()
        return bool(lacking) and any(lacking & self.needed_by(other) for other in running)

    def end(self, job: Job) -> None:
        """A job ended, and what it needs is built.

        If it is not built now, each of the others says itself what keeps it from being built.
        """
        for build in self.needed_by(job):
            self._builders.setdefault(build, job.id)

    def waited(self) -> Mapping[str, Set[str]]:
        """By id of each job that built something, the ids of those that waited for it."""
        built: dict[str, set[str]] = {}
        for build, builder in self._builders.items():
            built.setdefault(builder, set()).add(build)
        return {
            builder: {job for job, each in self._needed.items() if each & builds and job != builder}
            for builder, builds in built.items()
        }
