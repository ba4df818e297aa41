from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Pipeline = Callable[..., Any]

ONE = ("--platform", "emu-a2a3", "--geometry", "pair-24x16", "--kernel", "fused", "--profile", "small")
PAGE = "jobs/device+emu-a2a3+pair-24x16+fused+small.html"

pytestmark = pytest.mark.usefixtures("recorded")


def test_a_run_leaves_a_dashboard_and_the_command_writes_it_again(
    pipeline: Pipeline, refused: Callable[..., str], workspace: Path
) -> None:
    fault = pipeline("run", *ONE, "--inject", "offset-unsigned-1")
    assert fault.code == 1
    (run,) = (workspace / "out" / "runs").iterdir()
    first = (run / "dashboard" / "index.html").read_text()
    assert "1 of 1 job is red: 1 mismatch" in first
    assert "offset-unsigned-1" in first
    assert "rows-columns.png" in (run / "dashboard" / PAGE).read_text()
    again = pipeline("dashboard", "last", "--site", "public")
    assert (again.code, again.out) == (0, f"run {run.name}: public/index.html\n")
    assert len(list(Path("public/files").rglob("rows-columns.png"))) == 1
    Path("mine").mkdir()
    Path("mine/file").touch()
    assert "is no dashboard, and not empty" in refused("dashboard", "last", "--site", "mine")


def test_a_dashboard_that_cannot_be_written_changes_no_run(pipeline: Pipeline, workspace: Path) -> None:
    done = pipeline("run", *ONE)
    (run,) = (workspace / "out" / "runs").iterdir()
    (run / "dashboard" / "index.html").unlink()
    resumed = pipeline("run", "--resume", "last")
    assert (done.code, resumed.code) == (0, 0)
    (line,) = resumed.err.splitlines()
    assert line.startswith("dashboard: ")
    assert "write it again: python -m pipeline dashboard" in line


def test_what_is_no_run_has_no_dashboard(refused: Callable[..., str], workspace: Path) -> None:
    Path("foreign.json").write_text('{"jobs": []}')
    Path("foreign.xml").write_text("<testsuites/>")
    Path("empty").mkdir()
    for name in ("nosuch", "last", "foreign.json", "foreign.xml", "empty", "matrix.yaml", "/dev/null"):
        line = refused("dashboard", name)
        assert name in line or (name == "last" and "no run" in line), name
    assert {path.name for path in workspace.iterdir()} >= {"empty", "foreign.json", "foreign.xml"}
    assert not list(workspace.rglob("index.html"))


def test_a_dashboard_that_cannot_be_written_is_one_line(
    pipeline: Pipeline, refused: Callable[..., str], last_run: Callable[[], Path]
) -> None:
    assert pipeline("run", *ONE).code == 0
    Path("file").write_text("mine")
    Path("empty-file").touch()
    for name in ("file", "empty-file"):
        assert refused("dashboard", "last", "--site", name).startswith(f"{Path(name).absolute()}: ")
    assert Path("file").read_text() == "mine"
    # A folder in which not even root can write.
    assert "cannot be written" in refused("dashboard", "last", "--site", "/proc/dashboard")
    assert "cannot be written" in refused("dashboard", "last", "--site", "file/dashboard")
    assert (last_run() / "dashboard" / "index.html").is_file()
