"""What it costs to start a job's process: forks of warm keepers against a fresh interpreter for each job.

Run as `python -m benchmarks.worker_start`. Plans of tiny jobs that share two devices:

- 1,000 and 10,000 jobs that do nothing: all they take is overhead (at most 6 ms a job), and time, journal and
  the command's memory must not grow faster than the jobs;
- emulator jobs whose goldens are cached, which need no torch (at least 8 times faster than fresh);
- emulator jobs that compute their goldens, which need torch (at least 40 times).

The other side is the worker's own command, `python -m pipeline.run.worker`, as many at a time, on orders of
the same kind. Processor time stands beside wall time, since a busy machine stretches only the latter.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from golden.geometry import Conv, Geometry
from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.run.begin import run_jobs
from pipeline.run.folders import JOURNAL
from pipeline.run.goldens import missing_goldens
from pipeline.run.messages import Order, encode, read_result
from pipeline.run.options import Host, RunOptions
from pipeline.run.processes import processors, thread_share

JOBS = 200
IDLE = (1_000, 10_000)
FRESH_WITH_TORCH = 20
"""So few, since each takes seconds; the figure is a mean."""

TINY = msgspec.to_builtins(Geometry(16, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)))
EMULATED = Platform("emu-a2a3", "emulator", "a2a3", devices=(0, 1))


def plan(count: int, profile: Callable[[int], str]) -> list[Job]:
    """Tiny jobs, the n-th with the profile `profile(n)`."""
    return [
        Job(
            f"device/emu-a2a3/tiny/first-tile-load/{n}",
            Lane.DEVICE,
            EMULATED,
            WorkloadName("conv-pair"),
            "tiny",
            TINY,
            "first-tile-load",
            profile(n),
            60.0,
        )
        for n in range(count)
    ]


class Cost(NamedTuple):
    """Seconds a job: on the wall, and of processor time in all processes that have ended."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall * 1e3:7.1f} ms a job ({self.cpu * 1e3:6.1f} ms of processor time)"


def cost(work: Callable[[], object], jobs: int) -> Cost:
    """What a job costs where `work` does `jobs` of them."""
    before, start = _processor_time(), time.perf_counter()
    work()
    return Cost((time.perf_counter() - start) / jobs, (_processor_time() - before) / jobs)


def _processor_time() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def warm(jobs: Sequence[Job], options: RunOptions, environment: Mapping[str, str]) -> Cost:
    """The cost in one run. Every job must pass."""
    host = Host(lambda _job: Availability(), environment=environment)
    options = replace(options, missing=missing_goldens(jobs, options.cache, None))

    def work() -> None:
        summary = run_jobs(jobs, options, [], host)
        assert summary.exit_code == 0, [result.message for result in summary.results][:3]

    return cost(work, len(jobs))


def idle(count: int, options: RunOptions, environment: Mapping[str, str]) -> str:
    """What jobs that do nothing cost, with the size of their journal and the peak memory of this process."""
    taken = warm(plan(count, lambda _n: "small"), options, environment)
    latest = max(options.root.glob(f"*/{JOURNAL}"), key=lambda path: path.stat().st_mtime)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return (
        f"{taken}; journal {latest.stat().st_size / count:.0f} bytes a job, peak memory {peak / 2**20:.0f} MB"
    )


def fresh(jobs: Sequence[Job], options: RunOptions, environment: Mapping[str, str]) -> Cost:
    """The cost in an interpreter of its own for each job. Every job must pass."""

    def one(job: Job) -> None:
        own = options.root / "fresh" / job.id
        own.mkdir(parents=True)
        result = own / "result.json"
        order = Order(
            job=job,
            target=options.target,
            folder=str(own),
            result=str(result),
            cache=str(options.cache),
            settings=options.settings,
            device=0,
            marker="",
            threads=thread_share(options.jobs),
            grace=options.grace,
        )
        (own / "order.json").write_bytes(encode(order))
        command = [sys.executable, "-m", "pipeline.run.worker", str(own / "order.json")]
        subprocess.run(command, env=environment, cwd=Path(__file__).parents[1], check=True)
        assert read_result(result, job).state is State.PASSED

    def work() -> None:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(one, jobs))

    return cost(work, len(jobs))


def show(name: str, ours: Cost, theirs: Cost, least: int) -> None:
    """Print the two sides and their ratio."""
    print(f"{name}\n  warm  {ours}\n  fresh {theirs}")
    print(
        f"  {theirs.wall / ours.wall:.1f} times faster (at least {least}); {theirs.cpu / ours.cpu:.1f} by cpu"
    )


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Both sides get their bytecode ready made, whatever is set here.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        options = RunOptions(
            root=folder,
            cache=folder / "goldens",
            locks=folder / "locks",
            jobs=min(2, processors()),
            preload=("pipeline.engines.warm",),
        )
        print(f"{JOBS} jobs, {options.jobs} at a time")
        jobs = plan(JOBS, lambda _n: "small")
        fresh(jobs[:1], replace(options, root=folder / "first"), environment)

        print("overhead (at most 6 ms a job)")
        nothing = replace(options, target="benchmarks.idle:nothing")
        for count in IDLE:
            print(f"  {count:,} jobs {idle(count, nothing, environment)}")

        ours = warm(jobs, options, environment)
        show("goldens cached", ours, fresh(jobs, options, environment), 8)

        ours = warm(plan(JOBS, lambda n: f"full-range@{n}"), options, environment)
        others = plan(FRESH_WITH_TORCH, lambda n: f"full-range@{n}")
        elsewhere = replace(options, root=folder / "second", cache=folder / "none")
        show("goldens computed, with torch", ours, fresh(others, elsewhere, environment), 40)


if __name__ == "__main__":
    main()
