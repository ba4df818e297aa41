from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Result
from pipeline.ground.settings import Settings
from pipeline.run.journal import Journal, JournalError, read_journal
from pipeline.run.listener import RunInfo, RunSummary

RUN_ID = "20260310-010203-abcdef"


def info(plan: tuple[Job, ...], *, resumed: bool = False) -> RunInfo:
    return RunInfo(
        RUN_ID, Path("/runs"), plan, "2026-03-10T01:02:03+00:00", 2, {"sha": "abc"}, resumed=resumed
    )


@pytest.fixture
def plan(make_job: Callable[..., Job]) -> tuple[Job, ...]:
    return tuple(make_job() for _ in range(3))


def write(path: Path, plan: tuple[Job, ...]) -> tuple[Result, ...]:
    """A journal of a run that ended in good order."""
    journal = Journal(path)
    journal.run_started(info(plan))
    results = tuple(Result(job, State.PASSED, f"text {job.id} \udcff", artefacts=("a",)) for job in plan)
    for result in results:
        journal.job_started(result.job, 0, 1)
        journal.remark("for people")
        journal.job_finished(result)
    aside, undecided = {"npu-1": "it hangs"}, {"npu-2": "all failed"}
    journal.run_finished(
        RunSummary(RUN_ID, path.parent, results, 0, 1.0, aside, undecided, dropped=(plan[0].id,))
    )
    return results


def test_journal_gives_back_what_it_was_told(tmp_path: Path, plan: tuple[Job, ...]) -> None:
    write(tmp_path / "journal", plan)
    record = read_journal(tmp_path / "journal")
    assert (record.run_id, record.plan, record.facts, record.exit_code) == (RUN_ID, plan, {"sha": "abc"}, 0)
    assert record.notes == ()
    assert (record.set_aside, record.undecided) == ({"npu-1": "it hangs"}, {"npu-2": "all failed"})
    assert [result.state for result in record.all_results()] == [State.PASSED] * 3
    assert [result.artefacts for result in record.all_results()] == [(), ("a",), ("a",)]
    assert record.all_results()[0].message == f"text {plan[0].id} \\udcff"


@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
    deadline=None,
)
@given(data=st.data())
def test_journal_cut_at_any_byte_loses_at_most_the_line_that_was_cut(
    tmp_path: Path, plan: tuple[Job, ...], data: st.DataObject
) -> None:
    path = tmp_path / "journal"
    path.unlink(missing_ok=True)
    write(path, plan)
    whole = path.read_bytes()
    cut = data.draw(st.integers(whole.index(b"\n") + 1, len(whole)))
    path.write_bytes(whole[:cut])
    record = read_journal(path)
    assert len(record.results) == whole[:cut].count(b'"type":"Finished"') - (
        b'"type":"Finished"' in whole[:cut].rpartition(b"\n")[2]
    )
    assert bool(record.notes) == (not whole[:cut].endswith(b"\n"))
    unfinished = [result for result in record.all_results() if result.state is State.INTERRUPTED]
    assert len(unfinished) == 3 - len(record.results)

    journal = Journal(path)
    journal.run_started(info(plan, resumed=True))
    journal.job_finished(Result(plan[2], State.MISMATCH))
    again = read_journal(path)
    assert again.notes == ()
    assert again.results[plan[2].id].state is State.MISMATCH
    assert again.exit_code is None
    journal.run_finished(RunSummary(RUN_ID, tmp_path, (), 0, 1.0))


def test_interrupted_jobs_are_not_finished(tmp_path: Path, plan: tuple[Job, ...]) -> None:
    journal = Journal(tmp_path / "journal")
    journal.run_started(info(plan))
    journal.job_finished(Result(plan[0], State.PASSED))
    journal.job_finished(Result(plan[1], State.INTERRUPTED))
    assert set(read_journal(tmp_path / "journal").finished) == {plan[0].id}
    journal.run_finished(RunSummary(RUN_ID, tmp_path, (), 2, 1.0))


def test_damage_before_the_last_line_is_an_error_with_its_line(tmp_path: Path, plan: tuple[Job, ...]) -> None:
    path = tmp_path / "journal"
    write(path, plan)
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2][:20]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(JournalError, match=r"journal:3: damaged line: "):
        read_journal(path)


def test_missing_and_empty_journals_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        read_journal(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JournalError, match="is a device or a pipe"):
        read_journal(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    with pytest.raises(JournalError, match="holds no run"):
        read_journal(tmp_path / "empty")


@pytest.mark.parametrize("instead", ["nothing", "a copy", "a folder"])
def test_a_journal_that_was_removed_meanwhile_is_missed(
    tmp_path: Path, plan: tuple[Job, ...], instead: str
) -> None:
    journal = Journal(tmp_path / "journal")
    journal.run_started(info(plan))
    (tmp_path / "journal").rename(tmp_path / "kept")
    if instead == "a copy":
        (tmp_path / "journal").write_bytes((tmp_path / "kept").read_bytes())
    elif instead == "a folder":
        (tmp_path / "journal").mkdir()
    with pytest.raises(JournalError, match="journal: was removed while it was being written"):
        journal.run_finished(RunSummary(RUN_ID, tmp_path, (), 0, 1.0))


def test_a_journal_gives_back_the_settings_that_held_last(tmp_path: Path, plan: tuple[Job, ...]) -> None:
    path = tmp_path / "journal"
    for settings, resumed in ((Settings(inject="a", repeat=3), False), (Settings(inject="a"), True)):
        journal = Journal(path)
        journal.run_started(replace(info(plan, resumed=resumed), settings=settings))
        assert read_journal(path).settings == settings
        journal.run_finished(RunSummary(RUN_ID, tmp_path, (), 0, 1.0))


def test_a_run_that_was_resumed_began_when_it_was_last_called(tmp_path: Path, plan: tuple[Job, ...]) -> None:
    path, later = tmp_path / "journal", "2026-03-11T04:05:06+00:00"
    for started, resumed in (("2026-03-10T01:02:03+00:00", False), (later, True)):
        journal = Journal(path)
        journal.run_started(replace(info(plan, resumed=resumed), started=started))
        journal.run_finished(RunSummary(RUN_ID, tmp_path, (), 0, 1.0))
    assert read_journal(path).started == later


def test_results_of_other_sources_count_no_longer_once_a_run_is_resumed(
    tmp_path: Path, plan: tuple[Job, ...]
) -> None:
    """Also if the runner is killed before the jobs have run again: an old pass is never shown for them."""
    path, old, new = tmp_path / "journal", {"kernels/": "aa"}, {"kernels/": "bb"}
    for sources, resumed, kept in ((old, False, 1), (old, True, 2), (new, True, 1)):
        journal = Journal(path)
        journal.run_started(replace(info(plan, resumed=resumed), sources=sources))
        journal.job_finished(Result(plan[0 if not resumed else 1], State.PASSED))
        record = read_journal(path)
        assert (record.sources, len(record.finished)) == (sources, kept)
        journal.run_finished(RunSummary(RUN_ID, tmp_path, (), 0, 1.0))
    assert [one.state for one in record.all_results()] == [
        State.INTERRUPTED,
        State.PASSED,
        State.INTERRUPTED,
    ]


def test_a_journal_gives_results_back_while_it_is_written_and_later(
    tmp_path: Path, plan: tuple[Job, ...]
) -> None:
    """Also if it was removed meanwhile: the reports of such a run are still written."""
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.run_started(info(plan))
    results = [Result(job, State.MISMATCH, f"é {number}") for number, job in enumerate(plan)]
    for result in results:
        journal.remark("between")
        journal.job_finished(result)
        assert journal.result(result.job) == result
    journal.run_finished(RunSummary(RUN_ID, tmp_path, (), 1, 1.0))
    path.rename(tmp_path / "gone")
    assert [journal.result(job) for job in reversed(plan)] == results[::-1]
    (tmp_path / "gone").rename(path)
    journal.close()
    assert [journal.result(job) for job in plan] == results
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(JournalError, match="journal: was changed while the run used it"):
        journal.result(plan[2])


def test_a_result_that_a_full_disk_has_no_room_for_is_given_back_too(
    tmp_path: Path, plan: tuple[Job, ...], full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    journal = Journal(tmp_path / "journal")
    journal.run_started(info(plan))
    results = [Result(job, State.MISMATCH, "wrong") for job in plan]
    journal.job_finished(results[0])
    with full_disk(), pytest.raises(JournalError, match="cannot be written"):
        journal.job_finished(results[1])
    journal.job_finished(results[2])
    assert [journal.result(job) for job in plan] == results
    journal.run_finished(RunSummary(RUN_ID, tmp_path, (), 1, 1.0))
