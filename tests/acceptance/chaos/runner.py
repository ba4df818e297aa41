"""A run of jobs in trouble, in a process of its own, to be killed: `runner.py FOLDER COUNT [RUN]`.

Prints the run's id, then a line for each job that ends. With RUN it resumes that run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import troubles

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job
from pipeline.ground.results import Result
from pipeline.report.files import ReportFiles
from pipeline.run.begin import resume_run, run_jobs
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.options import Host, RunOptions


class Printer:
    """A listener for the test on the other side of a pipe."""

    def run_started(self, run: RunInfo) -> None:
        self._say(run.run_id)

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        pass

    def remark(self, text: str) -> None:
        self._say(f"remark {text}")

    def job_finished(self, result: Result) -> None:
        self._say(result.job.id)

    def run_finished(self, summary: RunSummary) -> None:
        for aside in summary.set_aside:
            self._say(f"set aside {aside}")
        for problem in summary.problems:
            self._say(f"problem {problem}")

    @staticmethod
    def _say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    folder, count, *resumed = arguments
    root = Path(folder)
    options = RunOptions(
        root=root / "runs",
        cache=root / "goldens",
        locks=root / "locks",
        jobs=3,
        grace=0.5,
        preload=("golden.cache", "pipeline.engines.emulator"),
        target="troubles:perform",
    )
    listeners = [Printer(), ReportFiles(root / "junit.xml", root / "summary.md")]
    host = Host(available=lambda _job: Availability())
    if resumed:
        return resume_run(resumed[0], options, listeners, host).exit_code
    return run_jobs(troubles.plan(int(count)), options, listeners, host).exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
