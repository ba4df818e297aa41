from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import junitparser
import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import Result
from pipeline.report.document import ReportError, Totals, check, read
from pipeline.report.files import ReportFiles
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.states import exit_code

MakeResult = Callable[..., Result]
Validate = Callable[[Path], None]


def tell(files: ReportFiles, folder: Path, result: Result) -> None:
    folder.mkdir(exist_ok=True)
    files.run_started(
        RunInfo("r1", folder, (result.job,), "2026-12-01T01:00:00+00:00", 1, {"git": "0123abcd"})
    )
    files.run_finished(RunSummary("r1", folder, (result,), 0, 1.0))


def test_both_files_lie_in_the_runs_folder(tmp_path: Path, result_of: MakeResult) -> None:
    tell(ReportFiles(None, None), tmp_path, result_of("device/emu/mc62/fused/small"))
    assert junitparser.JUnitXml.fromfile(str(tmp_path / "junit.xml")).tests == 1
    assert "git `0123abcd`" in (tmp_path / "summary.md").read_text()


def test_files_go_where_they_are_asked_for_and_folders_are_made(
    tmp_path: Path, result_of: MakeResult
) -> None:
    junit, summary = tmp_path / "a" / "b" / "x.xml", tmp_path / "c" / "s.md"
    tell(ReportFiles(junit, summary), tmp_path / "run", result_of("device/emu/mc62/fused/small"))
    assert junitparser.JUnitXml.fromfile(str(junit)).tests == 1
    assert summary.read_text().startswith("## Passed")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["results.json"]


def test_older_files_are_gone_before_the_run_begins(tmp_path: Path, result_of: MakeResult) -> None:
    given = tmp_path / "given.xml"
    for path in (given, tmp_path / "summary.md"):
        path.write_text("older")
    files = ReportFiles(given, None)
    assert not given.exists()
    result = result_of("device/emu/mc62/fused/small")
    files.run_started(RunInfo("r1", tmp_path, (result.job,), "", 1))
    assert not (tmp_path / "summary.md").exists()


def test_files_of_a_run_that_is_retold_stay_until_they_are_replaced(
    tmp_path: Path, result_of: MakeResult
) -> None:
    given = tmp_path / "given.xml"
    given.write_text("older")
    files = ReportFiles(given, None, retold=True)
    result = result_of("device/emu/mc62/fused/small")
    files.run_started(RunInfo("r1", tmp_path, (result.job,), "", 1))
    assert given.read_text() == "older"
    files.run_finished(RunSummary("r1", tmp_path, (result,), 0, 1.0))
    assert junitparser.JUnitXml.fromfile(str(given)).tests == 1


@pytest.mark.parametrize("place", [".", "file/x.xml"])
def test_a_place_that_cannot_be_written_is_refused_at_once(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for junit, summary in ((tmp_path / place, None), (None, tmp_path / place)):
        with pytest.raises(ReportError, match="the report cannot be written"):
            ReportFiles(junit, summary)


def test_a_summary_that_cannot_be_written_does_not_take_the_junit_file_along(
    tmp_path: Path, result_of: MakeResult
) -> None:
    files = ReportFiles(tmp_path / "x.xml", tmp_path / "there" / "s.md")
    files.run_started(run_info(tmp_path))
    (tmp_path / "there").touch()
    result = result_of("device/emu/mc62/fused/small")
    with pytest.raises(ReportError, match=r"s\.md: the report cannot be written: File exists"):
        files.run_finished(RunSummary("r1", tmp_path, (result,), 0, 1.0))
    assert junitparser.JUnitXml.fromfile(str(tmp_path / "x.xml")).tests == 1


def run_info(folder: Path) -> RunInfo:
    return RunInfo(
        "r1",
        folder,
        (),
        "2026-11-30T20:00:00",
        workers=2,
        facts={"git": "0123abcd"},
        notes=("lock folder on NFS",),
    )


def test_the_listener_takes_last_nights_report_away_and_writes_tonights(
    tmp_path: Path, result_of: MakeResult
) -> None:
    path = tmp_path / "junit.xml"
    path.write_text("last night")
    listener = ReportFiles(None, None)
    listener.run_started(run_info(tmp_path))
    assert not path.exists()
    result = result_of("device/emu/mc62/fused/small")
    listener.job_started(result.job, None, 1)
    listener.remark("device npu-0 is set aside")
    listener.job_finished(result)
    aside, doubt = {"npu-0": "507018 twice"}, {"npu-1": "all 3 jobs on it failed"}
    listener.run_finished(RunSummary("r1", tmp_path, (result,), 0, 1.0, aside, doubt))
    root = read(path)
    properties = {each.get("name"): each.get("value") for each in root.iter("property")}
    assert properties == {
        "git": "0123abcd",
        "run": "r1",
        "started": "2026-11-30T20:00:00",
        "set-aside npu-0": "507018 twice",
        "undecided npu-1": "all 3 jobs on it failed",
        "note 1": "lock folder on NFS",
        "report.suites": "device.emu",
    }


def test_a_run_with_faults_of_its_own_is_red_even_where_all_jobs_passed(
    tmp_path: Path, result_of: MakeResult, validate: Validate
) -> None:
    path = tmp_path / "junit.xml"
    listener = ReportFiles(None, None)
    listener.run_started(run_info(tmp_path))
    results = (result_of("device/emu/mc62/fused/small"),)
    listener.run_finished(
        RunSummary("r1", tmp_path, results, 3, 1.0, problems=("2 planned jobs are missing",))
    )
    validate(path)
    assert check(read(path)) == Totals(tests=2, errors=1)


def test_a_run_that_executed_nothing_is_red(tmp_path: Path, result_of: MakeResult) -> None:
    listener = ReportFiles(None, None)
    listener.run_started(run_info(tmp_path))
    skipped = tuple(result_of(f"device/a5/mc62/fused/p{n}", State.SKIPPED) for n in range(8))
    listener.run_finished(RunSummary("r1", tmp_path, skipped, exit_code([State.SKIPPED]), 1.0))
    assert check(read(tmp_path / "junit.xml")) == Totals(tests=9, errors=1, skipped=8)
