"""What a run asks of the runs before it, and the answers of their folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from golden.errors import UserError
from pipeline.ground.files import is_there
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import FINGERPRINT, Result
from pipeline.report.text import one_line
from pipeline.results.excuses import Outputs, outputs_of
from pipeline.run.folders import RunFolderError, read_run, run_ids
from pipeline.run.journal import JournalError, Record

DEPTH = 30
"""How many earlier runs are looked at."""

FILE = "history.sqlite"
"""The database in the folder of runs and goldens, if no other is named."""

VARIABLE = "PIPELINE_HISTORY"
"""The environment variable with the URL of another database. (A command line would show its password.)"""

OFF = "off"
"""What `VARIABLE` says where runs are to be in no database: their folders answer."""

_SQLITE_FILE = re.compile(r"sqlite:///((?!:memory:|file:)[^?]+)")

MEASURED = (State.PASSED, State.MISMATCH)
"""States of jobs that took as long as they usually do."""

_LATEST = 10


def place(output: Path, environment: Mapping[str, str]) -> str | Path:
    """Where the history is: the URL or file of `VARIABLE`, else a file in the folder of runs and goldens.

    What is wrong with a URL is said by who opens it.
    """
    named = environment.get(VARIABLE, "")
    if named in ("", OFF):
        return output.absolute() / FILE
    file = _SQLITE_FILE.fullmatch(named)
    return Path(file[1]) if file and named.isprintable() else named


def may_exist(place: str | Path) -> bool:
    """Whether a history may be at `place`: False if that is a file that is not there, or cannot be seen."""
    return not isinstance(place, Path) or is_there(place)


class HistoryError(UserError):
    """The history cannot be used, or has no answer; one line: what, where, remedy."""


def legible(name: str) -> str:
    """A name as a user wrote it, with escapes for bytes that are no text: no database takes those."""
    return name.encode(errors="backslashreplace").decode()


class ContentError(HistoryError):
    """A run says what no history can hold, such as a number that is too large; other runs can be written."""


def state_of(text: str) -> State:
    """The state that a database names. Raises `HistoryError` if this pipeline does not know it."""
    try:
        return State(text)
    except ValueError:
        what = f"it has the state {one_line(text)!r}, which this pipeline does not know"
        raise HistoryError(f"history: {what}: update this checkout, or name another") from None


@dataclass(frozen=True)
class End:
    """How a job ended in an earlier run.

    The fingerprint is empty if it did not fail, and so are the outputs; `entry` is if no entry of the matrix
    expected it to fail, and `excused` says whether the entry applied. `here` says whether the run was one of
    this host. `compared` is that of the run's `Settings`.
    """

    state: State
    fingerprint: str
    entry: tuple[str, ...]
    excused: bool
    outputs: Outputs
    backends: tuple[str, ...]
    compared: tuple[object, ...]
    here: bool = True


@dataclass(frozen=True)
class Measured:
    """What a job took: seconds, and `Result.peak_memory`."""

    seconds: float
    peak_memory: int


class Past(Protocol):
    """The runs that had begun when this object was made, but for the run that is being resumed, if any."""

    def ends(self, job: str) -> Iterable[tuple[str, End]]:
        """The ids of runs that have a result of a job, the last first, and how it ended there."""

    def measured(self) -> Mapping[str, Measured]:
        """By id, what each job took when it was last measured."""


@dataclass
class Folders:
    """The past as the folders of runs in `root` tell it. A journal is read when an answer depends on it."""

    root: Path
    current: str = ""
    _read: dict[str, Mapping[str, End]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ids = [run_id for run_id in run_ids(self.root) if run_id != self.current]

    def ends(self, job: str) -> Iterator[tuple[str, End]]:
        """See `Past`. At most the `DEPTH` last runs are looked at."""
        for run_id in self._ids[: -DEPTH - 1 : -1]:
            if job in self._run(run_id):
                yield run_id, self._run(run_id)[job]

    def measured(self) -> dict[str, Measured]:
        """See `Past`."""
        found: dict[str, Measured] = {}
        for run_id in self._ids[-_LATEST:]:
            try:
                results = read_run(self.root, run_id).results
            except (RunFolderError, JournalError):
                continue  # a run that was killed before it began has no durations to give
            found |= {
                job: Measured(result.seconds, result.peak_memory)
                for job, result in results.items()
                if result.state in MEASURED
            }
        return found

    @property
    def ids(self) -> Sequence[str]:
        """Ids of the runs, oldest first."""
        return self._ids

    def _run(self, run_id: str) -> Mapping[str, End]:
        if run_id not in self._read:
            self._read[run_id] = ends_of_folder(self.root, run_id)
        return self._read[run_id]


def ends_of_folder(root: Path, run_id: str) -> Mapping[str, End]:
    """How the jobs of a run ended, as its folder says; empty if it was pruned, or killed before it began."""
    try:
        record = read_run(root, run_id)
    except (RunFolderError, JournalError):
        return {}
    return _ends_of(record)


def _ends_of(record: Record) -> Mapping[str, End]:
    """How the jobs of a run ended; the rest of their results is not kept, because it is large."""
    compared = record.settings.compared
    return {
        job: End(
            one.state,
            one.facts.get(FINGERPRINT, ""),
            entry_of(one),
            one.state is State.EXPECTED_FAILURE,
            outputs_of(one.stages) if FINGERPRINT in one.facts else {},
            backends_of(one.job),
            compared,
        )
        for job, one in record.results.items()
    }


def entry_of(result: Result) -> tuple[str, ...]:
    """What identifies the entry that expects a job to fail; empty if there is none."""
    known = result.job.expected_failure
    return (known.reason, known.link, known.fingerprint or "") if known else ()


def backends_of(job: Job) -> tuple[str, ...]:
    """The backends that a job runs on."""
    return tuple(platform.backend for platform in job.platforms)
