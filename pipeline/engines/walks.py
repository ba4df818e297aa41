"""Walks of the emulator on disk: a kernel is read and walked once for all its profiles, and for later runs.

An entry is one file: a digest, then the bytes of `emulator.kept`. Its name is a hash of everything that
determines the walk, the sources of kernels, plans and emulator among it, so it can be old but never stale.
What is refused is not kept, so each job finds out for itself. The folder may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import psutil

import emulator
import golden
import kernels
import pipeline.ground
import workloads
from emulator import kept
from emulator.program import Program
from golden import entries
from pipeline.engines.cache import user_cache
from pipeline.ground.subject import Subject
from workloads.registry import SHIPPED, workload_named

_ROOMS = (emulator, golden, kernels, workloads, pipeline.ground)
_MOST_BYTES = 256 * 2**20
_LONGEST_UNUSED = timedelta(days=30)
_SUFFIX = ".walk"
_BIRTH = 2.0
"""Seconds by which it may be wrong when a process began."""

_State = tuple[tuple[str, int, int, int, int], ...]
"""Path, size, inode, and times of change (ns) of files: others if one of them is written."""


def rooms() -> tuple[Path, ...]:
    """The folders of everything that determines a walk, as they are imported here."""
    return tuple(Path(folder) for room in _ROOMS for folder in room.__path__)


@dataclass(frozen=True, eq=False)
class Walks:
    """The walks in a folder, for the sources that this process has imported and read.

    Any number of processes may use one folder. If it cannot be used, or an entry is damaged or another
    user's, there is no walk: the program is read and walked.
    """

    folder: Path
    sources: tuple[Path, ...]
    digest: str
    state: _State
    _known: dict[tuple[Subject, str], Program] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, sources: tuple[Path, ...], born: float) -> Walks | None:
        """The walks of these sources, folders; None if one has changed since the process began at `born`.

        It may then have imported or read what was there before, or a part of it.
        """
        before = _state(sources)
        digest = hashlib.sha256(f"{sys.version}\0".encode())
        for path, *_ in before:
            digest.update(f"{path}\0".encode() + hashlib.sha256(Path(path).read_bytes()).digest())
        newest = max((changed for *_, changed in before), default=0) / 1e9
        if newest > born - _BIRTH or _state(sources) != before:
            return None
        return cls(folder, sources, digest.hexdigest(), before)

    def find(self, subject: Subject, name: str) -> Program | None:
        """A program whose walk is kept, read if it is not known yet."""
        if (subject, name) in self._known:
            return self._known[subject, name]
        if not self._shared(subject):
            return None
        path = self._path(subject, name)
        try:
            found = kept.unpacked(entries.payload_of(path.name, _own(path)))
        except (OSError, ValueError, entries.CorruptEntryError):
            return None
        entries.use(path)
        self._known[subject, name] = found
        return found

    def keep(self, subject: Subject, name: str, program: Program) -> None:
        """Keep the walk of a program that was read for a subject, if it is not kept."""
        if (subject, name) in self._known or not self._shared(subject):
            return
        self._known[subject, name] = program
        path = self._path(subject, name)
        payload = kept.packed(program, subject.soc)
        with suppress(OSError):  # a full or read-only disk: the next job walks again
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            now = datetime.now(timezone.utc)
            entries.prune(self.folder, {_SUFFIX: _MOST_BYTES}, max_age=_LONGEST_UNUSED, now=now)
            entries.write(path, entries.sealed(path.name, payload))

    def _shared(self, subject: Subject) -> bool:
        """Whether the sources alone say what the subject's programs are, and are what they were.

        A user's workload may read what it likes.
        """
        workload = subject.workload
        if workload.name not in SHIPPED or workload_named(workload.name) is not workload:
            return False
        try:
            return _state(self.sources) == self.state
        except OSError:  # they are being changed
            return False

    def _path(self, subject: Subject, name: str) -> Path:
        options = sorted(subject.plan_options.items())
        shapes = msgspec.json.encode(subject.geometry).decode()
        determined = [self.digest, subject.workload.name, shapes, subject.soc, options, name]
        return self.folder / f"{hashlib.sha256(msgspec.json.encode(determined)).hexdigest()}{_SUFFIX}"


_ours: list[Walks] = []


def share_walks() -> None:
    """Let this process and those that it forks share walks: to be called once all kernels are read."""
    folder = user_cache("emulator")
    with suppress(OSError):  # the sources cannot be read
        found = Walks.of(folder, rooms(), psutil.Process().create_time()) if folder is not None else None
        _ours[:] = [found] if found is not None else []


def shared() -> Walks | None:
    """The walks that this process shares with others; None if it does not."""
    return _ours[0] if _ours else None


def _state(folders: tuple[Path, ...]) -> _State:
    return tuple(sorted(entry for folder in folders for entry in _files(str(folder))))


def _files(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            else:
                found = entry.stat()
                yield entry.path, found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _own(path: Path) -> bytes:
    """The bytes of a file that only this user can have written. Raises `OSError` if there is none."""
    if not path.is_file():  # a pipe that somebody has put there would be waited for
        raise FileNotFoundError(f"{path} is no file")
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{path} can be another user's")
        return file.read()
