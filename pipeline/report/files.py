"""The files a run leaves for others: the JUnit report and the Markdown summary."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pipeline.ground.jobs import Job, Result
from pipeline.report.document import ReportError
from pipeline.report.junit import JunitReport
from pipeline.report.summary import markdown
from pipeline.results.reproduce import with_resume
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.messages import write_atomically


class ReportFiles:
    """A `pipeline.run.listener.Listener` that writes both, into the run's folder where no path is given."""

    def __init__(self, junit: Path | None, summary: Path | None, relative_to: Path | None = None) -> None:
        """Clear the given paths, so that nothing of an older run is found there whatever happens to this one.

        Paths of attachments are relative to `relative_to`, or absolute.

        Raises:
            ReportError: nothing can be written there.
        """
        for path in (junit, summary):
            if path is not None:
                clear(path)
        self._junit_path = junit
        self._summary_path = summary
        self._relative_to = relative_to

    def run_started(self, run: RunInfo) -> None:
        """Remove older files, which could be taken for this run's."""
        self._facts = run.facts
        self._junit = JunitReport(self._junit_path or run.folder / "junit.xml", self._relative_to)
        self._summary = self._summary_path or run.folder / "summary.md"
        self._summary.unlink(missing_ok=True)
        self._junit.run_started(run)

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        """Nothing to do: the files tell only how jobs ended."""

    def job_finished(self, result: Result) -> None:
        """Nothing to do: `run_finished` brings every result."""

    def run_finished(self, summary: RunSummary) -> None:
        """Write both files; raises as `pipeline.report.junit.write`."""
        summary = with_resume(summary)
        try:
            write_atomically(self._summary, markdown(summary, self._facts).encode())
        except OSError as error:
            raise _unwritable(self._summary, error) from None
        finally:
            self._junit.run_finished(summary)


def clear(path: Path) -> None:
    """Remove the report of an older run, and check that a new one can be written.

    Raises:
        ReportError: it cannot, or something else than a file is there, such as `/dev/null`.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ReportError(f"{path}: is a device or a pipe: name a file, or leave it out")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass  # this only checks that a file can be made
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> ReportError:
    return ReportError(f"{path}: the report cannot be written: {error.strerror}")
