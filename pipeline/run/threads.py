"""How many threads the numeric libraries of a job may use.

The processors are shared out evenly: with J jobs at a time on P processors, each gets P // J threads and at
least one. More would make the pools of several jobs fight for the same processors.
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
    """Environment that limits libraries loaded from now on, here and in programs that are started."""
    return dict.fromkeys(_VARIABLES, str(count))


def limit(count: int) -> None:
    """Set the limit of this process: of libraries it has loaded (BLAS, OpenMP) and of those it will load."""
    os.environ.update(variables(count))
    threadpool_limits(count)
