"""What users call a run, and the results of that run."""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.history.past import HistoryError, legible, may_exist
from pipeline.history.sources import of_folder, of_report
from pipeline.report.document import ReportError
from pipeline.report.results import NAME, RunResults, read_results
from pipeline.report.text import one_line
from pipeline.run.folders import JOURNAL, find_run, is_run_id, run_ids


def located(written: str, root: Path, place: str | Path | None = None) -> str:
    """The run that a user names: its id, or the absolute path of a folder or file.

    It is named by `last`, its id under `root`, or a path. If `place` says where the history is, also by an id
    that the history knows, or by a branch, whose last run is meant. A folder without a run is none of these.

    Raises:
        ReportError: there is no such run.
        RunFolderError: there is no run under `root` yet.
    """
    if written == "last" or written in run_ids(root):
        return find_run(root, written)
    path = Path(written).absolute()
    exists = os.path.exists(path)  # noqa: PTH110 (`Path` raises if the name is too long)
    # A folder such as `docs` may have the name of a branch.
    if exists and (not path.is_dir() or any((path / name).exists() for name in (NAME, JOURNAL))):
        return str(path)
    why = "name a run (its id, or last), the folder of a run, a results.json or a JUnit file of this pipeline"
    if place is not None and may_exist(place):
        from pipeline.history.questions import run_named
        from pipeline.history.store import open_history

        try:
            with open_history(place) as history:
                return run_named(history, written).id
        except HistoryError as error:
            why = str(error)
    if exists:
        raise ReportError(f"{one_line(legible(written))}: there is no run in this folder; {why}")
    raise ReportError(f"{one_line(legible(written))}: is no run, file or folder here; {why}")


def results_named(name: str, root: Path) -> RunResults:
    """The results of a run that `located` found; if it was named by a JUnit file, what that says.

    Raises:
        UserError: they cannot be read, or are in the history only.
    """
    path = root / find_run(root, name) if is_run_id(name) else Path(name)
    if path.is_dir():
        return of_folder(path)
    return read_results(path) if path.suffix == ".json" else of_report(path)
