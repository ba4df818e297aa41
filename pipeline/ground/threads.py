"""Threads of processes that are forked, or that fork.

**Why forking is safe here.** A fork copies only the thread that calls it: a lock that another thread holds
at that moment stays locked in the child for ever. So no process that forks has a second thread. It imports
the numeric libraries with a limit of one thread, so that they start no thread pools, and checks that they
did not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def thread_limits(count: int) -> Mapping[str, str]:
    """Environment variables that limit libraries loaded later, here and in programs that are started."""
    return dict.fromkeys(_VARIABLES, str(count))


def require_single_thread() -> None:
    """Raise `RuntimeError` if there are other threads: a fork would copy their locks but not the threads."""
    threads = _threads()
    if threads != 1:
        raise RuntimeError(f"{threads} threads: forking is not safe (see pipeline/ground/threads.py)")


def _threads() -> int:
    """How many threads this process has."""
    try:  # `psutil` also finds out when the process began, at each fork
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except FileNotFoundError:  # not Linux
        return psutil.Process().num_threads()
