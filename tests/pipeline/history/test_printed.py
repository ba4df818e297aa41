"""How the command line prints answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.commands.cli import main
from pipeline.ground.jobs import State
from pipeline.history.store import open_history

from .conftest import ended, night


@pytest.mark.parametrize(("asked", "told"), [("nights", ["60.0"]), ("slower", ["91.7", "1.7"])])
def test_seconds_are_written_as_a_run_writes_them(
    asked: str,
    told: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PIPELINE_HISTORY", raising=False)
    with open_history(tmp_path / "history.sqlite") as history:
        for number in range(6):
            history.record(night(number, ended("a", seconds=1.70412)))
        history.record(night(6, ended("a", seconds=91.70412)))
    assert main(["history", asked, "--output", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert set(told) <= set(said.split())
    assert ".704" not in said


@pytest.mark.parametrize(
    "message", ["[/foo] closes nothing", "[bold]b[/bold]", "[link=http://e]e[/link]", ":smile:"]
)
def test_what_a_kernel_printed_is_no_markup(
    message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIPELINE_HISTORY", raising=False)
    with open_history(tmp_path / "history.sqlite") as history:
        history.record(night(0, ended("a", State.CRASHED, message=message)))
    assert main(["history", "new", "--output", str(tmp_path)]) == 0
    assert message in capsys.readouterr().out
