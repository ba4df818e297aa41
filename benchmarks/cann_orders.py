"""What CANN's PyPTO takes for the orders of a job: forks of one warm process, or an interpreter for each.

Run as `python -m benchmarks.cann_orders [GEOMETRY ...]`, with conv pairs of the matrix (`pair-24x16`). Each
job that they have in the compile lane is done twice, with all its programs compiled, costed and verified: as
the engine does it, with one process that has imported torch and the framework and forks for each order; and
with an interpreter of its own for each order, in which the cost model also draws its pictures. Both ways must
give the same facts and metrics. The last lines have the ratio of processor time (at most 60 %) and that of
wall time, which a busy machine stretches.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

from benchmarks.worker_start import Cost, cost
from pipeline.commands.selection import read_matrix
from pipeline.engines.cann import child
from pipeline.engines.process import child_environment
from pipeline.ground.jobs import Job, Lane, Platform, State
from pipeline.ground.results import JobContext
from pipeline.work.stages import execute

PLATFORM = Platform("cann-a2a3", backend="cann", soc="a2a3")
KERNELS = ("fused", "two-pass")
MOST = 0.6

_ALONE = (
    "import sys, pathlib, pipeline.engines.cann.worker as worker; worker.perform(pathlib.Path(sys.argv[1]))"
)


def alone(order: Path, environment: Mapping[str, str], log: Path) -> int:
    """What `pipeline.engines.cann.parent.perform` does in a fork, in an interpreter of its own."""
    with log.open("wb") as printed:
        ended = subprocess.run(
            [sys.executable, "-c", _ALONE, str(order)],
            cwd=order.parent,
            env=child_environment({**environment, "PATH": os.environ["PATH"]}),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            check=False,
        )
    return ended.returncode


def jobs_of(names: Sequence[str]) -> list[Job]:
    """The jobs of the compile lane for some geometries of the matrix."""
    geometries = read_matrix([]).geometries
    return [
        Job(
            f"compile/{PLATFORM.name}/{name}/{kernel}",
            Lane.COMPILE,
            PLATFORM,
            geometries[name].workload,
            name,
            geometries[name].shapes,
            kernel,
            "full-range@7",
            timeout=600.0,
        )
        for name in names
        for kernel in KERNELS
    ]


def done(job: Job, folder: Path, cache: Path, found: list[object]) -> Callable[[], None]:
    """Does a job in a folder, and adds to `found` what is to be the same however it is done."""

    def do() -> None:
        folder.mkdir(parents=True)
        result = execute(job, JobContext(folder, None, cache))
        assert result.state is State.PASSED, result.message
        found.append([(stage.facts, stage.metrics) for stage in result.stages])

    return do


def main(names: Sequence[str]) -> None:
    """Print the figures."""
    ours, theirs = Cost(0, 0), Cost(0, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = jobs_of(names or ["pair-24x16"])
        first = replace(jobs[0], profile="small")  # builds the calculator, and reads files for the first time
        done(first, folder / "first", folder / "goldens", [])()
        for job in jobs:
            found: list[object] = []
            done(job, folder / "golden" / job.id, folder / "goldens", found)()
            forked = cost(done(job, folder / "forked" / job.id, folder / "goldens", found), 1)
            with mock.patch.object(child, "perform", alone):
                fresh = cost(done(job, folder / "fresh" / job.id, folder / "goldens", found), 1)
            assert found[0] == found[1] == found[2], job.id
            print(f"{job.id}\n  forked {forked}\n  fresh  {fresh}", flush=True)
            ours = Cost(ours.wall + forked.wall, ours.cpu + forked.cpu)
            theirs = Cost(theirs.wall + fresh.wall, theirs.cpu + fresh.cpu)
    share = ours.cpu / theirs.cpu
    print(f"processor time {ours.cpu:.1f} s of {theirs.cpu:.1f} s: {share:.0%} (at most {MOST:.0%})")
    print(f"wall time {ours.wall:.1f} s of {theirs.wall:.1f} s: {ours.wall / theirs.wall:.0%}")


if __name__ == "__main__":
    main(sys.argv[1:])
