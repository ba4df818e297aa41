"""Run folders, one per run and named by its id: create, find, reopen and prune them."""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock, Timeout

from golden.errors import UserError
from pipeline.ground.files import check_folder
from pipeline.ground.flock import require_flock
from pipeline.ground.jobs import Job
from pipeline.ground.results import OUTCOMES, Outcome
from pipeline.run.journal import Record, read_journal

_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{10}")
JOURNAL = "journal.jsonl"
"""The name of the journal in the folder of a run."""

LONGEST_NAME = 240
"""File systems take 255 bytes, an ending included."""


class RunFolderError(UserError):
    """A run folder cannot be used; the message is one line: what, where, remedy."""


def name_of_job(job_id: str) -> str:
    """What a job's files are named by: its id with `+` for `/`, so that folders are not nested.

    Of an id that is too long for the name of a file, it is the beginning and a hash.
    """
    name = quote(job_id, safe="@/").replace("/", "+")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class RunFolder:
    """A run's folder, held by this process until `close`."""

    run_id: str
    path: Path
    _lock: FileLock

    @property
    def journal(self) -> Path:
        """Path of the run's journal."""
        return self.path / JOURNAL

    def job_folder(self, job: Job) -> Path:
        """Folder of a job's artefacts; see `name_of_job`."""
        return Path(self.path, "jobs", name_of_job(job.id))

    def close(self) -> None:
        """Let others resume or prune the run."""
        self._lock.release()


def check_root(root: Path) -> None:
    """Check that runs can be kept under `root`, before anything is done for one. Nothing is made.

    Raises:
        RunFolderError: they cannot.
    """
    try:
        check_folder(root)
    except OSError as error:
        raise RunFolderError(f"runs in {root}: {error.strerror}; name another --output") from error


def create_run(root: Path, now: datetime) -> RunFolder:
    """Create the folder of a new run under `root`.

    The id is the time in UTC, then the fraction of the second in four hexadecimal digits (so that ids sort
    by time), then six random hexadecimal digits (so that ids are unique).

    Raises:
        RunFolderError: the folder cannot be created.
    """
    fraction = now.microsecond * 16**4 // 10**6
    run_id = f"{now:%Y%m%d-%H%M%S}-{fraction:04x}{secrets.token_hex(3)}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        require_flock(root)  # before there is a folder that would be taken for a run
        (root / run_id).mkdir()
    except OSError as error:
        raise RunFolderError(
            f"run folder {root / run_id}: {error.strerror}; name another --output"
        ) from error
    return _hold(root, run_id)


def reopen_run(root: Path, run_id: str) -> tuple[RunFolder, Record]:
    """Hold the folder of an earlier run and read its journal.

    Raises:
        RunFolderError: there is no such run, or it is still being written.
        JournalError: its journal cannot be used.
    """
    folder = _hold(root, find_run(root, run_id))
    try:
        return folder, read_journal(folder.journal)
    except BaseException:
        folder.close()
        raise


def read_run(root: Path, name: str) -> Record:
    """Read an earlier run, or one that is still being written, named by its id or by `last`.

    Raises:
        RunFolderError: there is no such run.
        JournalError: its journal cannot be used.
    """
    return read_journal(root / find_run(root, name) / JOURNAL)


def began_at_all(folder: Path) -> bool:
    """Whether the journal in a run's folder has its first line, which a full disk may have kept out."""
    try:
        return (folder / JOURNAL).stat().st_size > 0
    except OSError:
        return False


def failed_jobs(record: Record) -> tuple[Job, ...]:
    """Jobs of a run that failed, were not judged, or never ended."""
    bad = (Outcome.FAILURE, Outcome.ERROR)
    return tuple(one.job for one in record.all_results() if OUTCOMES[one.state].outcome in bad)


def run_ids(root: Path) -> tuple[str, ...]:
    """Ids of the runs under `root`, oldest first; empty if there is no such folder.

    Raises:
        RunFolderError: the folder cannot be listed.
    """
    try:
        if not root.is_dir():
            return ()
        return tuple(sorted(path.name for path in root.iterdir() if is_run_id(path.name) and path.is_dir()))
    except OSError as error:
        raise RunFolderError(f"runs in {root}: {error.strerror}; name another --output") from error


def is_run_id(name: str) -> bool:
    """Whether a text is the id of a run."""
    try:
        return bool(began(name))
    except ValueError:
        return False


def began(run_id: str) -> datetime:
    """When a run began, to the second. Raises `ValueError` if the text is no id of a run."""
    if not _ID.fullmatch(run_id):
        raise ValueError(f"{run_id!r} is no id of a run")
    return datetime.strptime(run_id[:15], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc)


def prune_runs(root: Path, *, spared: str, keep: int, max_age: timedelta, now: datetime) -> tuple[str, ...]:
    """Remove runs that are older than `max_age` or not among the `keep` youngest.

    The youngest run and `spared` are kept, and so are runs that are being written or that cannot be removed
    (another user's). Returns the ids removed.
    """
    removed = []
    ids = run_ids(root)
    for position, run_id in enumerate(reversed(ids)):
        if position == 0 or run_id == spared or (position < keep and now - began(run_id) <= max_age):
            continue
        with suppress(RunFolderError, OSError), closing(_hold(root, run_id)) as held:
            shutil.rmtree(held.path)
            removed.append(run_id)
    return tuple(reversed(removed))


def find_run(root: Path, name: str) -> str:
    """The id of the run that a user names by its id or by `last`.

    Raises:
        RunFolderError: there is no such run.
    """
    ids = run_ids(root)
    if name == "last" and not ids:
        raise RunFolderError(f"{root}: there is no run yet; begin one, or name another --output")
    run_id = ids[-1] if name == "last" else name
    if run_id not in ids:
        latest = f"the latest are: {', '.join(ids[-3:])}" if ids else "there is none; name another --output"
        raise RunFolderError(f"no run {run_id!r} in {root}; {latest}")
    return run_id


def _hold(root: Path, run_id: str) -> RunFolder:
    lock = FileLock(root / run_id / "run.lock", thread_local=False)
    try:
        require_flock(root)
        lock.acquire(timeout=0)
    except Timeout:
        what = "is being written by another process"
        raise RunFolderError(f"run {run_id} in {root} {what}: wait until it has ended") from None
    except OSError as error:
        raise RunFolderError(
            f"run folder {root / run_id}: {error.strerror}; name another --output"
        ) from error
    return RunFolder(run_id, root / run_id, lock)
