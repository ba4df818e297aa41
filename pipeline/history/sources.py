"""What can be brought into a history: run folders, their results, JUnit files of other hosts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from golden.errors import UserError
from pipeline.history.past import HistoryError
from pipeline.report.document import ReportError, check, read
from pipeline.report.reread import reread
from pipeline.report.results import NAME, RunResults, beside, read_results, results_of, retold
from pipeline.run.folders import reopen_run, run_ids


def results_at(path: Path) -> Iterator[RunResults | UserError]:
    """The results that a path names, of each run, or why a run has none that can be used.

    A folder is one of a run, or has folders of runs in it or in its folder `runs`. Of a JUnit file the
    results beside it are taken if they are of the same run.

    Raises:
        UserError: the path has no results at all.
    """
    if not os.path.isdir(path):  # noqa: PTH112 (`Path` raises if the name is too long)
        yield of_report(path) if path.suffix == ".xml" else read_results(path)
        return
    if (path / NAME).exists() or (path / "journal.jsonl").exists():
        yield of_folder(path)
        return
    root = next((each for each in (path, path / "runs") if run_ids(each)), None)
    if root is None:
        raise HistoryError(
            f"{path}: there is no run in it; name a folder of runs, a results.json or a JUnit file"
        )
    for run_id in run_ids(root):
        try:
            yield of_folder(root / run_id)
        except UserError as error:
            yield error


def of_folder(folder: Path) -> RunResults:
    """The results of a run that has ended; if it was killed, as far as its journal has them.

    Raises:
        UserError: it is still being written, or nothing can be read.
    """
    if (folder / NAME).exists():
        return read_results(folder / NAME)
    held, record = reopen_run(folder.absolute().parent, folder.name)
    with closing(held):
        results = results_of(*retold(record, folder))
    return results if record.exit_code is not None else msgspec.structs.replace(results, ended=None)


def of_report(path: Path) -> RunResults:
    """The results of a JUnit file, or those beside it. Raises `ReportError` if it is none of ours."""
    root = read(path)
    try:
        check(root)
    except ReportError as error:
        raise ReportError(f"{path}: is no report of this pipeline: {error}; name one") from None
    told = reread(root, path)
    if beside(path).exists():
        results = read_results(beside(path))
        if results.run == told.run:
            return results
    return told
