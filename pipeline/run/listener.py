"""The interface of everything that watches a run: terminal, journal, report, history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from golden.errors import UserError
from pipeline.ground.jobs import Job
from pipeline.ground.results import Result
from pipeline.ground.settings import Settings


@dataclass(frozen=True)
class RunInfo:
    """What is known when a run starts.

    `plan` holds every job, whether it will be executed or skipped. `facts` are the caller's (git sha,
    versions, host). `notes` are one-line remarks for people, such as a lock folder on NFS. `resumed` is True
    if the run was begun earlier; `kept` are ids of the jobs that had ended then. `settings` and `sources`
    (digests of what verdicts depend on, by name) are those that apply from now on.
    """

    run_id: str
    folder: Path
    plan: tuple[Job, ...]
    started: str
    workers: int
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    resumed: bool = False
    settings: Settings = field(default_factory=Settings)
    sources: Mapping[str, str] = field(default_factory=dict)
    kept: Set[str] = frozenset()


@dataclass(frozen=True)
class RunSummary:
    """How a run ended. `results`, one per job in plan order, name only the artefacts that were kept.

    The results of a run are read from its journal when they are asked for: go through them once for all that
    you want to know, and keep few.

    `set_aside` says why the run stopped using devices, by the names of their locks (`npu-0`); `undecided`
    names devices on which all jobs failed and that could not be told from the kernels.
    `dropped` are ids of jobs whose artefacts exceeded the limit. `problems` are faults of the pipeline
    itself; any of them makes `exit_code` 3. `at_best` is how many of the `seconds` no order of the jobs could
    have saved (`pipeline.run.sequence`), 0 if it is not known.
    """

    run_id: str
    folder: Path
    results: Sequence[Result]
    exit_code: int
    seconds: float
    set_aside: Mapping[str, str] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    at_best: float = 0.0


class Listener(Protocol):
    """Watches one run. All calls come from one thread, in the order below, and must return soon.

    A resumed run repeats `job_finished` for the jobs that had ended before, so that a listener always
    sees exactly one such call for each job of the plan.
    """

    def run_started(self, run: RunInfo) -> None:
        """Called once, first."""

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        """Called each time a process is started for a job, also for retries and repeats."""

    def remark(self, text: str) -> None:
        """Called at any time of the run: one line for people, such as what the run waits for."""

    def job_finished(self, result: Result) -> None:
        """Called once for each job of the plan, also if it was skipped or interrupted."""

    def run_finished(self, summary: RunSummary) -> None:
        """Called once, last, also if the run was interrupted."""


class Broadcast:
    """Passes events on to listeners; one that fails is named in `problems` and does not stop the others."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners
        self._kept: list[Callable[[Listener], None]] | None = None
        self.problems: list[str] = []

    def remark(self, text: str) -> None:
        """Tell each listener a remark."""
        self.tell(lambda listener: listener.remark(text))

    @contextmanager
    def afterwards(self) -> Iterator[None]:
        """While entered, events are kept; on leaving they are passed on, in their order."""
        kept = self._kept = []
        try:
            yield
        finally:
            self._kept = None
            for event in kept:
                self.tell(event)

    def tell(self, event: Callable[[Listener], None]) -> None:
        """Call `event` for each listener, in order."""
        if self._kept is not None:
            self._kept.append(event)
            return
        for listener in self._listeners:
            try:
                event(listener)
            except Exception as error:
                problem = f"{type(listener).__name__} failed: {type(error).__name__}: {error}"
                if isinstance(error, UserError):  # it says itself what failed
                    problem = str(error)
                if problem not in self.problems:  # a full disk causes the same error at every event
                    self.problems.append(problem)
