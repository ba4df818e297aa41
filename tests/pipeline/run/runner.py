"""A runner in a process of its own, to be killed: `runner.py ROOT LOCKS [--resume ID] KERNEL@DEVICES...`.

`KERNEL*COUNT` stands for so many jobs. If `CLUSTER` is set, it is the address of a Ray cluster to run on.
`JOBS` says how many run at a time, if it is not two; 0: as many as can.
Prints the run's id, its notes, a line for each job that starts, and at the end each job's state.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, Lane, Platform, WorkloadName
from pipeline.ground.results import Result
from pipeline.run.begin import resume_run, run_jobs
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.options import Host, RunOptions


class Printer:
    """A listener that tells the test what happens."""

    def run_started(self, run: RunInfo) -> None:
        self._say("run", run.run_id)
        for note in run.notes:
            self._say("note", note)

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        self._say("started", job.kernel, device)

    def remark(self, text: str) -> None:
        self._say("remark", text)

    def job_finished(self, result: Result) -> None:
        self._say("finished", result.job.kernel, result.state.value)

    def run_finished(self, summary: RunSummary) -> None:
        self._say("end", summary.exit_code)

    @staticmethod
    def _say(*words: object) -> None:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


def main(arguments: list[str]) -> int:
    root, locks, *works = arguments
    options = RunOptions(
        *(Path(root), Path(root) / "cache", Path(locks)),
        jobs=int(os.environ.get("JOBS", "2")),
        grace=0.3,
        preload=(),
        target="targets:perform",
    )
    host = Host(available=lambda _job: Availability())
    if address := os.environ.get("CLUSTER"):
        from pipeline.commands.facts import ROOT
        from pipeline.commands.nodes import sources_archive
        from pipeline.run.cluster.executor import ClusterExecutor
        from pipeline.run.cluster.roster import Cluster

        cluster = Cluster(address, sources_archive, ROOT, "targets:survey")
        host = Host(available=host.available, executor=lambda terms: ClusterExecutor(terms, cluster))
    if works[0] == "--resume":
        return resume_run(works[1], options, [Printer()], host).exit_code
    workload = WorkloadName("gemm")
    geometry = {"m": 32, "k": 32, "n": 32}
    plan = []
    each = [work.rpartition("*") if "*" in work else (work, "", "1") for work in works]
    for number, work in enumerate(work for work, _, count in each for _ in range(int(count))):
        kernel, _, devices = work.partition("@")
        ids = tuple(int(device) for device in devices.split(",") if device)
        platform = Platform("emu", "emulator", "a2a3", devices=ids)
        name = f"device/emu/{number}"
        plan.append(Job(name, Lane.DEVICE, platform, workload, "g", geometry, kernel, "small", 60.0))
    return run_jobs(plan, options, [Printer()], host).exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
