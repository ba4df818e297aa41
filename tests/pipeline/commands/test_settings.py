from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pipeline.commands.options import LANES, parser
from pipeline.commands.settings import settings_given
from pipeline.ground.settings import DECLARED, Settings

PLAN = {"geometry", "platform", "kernel", "profile", "id", "shard", "engines"}
"""Options that choose the jobs of a run: the journal holds the jobs."""

RUNS_OWN = {
    *("jobs", "devices", "launcher", "executor", "address", "queue", "deadline"),  # where and how fast
    *("resume", "failed"),  # which earlier run
    *("update-references", "junit", "summary", "attachments"),  # what becomes of the results
}
"""Options that are about one call of the command: they change neither what a job does nor its verdict."""


def options_of(command: str) -> set[str]:
    found = parser().commands[command].options
    return {option for option in found if option.startswith("--")} - {"--help"}


def test_every_setting_has_its_option_and_every_option_is_a_setting_or_the_runs_own() -> None:
    settings = {each.option for each in DECLARED}
    assert settings <= set().union(*map(options_of, LANES))
    for command in LANES:
        own = {f"--{name}" for name in PLAN | RUNS_OWN}
        assert not settings & own
        assert options_of(command) <= settings | own


def test_a_command_line_that_gives_no_setting_has_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in LANES:
        assert settings_given(parser().parse_args([command])) == {}


def test_settings_are_those_that_the_words_give_and_their_words_give_them_again(tmp_path: Path) -> None:
    references = tmp_path / "references.json"
    references.write_text("{}")
    settings = Settings(
        matrix=("a.yaml", "b c.yaml"),
        inputs=str(tmp_path / "mine.npz"),
        inject="unwritten",
        stage="tile",
        repeat=1,
        retries=0,
        references=str(references),
        output=str(tmp_path / "o"),
    )
    arguments = parser().parse_args(["compare", *settings.words(), "--date", "2026-03-10"])
    given = Settings(**settings_given(arguments))
    assert settings.words() == [word for word in given.words() if word not in ("--date", "2026-03-10")]
    again = parser().parse_args(["compare", *shlex.split(shlex.join(given.words()))])
    assert Settings(**settings_given(again)) == given


def test_paths_of_settings_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = parser().parse_args(["run", "--inputs", "mine.npz", "--output", "o"])
    assert settings_given(arguments) == {"inputs": str(tmp_path / "mine.npz"), "output": str(tmp_path / "o")}


def test_references_that_are_not_there_yet_are_none(tmp_path: Path) -> None:
    arguments = parser().parse_args(["run", "--references", str(tmp_path / "new"), "--update-references"])
    assert settings_given(arguments) == {"references": None}
