"""How many threads the numeric libraries of a job may use.

The processors are divided evenly: with J parallel jobs on P processors, each job gets P // J threads, and at
least one. With more, the thread pools of several jobs would compete for the same processors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from threadpoolctl import threadpool_limits

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def processors() -> int:
    """Processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share(workers: int) -> int:
    """Threads for each of `workers` jobs that run at the same time."""
    return max(1, processors() // workers)


def variables(count: int) -> Mapping[str, str]:
    """Environment variables that limit libraries loaded later, here and in programs that are started."""
    return dict.fromkeys(_VARIABLES, str(count))


def limit(count: int) -> None:
    """Limit the threads of this process: of libraries it has loaded (BLAS, OpenMP) and of later ones."""
    os.environ.update(variables(count))
    threadpool_limits(count)
