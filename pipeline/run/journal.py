"""The journal of a run: one line of JSON per event, so that a killed run keeps its finished jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from golden.errors import UserError
from pipeline.ground.files import read_file
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Result
from pipeline.ground.settings import Settings
from pipeline.ground.words import counted
from pipeline.run.artefacts import without_artefacts
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.messages import encode, encoded_in_parts


class JournalError(UserError):
    """A journal cannot be used; the message is one line: file, line number, what is wrong."""


class Begun(msgspec.Struct, frozen=True, tag=True):
    """First line: the run, its whole plan, its settings, and digests of its sources by name."""

    run_id: str
    started: str
    plan: tuple[Job, ...]
    facts: Mapping[str, str]
    settings: Settings
    sources: Mapping[str, str] = {}


class Resumed(msgspec.Struct, frozen=True, tag=True):
    """The run was resumed; `facts`, `settings` and `sources` are those that apply from now on.

    If the sources are other ones, the results before this line count no longer.
    """

    started: str
    facts: Mapping[str, str]
    settings: Settings
    sources: Mapping[str, str] = {}


class Started(msgspec.Struct, frozen=True, tag=True):
    """A process was started for a job."""

    job: str
    device: int | None
    attempt: int


class Remark(msgspec.Struct, frozen=True, tag=True):
    """A line for people."""

    text: str


class Finished(msgspec.Struct, frozen=True, tag=True):
    """A job ended."""

    result: Result


class Closed(msgspec.Struct, frozen=True, tag=True):
    """The run ended in an orderly way. `dropped` are jobs whose artefacts exceeded the limit.

    `set_aside`, `undecided` and `at_best` are those of the `RunSummary`.
    """

    exit_code: int
    seconds: float
    dropped: tuple[str, ...]
    set_aside: Mapping[str, str] = {}
    undecided: Mapping[str, str] = {}
    at_best: float = 0.0


_SYNC_INTERVAL = 0.5
_FINISHED = msgspec.json.Decoder(Finished)
_LINES = msgspec.json.Decoder(Begun | Resumed | Started | Remark | Finished | Closed)


class Journal:
    """A listener that writes the journal, one line per event.

    Each line is handed to the operating system at once, so that a killed runner loses none. The start and the
    end of the run and results are also synced to the disk, in case the machine crashes. Results are synced at
    most every half second, because a sync takes as long as a tiny job. What cannot be written (a full disk)
    raises `JournalError`.

    It gives results back, so that a run need not keep those of thousands of jobs in memory.
    """

    def __init__(self, path: Path) -> None:
        """Append to `path`, after removing a torn last line."""
        self._path = path
        self._synced = -_SYNC_INTERVAL
        self._file = path.open("ab")
        self._starts: dict[str, int] = {}
        self._unwritten: dict[str, Result] = {}
        self._reader: BinaryIO | None = path.open("rb")
        if self._file.tell():
            whole = path.read_bytes().rfind(b"\n") + 1
            self._file.truncate(whole)

    def run_started(self, run: RunInfo) -> None:
        """See `Listener`."""
        if run.resumed:
            self._append(Resumed(run.started, run.facts, run.settings, run.sources))
        else:
            begun = Begun(run.run_id, run.started, run.plan, run.facts, run.settings, run.sources)
            self._write(encoded_in_parts(begun, "plan"))
        self._sync()

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        """See `Listener`."""
        self._append(Started(job.id, device, attempt))

    def remark(self, text: str) -> None:
        """See `Listener`."""
        self._append(Remark(text))

    def job_finished(self, result: Result) -> None:
        """See `Listener`."""
        job, start = result.job.id, self._file.tell()
        self._unwritten[job] = result
        self._append(Finished(result))
        self._starts[job] = start
        del self._unwritten[job]
        if time.monotonic() - self._synced >= _SYNC_INTERVAL:
            self._sync()

    def run_finished(self, summary: RunSummary) -> None:
        """See `Listener`. Raises `JournalError` also if the journal is no longer there: it is lost."""
        closed = Closed(
            summary.exit_code,
            summary.seconds,
            summary.dropped,
            summary.set_aside,
            summary.undecided,
            summary.at_best,
        )
        with self._named_errors(), self._file:  # closed also if the disk is full
            self._append(closed)
            self._sync()
            written = os.fstat(self._file.fileno())
        still_there = self._path.exists() and os.path.samestat(self._path.stat(), written)
        if not still_there:
            raise JournalError(f"{self._path}: was removed while it was being written; begin a new run")

    def has(self, job: Job) -> bool:
        """Whether a job has ended since this journal was opened."""
        return job.id in self._starts or job.id in self._unwritten

    def result(self, job: Job) -> Result:
        """The result of a job that has ended since then.

        Raises:
            JournalError: somebody else has changed the file.
        """
        if unwritten := self._unwritten.get(job.id):
            return unwritten
        try:
            # While the run goes on, the file may be removed, and the reports must be written none the less.
            with nullcontext(self._reader) if self._reader is not None else self._path.open("rb") as file:
                file.seek(self._starts[job.id])
                result = _FINISHED.decode(file.readline()).result
        except (OSError, msgspec.DecodeError, ValueError) as error:
            remedy = "begin a new run, and let nothing else write there"
            raise JournalError(f"{self._path}: was changed while the run used it; {remedy}") from error
        return replace(result, job=job)

    def close(self) -> None:
        """Keep the file open no longer. Results can still be asked for."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _append(self, event: msgspec.Struct) -> None:
        self._write((encode(event),))

    def _write(self, line: Iterable[bytes]) -> None:
        with self._named_errors():
            self._file.writelines(line)
            self._file.write(b"\n")
            self._file.flush()

    def _sync(self) -> None:
        with self._named_errors():
            os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            remedy = "make room there or name another --output, then begin a new run"
            raise JournalError(f"{self._path}: cannot be written: {error.strerror}; {remedy}") from error


@dataclass(frozen=True)
class Record:
    """What a journal says about a run.

    `results` has the last result of each job that ended; `notes` are remarks for people. `started` is when it
    began or was last resumed, `settings` are those that applied last, `sources` those that all results are
    of. `exit_code` is None if the run did not end in an orderly way, and so are its `seconds`; `set_aside`
    and `undecided` are then empty. `at_best` is 0 if it is not known.
    """

    run_id: str
    started: str
    plan: tuple[Job, ...]
    facts: Mapping[str, str]
    settings: Settings
    sources: Mapping[str, str]
    results: Mapping[str, Result]
    exit_code: int | None
    notes: tuple[str, ...]
    set_aside: Mapping[str, str] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    at_best: float = 0.0

    @property
    def finished(self) -> Mapping[str, Result]:
        """Results that a resumed run keeps: those of jobs that were not interrupted."""
        return {job: one for job, one in self.results.items() if one.state is not State.INTERRUPTED}

    def all_results(self) -> tuple[Result, ...]:
        """One result per job, in plan order; a job without a result was interrupted."""
        return tuple(self.results.get(job.id) or lost_result(job) for job in self.plan)


def lost_result(job: Job) -> Result:
    """The result of a job that has none because its run ended first."""
    return Result(job, State.INTERRUPTED, "the run ended before this job did")


def read_journal(path: Path) -> Record:
    """Read a journal, also one whose last line is incomplete because its run was killed.

    Raises:
        JournalError: it is missing, empty, or damaged in another line.
    """
    try:
        *lines, torn = read_file(path).split(b"\n")
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}; name another run") from error
    begun: Begun | None = None
    started = ""
    facts: Mapping[str, str] = {}
    settings = Settings()
    sources: Mapping[str, str] = {}
    results: dict[str, Result] = {}
    closed: Closed | None = None
    for number, line in enumerate(lines, 1):
        try:
            event = _LINES.decode(line)
        except (msgspec.DecodeError, ValueError) as error:
            remedy = "it is of another version, or was changed; begin a new run"
            raise JournalError(f"{path}:{number}: damaged line: {error}; {remedy}") from error
        if isinstance(event, Begun):
            begun = event
        if isinstance(event, Begun | Resumed):
            if event.sources != sources:
                results.clear()
            started, facts = event.started, event.facts
            settings, sources = event.settings, event.sources
        elif isinstance(event, Finished):
            results[event.result.job.id] = event.result
        elif isinstance(event, Closed):
            for job in event.dropped:
                if job in results:  # its line was lost on a full disk
                    results[job] = without_artefacts(results[job])
        closed = event if isinstance(event, Closed) else None
    if begun is None:
        raise JournalError(
            f"{path}: holds no run: it ended before its first line was written, killed or on a full disk; "
            "begin a new run"
        )
    size = counted(len(torn), "byte")
    notes = (f"{path}: the last line was torn ({size}) and is left out",) if torn else ()
    record = Record(begun.run_id, started, begun.plan, facts, settings, sources, results, None, notes)
    if closed is None:
        return record
    return replace(
        record,
        exit_code=closed.exit_code,
        set_aside=closed.set_aside,
        undecided=closed.undecided,
        seconds=closed.seconds,
        at_best=closed.at_best,
    )
