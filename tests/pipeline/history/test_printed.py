"""How the command line prints answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.commands.cli import main
from pipeline.ground.jobs import State
from pipeline.history.store import open_history

from .conftest import ended, night


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
