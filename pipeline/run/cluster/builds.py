"""What each node builds once for all its later jobs, and which process builds it: the others wait for it."""

from __future__ import annotations

from collections.abc import Mapping, Set

from pipeline.ground.jobs import Job
from pipeline.run.sequence import lacked_by


class Builds:
    """The builds that nodes lack, and those that go on. Nodes have keys, and processes numbers."""

    def __init__(self) -> None:
        self._lacks: dict[str, dict[str, str]] = {}
        self._builders: dict[tuple[str, str], int] = {}

    def know(self, node: str, lacks: Mapping[str, str]) -> None:
        """A node lacks these builds: by backend, what the first of its jobs there builds."""
        self._lacks[node] = dict(lacks)

    def lose(self, node: str) -> None:
        """A node is gone, or a new steward begins there."""
        self._lacks.pop(node, None)
        self._builders = {build: number for build, number in self._builders.items() if build[0] != node}

    def hinder(self, job: Job) -> Set[str]:
        """The nodes where a job would have to wait until another one has built what it lacks."""
        return {node for node, build in self._builders if build in self._lacking(node, job)}

    def begin(self, number: int, node: str, job: Job) -> None:
        """A process begins on a node: it builds what is lacking there."""
        for build in self._lacking(node, job):
            self._builders.setdefault((node, build), number)

    def end(self, number: int, *, began: bool) -> None:
        """A process ended; what it had to build is there now, if it began at all.

        If it could not be built, each of the others says itself what keeps it from being built.
        """
        for node, build in [key for key, builder in self._builders.items() if builder == number]:
            del self._builders[node, build]
            if began:
                lacks = self._lacks[node]
                self._lacks[node] = {backend: what for backend, what in lacks.items() if what != build}

    def _lacking(self, node: str, job: Job) -> Set[str]:
        return lacked_by(job, self._lacks.get(node, {}))
