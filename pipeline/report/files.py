"""The files a run leaves for others: the JUnit report, the Markdown summary, the results as JSON."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pipeline.ground.files import check_folder
from pipeline.ground.jobs import Job
from pipeline.ground.results import Result
from pipeline.ground.words import counted
from pipeline.report.cases import Attachments
from pipeline.report.document import ReportError, writing
from pipeline.report.junit import write
from pipeline.report.results import NAME, results_of, write_results
from pipeline.report.summary import markdown
from pipeline.results.reproduce import with_resume
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.messages import write_atomically
from pipeline.run.states import NOTHING_EXECUTED


class ReportFiles:
    """A `pipeline.run.listener.Listener` that writes them into the run's folder.

    The report and the summary are written elsewhere if a path is given.
    """

    def __init__(
        self,
        junit: Path | None,
        summary: Path | None,
        relative_to: Path | None = None,
        *,
        retold: bool = False,
    ) -> None:
        """Clear the given paths, so that nothing of an older run is found there whatever happens to this one.

        If an earlier run is `retold`, what is there stays until it is replaced. Paths of attachments are
        relative to `relative_to`, or absolute.

        Raises:
            ReportError: something cannot be written there; then nothing is cleared.
        """
        given = [path for path in (junit, summary) if path is not None]
        for path in given:
            check_writable(path)
        for path in given if not retold else ():
            with writing(path):
                path.unlink(missing_ok=True)
        self._given, self._retold = (junit, summary), retold
        self._relative_to = relative_to

    def run_started(self, run: RunInfo) -> None:
        """Remember the run's facts; remove older files, which could be taken for those of a new run."""
        self._run = run
        junit, summary = self._given
        self._junit = junit or run.folder / "junit.xml"
        self._summary = summary or run.folder / "summary.md"
        self._results = run.folder / NAME
        for path in (self._junit, self._summary, self._results) if not self._retold else ():
            path.unlink(missing_ok=True)

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        """Nothing to do: the files tell only how jobs ended."""

    def remark(self, text: str) -> None:
        """Nothing to do: what a remark means for a job is in the job's result."""

    def job_finished(self, result: Result) -> None:
        """Nothing to do: `run_finished` brings every result."""

    def run_finished(self, summary: RunSummary) -> None:
        """Write the files; raises as `pipeline.report.junit.write`.

        The results come last, so that they say nothing of a run whose report could not be written.
        """
        summary = with_resume(summary)
        try:
            with writing(self._summary):
                self._summary.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._summary, markdown(summary, self._run.facts).encode())
        finally:
            self._write_junit(summary)
        write_results(self._results, results_of(self._run, summary))

    def _write_junit(self, summary: RunSummary) -> None:
        problems = list(summary.problems)
        if summary.exit_code == NOTHING_EXECUTED:
            planned = counted(len(summary.results), "planned job")
            problems.append(f"nothing was executed: {planned}, all skipped")
        facts = {
            **self._run.facts,
            "run": self._run.run_id,
            "started": self._run.started,
            **{f"note {number}": note for number, note in enumerate(self._run.notes, 1)},
            **{f"set-aside {device}": reason for device, reason in summary.set_aside.items()},
            **{f"undecided {device}": reason for device, reason in summary.undecided.items()},
        }
        attachments = Attachments(summary.folder, self._relative_to)
        write(self._junit, summary.results, facts, attachments, problems)


def check_writable(path: Path) -> None:
    """Check that a report can be written. Nothing is made.

    Raises:
        ReportError: it cannot, or something else than a file is there, such as `/dev/null`.
    """
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            raise ReportError(f"{path}: is a device or a pipe: name a file, or leave it out")
        check_folder(path.parent)
