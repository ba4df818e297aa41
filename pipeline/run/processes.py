"""How a job's process tree is marked, found and ended, and how many threads it may use.

A tree is ended even if its processes try to leave it. Three methods are combined, because each misses some
processes:

- the keeper of a job is a **subreaper**: an orphan, even one that called `setsid` or forked twice, becomes
  the keeper's child instead of init's, so that `waitpid` knows exactly whether anything is left (Linux);
- every process of a job carries a **mark in its environment**, which remains when the keeper and the run have
  ended, so that a later run finds what a killed run left (Linux, processes of the same user);
- before the leader is killed its descendants are listed with **psutil**, while the tree still shows them.
"""

from __future__ import annotations

import ctypes
import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

import psutil
from threadpoolctl import threadpool_limits

from pipeline.ground.threads import thread_limits

MARK = "PIPELINE_JOB"
"""Environment variable that every process of a job carries."""

SUPPORTED = sys.platform == "linux"
"""If False, processes that leave their job's tree are not found once their parent has ended."""

_MARK_WIDTH = 128
BLANK_MARK = "_" * _MARK_WIDTH
"""The value of `MARK` with which the nursery is started: space that `set_mark` overwrites."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL = 0.01


LIBC = ctypes.CDLL(None, use_errno=True)
"""The C library. It is loaded once, since each call of `CDLL` makes classes, which is much for a tiny job."""


def _prctl(option: int, value: int) -> None:
    if SUPPORTED and LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def become_subreaper() -> None:
    """Adopt orphaned descendants from now on. Raises `OSError` if the kernel refuses."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def set_mark(mark: str) -> None:
    """Mark this process and all processes that it will start.

    Programs that it executes inherit the variable. After a fork without exec, however, `/proc/PID/environ`
    still shows the memory block with which its last executed ancestor was started, so that block is
    overwritten in place.

    Raises:
        ValueError: `mark` is too long.
        RuntimeError: this process was not started with `BLANK_MARK` in its environment.
    """
    if len(mark) > _MARK_WIDTH:
        raise ValueError(f"mark of {len(mark)} characters: at most {_MARK_WIDTH}")
    padded = mark.ljust(_MARK_WIDTH, "_")
    os.environ[MARK] = padded
    if SUPPORTED:
        ctypes.memmove(find_mark(), padded.encode(), _MARK_WIDTH)


@cache
def find_mark() -> int:
    """Where the mark is in memory (Linux); the same in all processes forked from one that has asked.

    Raises:
        RuntimeError: this process was not started with `BLANK_MARK` in its environment.
    """
    at = Path("/proc/self/environ").read_bytes().find(f"{MARK}=_".encode())
    if at < 0:
        raise RuntimeError(f"started without {MARK}={BLANK_MARK}")
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    env_start = int(after_name[47])  # field 50 of proc_pid_stat(5); the first two are before ")"
    return env_start + at + len(MARK) + 1


def marked(fragment: str) -> list[psutil.Process]:
    """Living processes other than this one whose mark contains `fragment`. Empty if this is not Linux."""
    found = []
    for pid in psutil.pids() if SUPPORTED else ():
        with suppress(OSError, psutil.NoSuchProcess), io.FileIO(f"/proc/{pid}/environ") as file:
            block = file.readall()
            at = block.find(f"{MARK}=".encode())
            if at >= 0 and fragment.encode() in block[at : at + len(MARK) + 1 + _MARK_WIDTH]:
                found.append(psutil.Process(pid))
    return [process for process in found if process.pid != os.getpid()]


def describe(process: psutil.Process) -> str:
    """One line about a process: id, state and command."""
    try:
        with process.oneshot():
            command = " ".join(process.cmdline()) or process.name()
            return f"pid {process.pid} ({process.status()}): {command[:200]}"
    except psutil.Error:
        return f"pid {process.pid} (gone)"


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Signal each process that still exists and that we may signal."""
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll `condition` for at most `seconds`; return its last value."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL)
    return True


def kill(find: Callable[[], list[psutil.Process]], seen: dict[int, str], patience: float) -> list[str]:
    """Kill every process that `find` finds, and repeat this until it finds none.

    Each process found is described in `seen`, by its id. Returns the descriptions of those still alive after
    `patience` seconds.
    """
    alive: list[psutil.Process] = []

    def none_left() -> bool:
        alive[:] = find()
        seen.update((process.pid, describe(process)) for process in alive if process.pid not in seen)
        send(alive, signal.SIGKILL)
        return not alive

    wait_until(none_left, patience)
    return [describe(process) for process in alive]


def kill_marked(fragment: str, patience: float) -> tuple[list[str], list[str]]:
    """Kill every process whose mark contains `fragment`. See `kill`.

    Returns:
        Descriptions of those found, and of those still alive after `patience` seconds.
    """
    seen: dict[int, str] = {}
    alive = kill(lambda: marked(fragment), seen, patience)
    return list(seen.values()), alive


def processors() -> int:
    """Processors that this process may use."""
    if SUPPORTED:
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_interpreter(
    code: str, words: Sequence[str], log: IO[bytes], environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a fresh interpreter that imports what this process can import, and a socket to it.

    Args:
        code: what it executes; `sys.argv[1]` is the descriptor of its end of the socket.
        words: `sys.argv[2:]`.
        log: the file into which it prints.
        environment: its environment; None: that of this process.
    """
    ours, theirs = socket.socketpair()
    path = [entry or str(Path.cwd()) for entry in sys.path]
    with theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path[:] = {path!r}; {code}",
                str(theirs.fileno()),
                *words,
            ],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C signals the whole foreground group, but only the controller must get it.
            start_new_session=True,
        )
    return process, ours


def thread_share(workers: int) -> int:
    """Threads of the numeric libraries for each of `workers` jobs that run at the same time, at least one.

    With more, the thread pools of the jobs would compete for the same processors.
    """
    return max(1, processors() // workers)


def limit_threads(count: int) -> None:
    """Limit the threads of this process: of libraries it has loaded (BLAS, OpenMP) and of later ones."""
    os.environ.update(thread_limits(count))
    threadpool_limits(count)


class SignalWatch:
    """While entered, the given signals only make this object readable, instead of raising at any line.

    For the main thread only.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = numbers

    def __enter__(self) -> SignalWatch:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._descriptor = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._handlers = {
            number: signal.signal(number, lambda _number, _frame: None) for number in self._numbers
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._descriptor)
        os.close(self._reading)
        os.close(self._writing)

    def fileno(self) -> int:
        """Descriptor that is readable when a signal has arrived."""
        return self._reading

    def take(self) -> list[signal.Signals]:
        """The signals that arrived since the last call."""
        arrived: list[signal.Signals] = []
        with suppress(BlockingIOError):
            while data := os.read(self._reading, 4096):
                arrived += [signal.Signals(number) for number in data]
        return [number for number in arrived if number in self._numbers]
