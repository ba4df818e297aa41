from __future__ import annotations

import itertools
import re

import pytest

from pipeline.commands.cli import main
from pipeline.commands.options import LANES, parser


@pytest.mark.parametrize(
    "command", [[], ["list"], *([name] for name in LANES), ["report", "show"], ["report", "merge"]]
)
def test_every_command_explains_itself(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*command, "--help"])
    assert left.value.code == 0
    assert " ".join(["python -m pipeline", *command]) in capsys.readouterr().out


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command line that goes no further has to say."""
    with pytest.raises(SystemExit):
        main(words)
    written = capsys.readouterr()
    return written.out + written.err


def test_an_option_of_other_commands_is_told_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [
        "list",
        *LANES,
        "doctor",
        "replay",
        "notify",
        "dashboard",
        *(f"report {action}" for action in ("show", "excuses", "merge")),
        "history",
    ]
    known = {
        name: set(re.findall(r"^ +(--[a-z-]+)", said([*name.split(), "--help"], capsys), re.MULTILINE))
        for name in commands
    }
    options = set().union(*known.values())
    assert len(options) > 20
    for name, option in itertools.product(commands, sorted(options)):
        if option in known[name]:
            continue
        line = said([*name.split(), option, "value"], capsys)
        begins = re.escape(f"python -m pipeline {name}: {option} has no place here; it is an option of ")
        listed = re.fullmatch(rf"{begins}(.*); see .* --help\n", line)
        assert listed, line
        assert set(listed[1].split(", ")) == {other for other in commands if option in known[other]}


def test_a_command_need_not_wait_until_the_others_are_declared() -> None:
    assert list(parser("list").commands) == ["list"]
    assert list(parser("no-such").commands) == list(parser().commands)


def test_every_option_that_takes_a_value_says_what_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    text = capsys.readouterr().out
    for option in ("--geometry", "--jobs", "--devices", "--inputs", "--stage", "--junit", "--deadline"):
        assert f"{option} " in text
