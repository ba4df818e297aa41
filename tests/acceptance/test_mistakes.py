"""Mistakes a user can make: one line on stderr, exit code 4, nothing begun."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Pipeline = Callable[..., Any]
Refused = Callable[..., str]

ONE = ("--platform", "emu-a2a3", "--geometry", "bands", "--kernel", "fused", "--profile", "small")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["start"], "invalid choice: 'start'"),
        (["report"], "the following arguments are required: ACTION"),
        (["run", "--geometri", "bands"], "unrecognized arguments: --geometri bands"),
        (["run", "--stage", "tile"], "pipeline run: --stage has no place here; it is an option of compare;"),
        (["compile", "--inputs=x.npz"], "it is an option of run, compare; see python -m pipeline run --help"),
        (["--inject", "unwritten", "run"], "python -m pipeline: --inject has no place here"),
        (["report", "--junit", "x.xml", "show"], "an option of compile, run, compare, report show; see"),
        (["compare", "--stage", "tiles"], "invalid choice: 'tiles'"),
        (["run", *ONE, "--attachments", "both"], "--attachments: invalid choice: 'both'"),
        (["run", "--failed", ""], "an argument is empty"),
        (["run", *ONE, "--shard="], "'--shard' is empty"),
        (["run", *ONE, "--jobs=--"], "'--jobs' is empty"),
        (["run", "--jobs", "0"], "'0': must be a whole number, at least 1"),
        (["run", "--jobs", "-1"], "'-1': must be a whole number, at least 1"),
        (["run", "--jobs", "9" * 5000], "9': must be a whole number, at least 1"),
        (
            ["run", *ONE, "--jobs", "1025"],
            "--jobs 1025 does not go with --executor local, which runs at most 1024",
        ),
        (["run", "--jobs", "two"], "'two': must be a whole number"),
        (["run", "--retries", "-1"], "'-1': must be a whole number, at least 0"),
        (["run", "--repeat", "1.5"], "'1.5': must be a whole number, at least 1"),
        (["run", "--date", "20260101"], "'20260101': a day is written YYYY-MM-DD"),
        (["run", "--date", "2026-W01-1"], "'2026-W01-1': a day is written YYYY-MM-DD"),
        (["run", "--date", "2026-02-30"], "'2026-02-30': a day is written YYYY-MM-DD"),
        (["run", *ONE, "--queue", "5m"], "--queue does not go with --launcher local, only with task-submit"),
        (
            ["run", *ONE, "--references", "none.json"],
            "none.json: the references cannot be read: No such",
        ),
        (["run", "--deadline", "abc"], "a duration is 90s, 5m, 1h30m or a number of seconds"),
        (["run", "--deadline", "0"], "a duration is"),
        (["run", "--resume", "last", "--failed", "last"], "not allowed with argument"),
        (["run", "--resume", "last"], "there is no run yet"),
        (["run", "--resume", "last", "--kernel", "fused"], "--kernel does not go with --resume"),
        (["run", "--failed", "last", "--shard", "1/2"], "--shard does not go with --failed"),
        (["run", "--failed", "20260101-000000-000000"], "no run '20260101-000000-000000' in"),
        (["report", "show", "last"], "there is no run yet"),
        (["report", "show", "../.."], "no run '../..' in"),
        (["report", "merge", "a.xml", "--out", "b.xml"], "nothing to merge: a.xml: cannot be read"),
        (["report", "merge", "matrix.yaml", "--out", "b.xml"], "nothing to merge: matrix.yaml: "),
        (["report", "merge", "a.xml", "--out", "b.xml", "--shards", "0"], "at least 1"),
        (
            ["report", "merge", "a.xml", "--out", "b.xml", "--shards", "1000000000"],
            "at least 1, at most 256",
        ),
        (["run", *ONE, "--junit", "a", "--summary", "./a"], "--summary a: this file has another use"),
        (["report", "show", "--junit", "a", "--summary", "a"], "--summary a: this file has another use"),
        (["run", *ONE, "--junit", "references.json"], "--junit references.json: this file has another use"),
        (["run", *ONE, "--junit", "matrix.yaml"], "--junit matrix.yaml: this file has another use"),
        (["run", *ONE, "--devices", "7"], "device 7 is not among the devices of platform emu-a2a3 (0, 1)"),
        (["run", *ONE, "--devices", "0-1"], "--devices"),
        (["run", *ONE, "--devices", "0,0"], "--devices"),
        (["run", *ONE, "--devices", "1" * 5000], "is not a device id"),
        (["run", *ONE, "--deadline", "169h"], "at most a week"),
        (["run", *ONE, "--output", "o\udcff"], "its full path is not UTF-8"),
        (["run", *ONE, "--inject", "no-such-fault"], "no-such-fault"),
        (
            ["run", "--inject", "unwritten"],
            "--inject unwritten: faults are injected on the emulator only, and device/a2a3/",
        ),
        (["run", *ONE, "--output", "matrix.yaml"], "Not a directory"),
        (["run", *ONE, "--output", "long" * 100], "File name too long"),
        (["run", *ONE, "--output", "long" * 100, "--shard", "1/2"], "File name too long"),
        (["list", "--output", "long" * 100, "--shard", "1/2"], "File name too long"),
        (["report", "show", "--output", "long" * 100], "File name too long"),
        (["run", *ONE, "--junit", "."], ".: the report cannot be written: Is a directory"),
        (["run", *ONE, "--junit", "matrix.yaml/x.xml"], "matrix.yaml/x.xml: the report cannot be written"),
        (["run", *ONE, "--summary", "/proc/none/s.md"], "/proc/none/s.md: the report cannot be written"),
        (
            ["compile", "--kernel", "fusd"],
            "kernel `fusd` is not in the plan; the closest known name is `fused`",
        ),
    ],
)
@pytest.mark.usefixtures("two_devices")
def test_it_is_refused_before_anything_begins(
    words: list[str], said: str, refused: Refused, workspace: Path
) -> None:
    assert said in refused(*words)
    assert not list((workspace / "out").glob("runs/*"))


def test_without_a_matrix(refused: Refused, workspace: Path) -> None:
    (workspace / "matrix.yaml").unlink()
    assert refused("list").startswith("matrix.yaml: cannot be read: No such file or directory")


def test_an_id_of_a_lock_folder_must_be_absolute(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_LOCKS", "locks")
    assert "PIPELINE_LOCKS" in refused("run", *ONE)


def test_a_lent_device_that_is_no_number(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASK_DEVICE", "npu0")
    assert "TASK_DEVICE" in refused("run", *ONE)


def test_a_task_that_lent_no_device(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASK_DEVICE", "")
    assert "TASK_DEVICE=''" in refused("run", *ONE)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--junit", "is a device or a pipe"),
        ("--summary", "is a device or a pipe"),
        ("--matrix", "cannot be read: is a device or a pipe"),
        ("--references", "is a device or a pipe"),
        ("--inputs", "is a device or a pipe"),
    ],
)
def test_what_is_no_file_is_neither_waited_for_nor_removed(
    option: str, said: str, refused: Refused, workspace: Path
) -> None:
    pipe = workspace / "pipe"
    os.mkfifo(pipe)
    assert said in refused("run", *ONE, option, "pipe")
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", *ONE, "--junit", "loop"], "--junit loop: is a loop of symbolic links"),
        (["run", *ONE, "--summary", "loop"], "--summary loop: is a loop of symbolic links"),
        (["run", *ONE, "--junit", "loop/x.xml"], "the report cannot be written"),
        (["run", *ONE, "--matrix", "loop"], "loop: cannot be read: Too many levels"),
        (["run", *ONE, "--references", "loop"], "loop: the references cannot be read: Too many levels"),
        (["run", *ONE, "--inputs", "loop"], "loop: cannot be read: Too many levels"),
        (["run", *ONE, "--output", "loop"], "Too many levels"),
        (["report", "merge", "loop", "--out", "m.xml"], "nothing to merge: loop: cannot be read"),
        (["report", "merge", "matrix.yaml", "--out", "loop"], "--out loop: is a loop of symbolic links"),
    ],
)
def test_links_in_a_circle_are_told_and_stay(
    words: list[str], said: str, refused: Refused, workspace: Path
) -> None:
    (workspace / "loop").symlink_to("loop")
    assert said in refused(*words)
    assert (workspace / "loop").is_symlink()


def test_a_lock_folder_of_links_in_a_circle(
    refused: Refused, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "loop").symlink_to("loop")
    monkeypatch.setenv("PIPELINE_LOCKS", str(workspace / "loop"))
    assert "loop: File exists; set PIPELINE_LOCKS" in refused("run", *ONE)


@pytest.mark.parametrize("number", ["ENOSYS", "ENOLCK", "ENOTSUP"])
def test_a_file_system_without_locks_is_refused_at_once_and_no_other_locks_are_made(
    number: str, workspace: Path, tmp_path: Path
) -> None:
    """In a process of its own, whose `flock` fails as on such a file system."""
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, fcntl, os\n"
        "def flock(*_):\n"
        f"    raise OSError(errno.{number}, os.strerror(errno.{number}))\n"
        "fcntl.flock = flock\n"
    )
    locks = tmp_path / "locks"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "PIPELINE_LOCKS": str(locks)}
    ended = subprocess.run(
        [sys.executable, "-m", "pipeline", "run", *ONE],
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    reason = os.strerror(getattr(errno, number))
    assert (ended.returncode, ended.stdout) == (4, "")
    assert ended.stderr == (
        f"lock folder {locks}: files there cannot be locked: flock fails with '{reason}';"
        " set PIPELINE_LOCKS to a local folder, the same for all runs on this host\n"
    )
    assert list(locks.iterdir()) == []
    assert not (workspace / "out" / "runs").exists()


def test_a_damaged_journal_is_named(refused: Refused, pipeline: Pipeline, workspace: Path) -> None:
    assert pipeline("compile", "--platform", "emu-a2a3", "--geometry", "bands", "--kernel", "fused").code == 0
    (journal,) = workspace.glob("out/runs/*/journal.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"{]\n", *lines[1:]]))
    assert f"{journal.name}:2: damaged line" in refused("report", "show")
    assert f"{journal.name}:2: damaged line" in refused("compile", "--resume", "last")


def test_an_older_report_is_gone_even_where_the_run_is_refused(refused: Refused, workspace: Path) -> None:
    (workspace / "junit.xml").write_text("last night's")
    (workspace / "summary.md").write_text("last night's")
    refused("run", "--geometry", "band", "--junit", "junit.xml", "--summary", "summary.md")
    assert {path.name for path in workspace.iterdir()} == {"matrix.yaml", "out"}


@pytest.mark.parametrize("place", [".", "matrix.yaml/s.md", "/proc/none/s.md"])
def test_a_report_is_not_lost_to_another_that_cannot_be_written(
    place: str, pipeline: Pipeline, refused: Refused, workspace: Path
) -> None:
    (workspace / "junit.xml").write_text("last night's")
    assert pipeline("compile", "--platform", "emu-a2a3", "--geometry", "bands", "--kernel", "fused").code == 0
    for command in (("report", "show"), ("run", *ONE)):
        assert "cannot be written" in refused(*command, "--junit", "junit.xml", "--summary", place)
        assert (workspace / "junit.xml").read_text() == "last night's"


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--id", "absent", "--output", "new/o", "--junit", "new/j/x.xml", "--summary", "new/s.md"),
        ("report", "merge", "absent.xml", "--out", "new/m/x.xml"),
        ("report", "show", "--output", "new", "--junit", "new/x.xml"),
        ("notify", "absent.xml", "--markdown", "new/n/n.md"),
        ("dashboard", "absent.xml", "--site", "new/d"),
        ("history", "import", "absent.xml", "--output", "new/h"),
    ],
)
def test_what_is_refused_leaves_no_folder(words: tuple[str, ...], refused: Refused, workspace: Path) -> None:
    before = {*workspace.iterdir()}
    refused(*words)
    assert {*workspace.iterdir()} == before


@pytest.mark.parametrize("output", ["matrix.yaml", "/proc", "n" * 300])
def test_an_output_that_takes_no_runs_is_told_before_a_cluster_is_asked(
    output: str, refused: Refused
) -> None:
    said = refused("run", *ONE, "--output", output, "--executor", "ray", "--address", "192.0.2.1:6379")
    assert said.startswith("runs in ")
    assert said.endswith("; name another --output")


def test_references_that_cannot_be_written_are_told_before_the_run(refused: Refused, workspace: Path) -> None:
    said = refused("run", *ONE, "--update-references", "--references", "/proc/none/references.json")
    assert "the references cannot be written: " in said
    assert not (workspace / "out" / "runs").exists()


def test_text_of_a_file_cannot_turn_a_terminals_line(refused: Refused, pipeline: Pipeline) -> None:
    case = '<testcase classname="c" name="n"/>'
    totals = 'tests="1" failures="0" errors="0" skipped="0"'
    report = f'<testsuites {totals}><testsuite name="s" {totals}>{case}</testsuite></testsuites>'
    properties = '<properties><property name="git" value="\u202e{}"/></properties>'
    for name in ("one.xml", "two.xml"):
        Path(name).write_text(report.replace("<testcase", properties.format(name) + "<testcase"))
    merged = pipeline("report", "merge", "one.xml", "two.xml", "--out", "all\x1b[31m.xml")
    assert merged.out.startswith(r"all\x1b[31m.xml: ")
    assert r"git is \u202eone.xml (one.xml)" in merged.out
    assert all(line.isprintable() for line in merged.out.splitlines())
    assert r"\u202e" in refused("report", "show", "\u202e")
