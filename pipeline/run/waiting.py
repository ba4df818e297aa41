"""Locks of devices that other processes hold: who holds one, and what a run says while it waits for it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil

_FIRST, _AGAIN = 1.0, 60.0
"""After how many seconds a run says that it waits, and says it again."""

_COMMAND = 80
_UNSEEN = "a process that cannot be seen from here (of another user, container or host)"


class LockWaits:
    """The locks that a run waits for because other processes hold them, and since when.

    Args:
        holder: who holds a lock, by its name.
        now: the time of day.
        clock: seconds.
    """

    def __init__(
        self,
        holder: Callable[[str], str],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._holder, self._now, self._clock = holder, now, clock
        self._since: dict[str, tuple[float, datetime]] = {}
        self._told: dict[str, float] = {}

    def observe(self, names: Iterable[str]) -> str:
        """Take the locks that jobs wait for now; gives a remark if one is due, else nothing."""
        at, now = self._clock(), self._now()
        self._since = {name: self._since.get(name, (at, now)) for name in names}
        self._told = {name: told for name, told in self._told.items() if name in self._since}
        long = [name for name, (begun, _) in self._since.items() if at - begun >= _FIRST]
        if all(at - self._told.get(name, -math.inf) < _AGAIN for name in long):
            return ""
        self._told |= dict.fromkeys(long, at)
        return self.reason(long)

    def reason(self, names: Iterable[str]) -> str:
        """Since when the run waits for those of the locks that others hold, and who; empty if for none."""
        waited = [name for name in names if name in self._since]
        if not waited:
            return ""
        since = min(self._since[name] for name in waited)[1]
        holders = {name: self._holder(name) for name in waited}
        who = "; ".join(f"{name} held by {one}" for name, one in holders.items())
        if len(set(holders.values())) == 1:
            who = f"held by {holders[waited[0]]}"
        return f"waiting for device {', '.join(waited)} since {since:%H:%M:%S %Z}: {who}"


def holder_of(path: Path) -> str:
    """The process that holds the `flock` of a file, in words."""
    return next(filter(None, map(_describe, _holders(path))), _UNSEEN)


def _holders(path: Path) -> Iterator[psutil.Process]:
    """The process that the kernel names; if it has ended or none is named, those that have the file open.

    A process that locks a file and ends can leave the lock to one that it started.
    """
    with suppress(OSError, ValueError, psutil.NoSuchProcess):
        status = path.stat()
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()  # 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END
            if fields[1:2] == ["FLOCK"] and fields[5] == place:
                yield psutil.Process(int(fields[4]))
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if any(file.path == str(path) for file in process.open_files()):
                yield process


def _describe(process: psutil.Process) -> str:
    """Id, user and command of a process; only its id if we may know no more, nothing if it has ended."""
    try:
        with process.oneshot():
            command = " ".join(" ".join(process.cmdline()).split()) or process.name()
            shown = command if len(command) <= _COMMAND else f"{command[:_COMMAND]}..."
            return f"process {process.pid} of user {process.username()} ({shown})"
    except psutil.NoSuchProcess:
        return ""
    except psutil.Error:
        return f"process {process.pid}"
