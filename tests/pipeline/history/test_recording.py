"""How runs come into a history: by themselves, from their folders, from JUnit files of other hosts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.errors import UserError
from pipeline.commands.cli import main
from pipeline.dashboard.site import write_of_run
from pipeline.ground.jobs import State
from pipeline.ground.results import Result
from pipeline.history import questions
from pipeline.history.past import VARIABLE, Folders, HistoryError, Measured, place
from pipeline.history.recall import past_of
from pipeline.history.recording import record_run
from pipeline.history.sources import of_folder, results_at
from pipeline.history.store import open_history
from pipeline.report.files import ReportFiles
from pipeline.report.merge import merge
from pipeline.report.results import NAME
from pipeline.run.folders import RunFolderError, create_run, reopen_run
from pipeline.run.journal import Journal
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.states import exit_code

from .conftest import NIGHT, contents, ended
from .test_store import ENDS

FACTS = {"host": "h1", "git": "c1", "branch": "main", "python": "3.11.7"}


def run_in(root: Path, results: Sequence[Result], *, killed: bool = False, **facts: str) -> Path:
    """The folder of a run, as its journal and its report files leave it, unless it was killed."""
    folder = create_run(root, NIGHT)
    plan = tuple(one.job for one in results)
    info = RunInfo(
        folder.run_id, folder.path, plan, NIGHT.isoformat(), 1, {**FACTS, "run": folder.run_id, **facts}
    )
    code = exit_code(one.state for one in results)
    listeners = [Journal(folder.journal), *([] if killed else [ReportFiles(None, None)])]
    with closing(folder):
        for listener in listeners:
            listener.run_started(info)
        for result in results:
            listeners[0].job_finished(result)
        for listener in [] if killed else listeners:
            listener.run_finished(RunSummary(folder.run_id, folder.path, tuple(results), code, 60.0))
    return folder.path


def remembered(path: Path, *sources: Path) -> list[list[tuple[Any, ...]]]:
    """What a new history holds after it was given these."""
    with open_history(path) as history:
        for source in sources:
            for results in results_at(source):
                assert not isinstance(results, UserError)
                history.record(results)
        return contents(history)


@settings(max_examples=5)
@given(results=st.lists(ENDS, min_size=1, max_size=3, unique_by=lambda one: one.job.id))
def test_a_run_is_the_same_from_its_results_and_from_its_journal(
    results: list[Result], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("same")
    run = run_in(folder / "runs", results)
    told: list[str] = []
    record_run(folder / "itself.sqlite", folder / "runs", run.name, told.append)
    assert told == []
    with open_history(folder / "itself.sqlite") as history:
        by_itself = contents(history)
    assert by_itself == remembered(folder / "folder.sqlite", run, folder / "runs", folder)
    assert by_itself == remembered(folder / "results.sqlite", run / NAME)
    (run / NAME).unlink()
    assert by_itself == remembered(folder / "journal.sqlite", run)


def states(path: Path) -> list[dict[str, int]]:
    with open_history(path) as history:
        return [dict(one.states) for one in questions.nights(history, questions.run_named(history))]


def test_a_run_that_was_killed_comes_in_with_the_next_one(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run_in(root, [ended("a")], killed=True)
    second = run_in(root, [ended("a"), ended("b")])
    record_run(tmp_path / "h.sqlite", root, second.name, pytest.fail)
    assert sorted(map(str, states(tmp_path / "h.sqlite"))) == ["{'passed': 1}", "{'passed': 2}"]


def test_a_run_that_is_being_written_does_not_come_in(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    other = run_in(root, [ended("a")], killed=True)
    done = run_in(root, [ended("a")])
    held, _ = reopen_run(root, other.name)
    with closing(held):
        record_run(tmp_path / "h.sqlite", root, done.name, pytest.fail)
        with pytest.raises(RunFolderError, match="is being written by another process"):
            of_folder(other)
    assert states(tmp_path / "h.sqlite") == [{"passed": 1}]


def test_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    root, path = tmp_path / "runs", tmp_path / "h.sqlite"
    names = sorted(run_in(root, [ended("a")]).name for _ in range(3))
    record_run(path, root, names[-1], pytest.fail)
    with open_history(path) as history:
        assert history.run_ids() == tuple(names)
        history.prune(keep=1)
    record_run(path, root, names[-1], pytest.fail)
    with open_history(path) as history:
        assert history.run_ids() == (names[-1],)


def test_a_run_that_was_killed_between_others_comes_in_too(tmp_path: Path) -> None:
    root, path = tmp_path / "runs", tmp_path / "h.sqlite"
    names = sorted(run_in(root, [ended("a")], killed=True).name for _ in range(3))
    with open_history(path) as history:
        for name in (names[0], names[2]):
            history.record(of_folder(root / name))
    record_run(path, root, names[2], pytest.fail)
    with open_history(path) as history:
        assert history.run_ids() == tuple(names)


UNREACHABLE = "postgresql://ann:secret@127.0.0.1:1/nights"


def unusable(path: Path) -> list[Path | str]:
    """Histories that cannot be used: locked, no database, newer, not to be made, unreachable, nonsense."""
    locked, text, newer = (path / f"{name}.sqlite" for name in ("locked", "text", "newer"))
    for each in (locked, newer):
        with open_history(each):
            pass
    text.write_text("no database\n" * 99)
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    return [locked, text, newer, path / "text.sqlite" / "history.sqlite", UNREACHABLE, "secret"]


def test_a_history_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    run = run_in(tmp_path / "runs", [ended("a", "x")])
    places = unusable(tmp_path)
    with closing(sqlite3.connect(places[0])) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for where in places:
            told: list[str] = []
            record_run(where, run.parent, run.name, told.append, patience=0.1)
            (line,) = told
            assert "secret" not in line
            assert line.endswith(
                f"; the report of run {run.name} is whole; "
                "a later run that can write the history brings it in, or "
                f"`python -m pipeline history import {run}`"
            )


def test_a_report_that_was_lost_is_not_called_whole(tmp_path: Path) -> None:
    """As on a full disk, which first takes the results, then the journal."""
    run = run_in(tmp_path / "runs", [ended("a", "x")])
    told: list[str] = []
    (run / "results.json").unlink()
    record_run(UNREACHABLE, run.parent, run.name, told.append, patience=0.1)
    (run / "journal.jsonl").write_bytes(b"")
    record_run(UNREACHABLE, run.parent, run.name, told.append, patience=0.1)
    write_of_run(run, tmp_path / "h.sqlite", told.append)
    lost, gone, dashboard = told
    assert (
        f"; the report of run {run.name} could not be written; what its journal has was kept, a job that "
        in lost
    )
    assert "it lacks counts as interrupted; a later run that can write the history brings it in" in lost
    assert gone.endswith(f"; nothing of run {run.name} could be kept: make room, or name another --output")
    assert dashboard == f"dashboard: nothing of run {run.name} could be kept; begin a new run"


def test_what_jobs_took_when_they_were_measured_last_is_remembered(tmp_path: Path) -> None:
    """A killed job took what it took for another reason; what was not known stays so."""
    jobs = [ended("a", seconds=2.0, peak_memory=5_000_000_000), ended("b", seconds=3.0)]
    killed = ended("a", State.KILLED, seconds=9.0, peak_memory=7)
    names = [run_in(tmp_path / "runs", results).name for results in (jobs, [killed])]
    record_run(tmp_path / "h.sqlite", tmp_path / "runs", names[-1], pytest.fail)
    folders = Folders(tmp_path / "runs")
    past = past_of(tmp_path / "h.sqlite", folders, NIGHT.replace(day=9), pytest.fail)
    took = {jobs[0].job.id: Measured(2.0, 5_000_000_000), jobs[1].job.id: Measured(3.0, 0)}
    assert past.measured() == folders.measured() == took


def test_where_the_history_cannot_be_used_the_folders_answer(tmp_path: Path) -> None:
    run = run_in(tmp_path / "runs", [ended("a", "x", seconds=2.0)])
    _, *places = unusable(tmp_path)
    for where in places:
        told: list[str] = []
        past = past_of(where, Folders(tmp_path / "runs"), NIGHT.replace(day=9), told.append)
        if where == tmp_path / "text.sqlite" / "history.sqlite":
            assert isinstance(past, Folders)  # there is no such file: it is a host without a database
            continue
        for _ in range(2):
            ((name, end),) = past.ends(ended("a").job.id)
            assert (name, end.fingerprint) == (run.name, "x")
        assert past.measured() == {ended("a").job.id: Measured(2.0, 0)}
        (line,) = told
        assert line.endswith(f"what earlier runs say is read from {tmp_path / 'runs'}")


def test_an_error_of_ours_is_no_fault_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_in(tmp_path / "runs", [ended("a")])
    monkeypatch.setattr("pipeline.history.recording.of_folder", lambda _folder: 1 // 0)
    told: list[str] = []
    record_run(tmp_path / "h.sqlite", run.parent, run.name, told.append)
    assert told[0].startswith("history: ZeroDivisionError: ")


def test_a_run_whose_history_is_interrupted_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_folder: Path) -> None:
        raise KeyboardInterrupt

    run = run_in(tmp_path / "runs", [ended("a")])
    monkeypatch.setattr("pipeline.history.recording.of_folder", interrupted)
    told: list[str] = []
    record_run(tmp_path / "h.sqlite", run.parent, run.name, told.append)
    (line,) = told
    assert line.startswith("history: interrupted, it was not written; the report of run ")
    assert line.endswith(f"history import {run}`")
    monkeypatch.setattr("pipeline.report.results.read_results", interrupted)
    write_of_run(run, tmp_path / "h.sqlite", told.append)
    assert told[1].startswith("dashboard: KeyboardInterrupt")


def test_an_import_tells_what_is_bad_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    first, second = (run_in(tmp_path / "runs", [ended("a")]) for _ in range(2))
    names = ("nameless.json", "deep.json", "large.json", "foreign.xml")
    nameless, deep, large, foreign = (tmp_path / name for name in names)
    results = msgspec.json.decode((first / NAME).read_bytes())
    nameless.write_bytes(msgspec.json.encode({**results, "run": "r1"}))
    deep.write_text("[" * 200_000)
    foreign.write_text(
        '<testsuite name="s" tests="1" failures="0"><testcase classname="c" name="n" time="1"/></testsuite>'
    )
    large.write_bytes(msgspec.json.encode({**results, "exit_code": 2**63}))
    paths = [first, tmp_path / "nowhere", nameless, deep, large, foreign, second]
    words = ["history", "import", *map(str, paths), "--output", str(tmp_path)]
    assert main(words) == 4
    said = capsys.readouterr()
    assert said.out == "2 runs brought in, 5 left out\n"
    for line, path in zip(said.err.splitlines(), paths[1:-1], strict=True):
        assert line.startswith(f"{path}: ")
    assert said.err.splitlines()[-1].startswith(f"{foreign}: is no report of this pipeline: ")
    assert main(["history", "new", "--runs", "9" * 23, "--output", str(tmp_path)]) == 0


def test_a_junit_file_of_another_host_comes_in(tmp_path: Path) -> None:
    run = run_in(tmp_path / "runs", [ended("a", "x", message="y: wrong"), ended("b")])
    alone = tmp_path / "alone.xml"
    alone.write_bytes((run / "junit.xml").read_bytes())
    remembered(tmp_path / "h.sqlite", alone)
    with open_history(tmp_path / "h.sqlite") as history:
        (one,) = questions.failing(history, questions.run_named(history))
        assert (one.job, one.now.fingerprint, one.now.message) == (ended("a").job.id, "x", "y: wrong")
        assert questions.run_named(history).id == run.name
    assert states(tmp_path / "h.sqlite") == [{"mismatch": 1, "passed": 1}]


def test_a_merged_junit_file_comes_in_once(tmp_path: Path) -> None:
    parts = [
        run_in(tmp_path / name, [ended(name)], shard=f"{number}/2") for number, name in enumerate("ab", 1)
    ]
    merge([part / "junit.xml" for part in parts], tmp_path / "merged.xml")
    for bring in ([tmp_path / "merged.xml"] * 2, [*parts, tmp_path / "merged.xml", parts[0]]):
        remembered(tmp_path / "h.sqlite", *bring)
        assert states(tmp_path / "h.sqlite") == [{"passed": 2}]


def test_nights_that_share_a_part_do_not_both_come_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    parts = [run_in(tmp_path / name, [ended(name)]) for name in "abc"]
    one, other, whole = (tmp_path / f"{name}.xml" for name in ("one", "other", "whole"))
    for out, those in ((one, parts[:2]), (other, parts[1:]), (whole, parts)):
        merge([part / "junit.xml" for part in those], out)

    def bring(*files: Path) -> int:
        return main(["history", "import", *map(str, files), "--output", str(tmp_path)])

    assert bring(one, other) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{other}: run ")
    assert f": run {parts[1].name} is also a part of the merged run " in line
    assert states(tmp_path / "history.sqlite") == [{"passed": 2}]
    assert bring(whole) == 0
    assert states(tmp_path / "history.sqlite") == [{"passed": 3}]
    assert bring(one, other) == 0  # both are in the whole one, which stays
    assert states(tmp_path / "history.sqlite") == [{"passed": 3}]


def test_devices_of_a_merged_run_are_those_of_their_hosts(tmp_path: Path) -> None:
    parts = [
        run_in(tmp_path / name, [ended(name, device=0)], shard=f"{number}/2", host=f"h{number}")
        for number, name in enumerate("ab", 1)
    ]
    merge([part / "junit.xml" for part in parts], tmp_path / "merged.xml")
    remembered(tmp_path / "h.sqlite", tmp_path / "merged.xml")
    with open_history(tmp_path / "h.sqlite") as history:
        found = questions.by_device(history, questions.run_named(history))
    assert [one.name for one in found] == ["h1 npu-0", "h2 npu-0"]


def test_runs_of_another_host_do_not_say_what_could_run_here(tmp_path: Path) -> None:
    mine, other = (run_in(tmp_path / name / "runs", [ended("a")], host=f"host of {name}") for name in "ab")
    remembered(tmp_path / "h.sqlite", mine, other)
    past = past_of(tmp_path / "h.sqlite", Folders(mine.parent), NIGHT.replace(day=9), pytest.fail)
    assert {name: end.here for name, end in past.ends(ended("a").job.id)} == {
        mine.name: True,
        other.name: False,
    }


def test_a_question_makes_no_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"sqlite:///{tmp_path}/typo.sqlite")
    assert main(["history", "new", "--output", str(tmp_path)]) == 4
    assert capsys.readouterr().err.startswith(f"{tmp_path}/typo.sqlite: there is no history yet; ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda path: path.mkdir(),
            "there is no run in it; name a folder of runs, a results.json or a JUnit",
        ),
        (lambda path: path.write_text("{}"), "is no results.json of this pipeline"),
        (lambda path: None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_source_is_refused(make: Callable[[Path], object], told: str, tmp_path: Path) -> None:
    make(tmp_path / "source")
    with pytest.raises(UserError, match=told):
        list(results_at(tmp_path / "source"))


def test_a_broken_run_among_others_is_told_and_the_others_come_in(tmp_path: Path) -> None:
    broken, good = (run_in(tmp_path, [ended("a")], killed=True) for _ in range(2))
    (broken / "journal.jsonl").write_text("nonsense\n")
    found = {isinstance(one, UserError): one for one in results_at(tmp_path)}
    assert "damaged line" in str(found[True])
    assert getattr(found[False], "run", "") == good.name


def test_the_history_is_beside_the_runs_unless_a_url_is_given(tmp_path: Path) -> None:
    assert place(tmp_path, {}) == place(tmp_path, {VARIABLE: ""}) == tmp_path / "history.sqlite"
    assert place(tmp_path, {VARIABLE: UNREACHABLE}) == UNREACHABLE
    assert place(tmp_path, {VARIABLE: "sqlite:////srv/h.sqlite"}) == Path("/srv/h.sqlite")
    for refused in ("sqlite://", "sqlite:///:memory:", "sqlite:///file:x", "sqlite:////tmp/x?timeout=1"):
        assert place(tmp_path, {VARIABLE: refused}) == refused
    assert issubclass(HistoryError, UserError)


def test_whatever_the_database_does_the_folders_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_in(tmp_path / "runs", [ended("a", "x")])
    path = tmp_path / "h.sqlite"
    record_run(path, run.parent, run.name, pytest.fail)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE results SET state = 'dreamt'")
        connection.commit()
    told: list[str] = []

    def asked() -> list[str]:
        past = past_of(path, Folders(run.parent), NIGHT.replace(day=9), told.append)
        return [end.fingerprint for _, end in past.ends(ended("a").job.id)]

    assert asked() == ["x"]
    monkeypatch.setattr("pipeline.history.store.open_history", lambda *_: 1 // 0)
    assert asked() == ["x"]
    unknown, crash = told
    assert unknown.startswith("history: it has the state 'dreamt', which this pipeline does not know: update")
    assert crash.startswith("history: ZeroDivisionError: ")


def test_a_state_of_another_pipeline_is_a_line(tmp_path: Path) -> None:
    run = run_in(tmp_path / "runs", [ended("a", "x")])
    path = tmp_path / "h.sqlite"
    record_run(path, run.parent, run.name, pytest.fail)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE results SET state = 'dreamt'")
        connection.commit()
    with open_history(path) as history:
        last = questions.run_named(history)
        for ask in (questions.failing, questions.new, questions.by_platform):
            with pytest.raises(HistoryError, match="'dreamt', which this pipeline does not know"):
                ask(history, last)
