from __future__ import annotations

import pytest

from pipeline.cli import main
from pipeline.options import LANES


@pytest.mark.parametrize(
    "command", [[], ["list"], *([name] for name in LANES), ["report", "show"], ["report", "merge"]]
)
def test_every_command_explains_itself(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*command, "--help"])
    assert left.value.code == 0
    assert " ".join(["python -m pipeline", *command]) in capsys.readouterr().out


def test_every_option_that_takes_a_value_says_what_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    text = capsys.readouterr().out
    for option in ("--geometry", "--jobs", "--devices", "--inputs", "--stage", "--junit", "--deadline"):
        assert f"{option} " in text
