"""Results of an earlier run, wherever a user has them."""

from __future__ import annotations

from pathlib import Path

from pipeline.report.document import ReportError, read
from pipeline.report.reread import reread
from pipeline.report.results import RunResults, read_results, results_of, retold
from pipeline.report.text import one_line
from pipeline.run.folders import JOURNAL, find_run, is_run_id
from pipeline.run.journal import read_journal


def located(written: str, root: Path) -> str:
    """What a user calls a run: its id under `root` or `last`, else a path. Gives its id or an absolute path.

    Raises:
        ReportError: there is no such file or folder.
        RunFolderError: there is no such run.
    """
    if written == "last" or is_run_id(written):
        return find_run(root, written)
    path = Path(written).absolute()
    if not path.exists():
        raise ReportError(
            f"{one_line(written)}: there is no such file or folder; name a run (its id, or last), the folder "
            "of a run, a results.json or a JUnit file of this pipeline"
        )
    return str(path)


def read_earlier(name: str, root: Path) -> RunResults:
    """Read the results of the run that `located` found.

    Raises:
        RunFolderError: there is no such run (any more).
        JournalError: the run's journal cannot be used.
        ReportError: the file cannot be read.
    """
    path = root / find_run(root, name) if is_run_id(name) else Path(name)
    if path.is_dir():
        return results_of(*retold(read_journal(path / JOURNAL), path))
    return read_results(path) if path.suffix == ".json" else reread(read(path), path)
