from __future__ import annotations

import errno
import fcntl
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from pipeline.ground.jobs import Job, State
from pipeline.run.folders import (
    RunFolderError,
    create_run,
    failed_jobs,
    prune_runs,
    read_run,
    reopen_run,
    run_ids,
)
from pipeline.run.journal import Journal
from pipeline.run.listener import RunInfo, RunSummary

NOW = datetime(2026, 3, 10, 12, tzinfo=timezone.utc)
FOREVER = timedelta(days=10_000)


def make_runs(root: Path, *ages: int) -> list[str]:
    """Finished runs of so many days ago; their ids."""
    ids = []
    for age in ages:
        folder = create_run(root, NOW - timedelta(days=age))
        (folder.path / "jobs").mkdir()
        folder.close()
        ids.append(folder.run_id)
    return ids


def test_run_id_tells_the_time_and_is_unique(tmp_path: Path) -> None:
    ids = make_runs(tmp_path, 0, 0, 0)
    assert len(set(ids)) == 3
    assert all(run_id.startswith("20260310-120000-") for run_id in ids)
    assert run_ids(tmp_path) == tuple(sorted(ids))
    assert run_ids(tmp_path / "none") == ()


def test_runs_of_one_second_sort_as_they_were_made(tmp_path: Path) -> None:
    fractions = (0, 40, 999_900, 123_456, 999_999)
    for microsecond in fractions:
        create_run(tmp_path, NOW.replace(microsecond=microsecond)).close()
    made = {run_id.split("-")[2][:4] for run_id in run_ids(tmp_path)}
    assert [int(run_id.split("-")[2][:4], 16) for run_id in run_ids(tmp_path)] == sorted(
        microsecond * 16**4 // 10**6 for microsecond in fractions
    )
    assert len(made) == len(fractions)


def test_last_names_the_youngest_run(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="there is no run yet"):
        read_run(tmp_path, "last")
    make_runs(tmp_path, 2)
    with closing(create_run(tmp_path, NOW)) as youngest:
        Journal(youngest.journal).run_started(RunInfo(youngest.run_id, youngest.path, (), "", 1))
    assert read_run(tmp_path, "last").run_id == youngest.run_id


def test_folders_of_jobs_do_not_lie_in_each_other(tmp_path: Path, make_job: Callable[..., Job]) -> None:
    folder = create_run(tmp_path, NOW)
    long = "k" * 300  # too long for the name of a file
    names = ["a/b", "a+b", "a/b/c", "a%2Fb", "../a", "/a", "a@7", f"{long}/a", f"{long}/b", "%" * 240]
    paths = [folder.job_folder(make_job(id=name)) for name in names]
    assert len(set(paths)) == len(names)
    assert {path.parent for path in paths} == {folder.path / "jobs"}
    for path in paths:
        path.mkdir(parents=True)
    folder.close()


def test_pruning_goes_by_age_and_by_count(tmp_path: Path) -> None:
    ids = make_runs(tmp_path, 9, 5, 3, 1)
    assert prune_runs(tmp_path, spared="", keep=10, max_age=timedelta(days=6), now=NOW) == (ids[0],)
    assert prune_runs(tmp_path, spared="", keep=2, max_age=FOREVER, now=NOW) == (ids[1],)
    assert run_ids(tmp_path) == tuple(ids[2:])


def test_newest_run_is_never_pruned(tmp_path: Path) -> None:
    ids = make_runs(tmp_path, 400, 300)
    assert prune_runs(tmp_path, spared="", keep=0, max_age=timedelta(0), now=NOW) == (ids[0],)
    assert run_ids(tmp_path) == (ids[1],)


def test_run_that_is_being_written_is_never_pruned(tmp_path: Path) -> None:
    writing = create_run(tmp_path, NOW - timedelta(days=9))
    make_runs(tmp_path, 1)
    assert prune_runs(tmp_path, spared="", keep=1, max_age=timedelta(days=1), now=NOW) == ()
    writing.close()
    assert prune_runs(tmp_path, spared="", keep=1, max_age=timedelta(days=1), now=NOW) == (writing.run_id,)


def test_run_that_has_just_ended_is_not_pruned_where_the_clock_was_set_back(tmp_path: Path) -> None:
    just_ended, tomorrows = make_runs(tmp_path, 0, -1)
    assert prune_runs(tmp_path, spared=just_ended, keep=1, max_age=FOREVER, now=NOW) == ()
    assert prune_runs(tmp_path, spared=tomorrows, keep=1, max_age=FOREVER, now=NOW) == (just_ended,)


def test_a_folder_named_by_no_day_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "20269999-999999-abcdef0123").mkdir()
    assert run_ids(tmp_path) == ()


def test_a_folder_that_cannot_be_entered_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"^runs in .*long: File name too long; name another --output$"):
        run_ids(tmp_path / ("long" * 100))


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "20200101-000000-abcdef012X").mkdir()
    make_runs(tmp_path, 1, 0)
    prune_runs(tmp_path, spared="", keep=1, max_age=timedelta(0), now=NOW)
    assert {path.name for path in tmp_path.iterdir()} >= {"notes", "20200101-000000-abcdef012X"}


def test_unknown_run_is_named_with_those_there_are(tmp_path: Path) -> None:
    (run_id,) = make_runs(tmp_path, 0)
    with pytest.raises(RunFolderError, match=rf"no run 'yesterday' .*; the latest are: {run_id}"):
        reopen_run(tmp_path, "yesterday")
    with pytest.raises(RunFolderError, match=r"no run '\.\.'"):
        read_run(tmp_path, "..")


def test_run_that_is_being_written_cannot_be_resumed(tmp_path: Path) -> None:
    folder = create_run(tmp_path, NOW)
    with pytest.raises(RunFolderError, match="is being written by another process"):
        reopen_run(tmp_path, folder.run_id)
    folder.close()


def test_failed_jobs_are_those_whose_case_is_red(
    run: Callable[..., RunSummary], make_job: Callable[..., Job], watcher: Any
) -> None:
    ends = ["passed", "mismatch", "infrastructure", "skipped", "performance"]
    jobs = [make_job(f"ends_as:{end}") for end in ends]
    summary = run(*jobs, retries=0)
    record = read_run(summary.folder.parent, summary.run_id)
    assert failed_jobs(record) == (jobs[1], jobs[2], jobs[4])
    assert [result.state for result in record.all_results()] == [State(end) for end in ends]


def test_a_folder_whose_files_cannot_be_locked_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(
        RunFolderError, match=r"flock fails with 'No locks available'; name another --output$"
    ):
        create_run(tmp_path / "runs", NOW)
    assert run_ids(tmp_path / "runs") == ()
