"""What the README and the other pages for people promise: commands that parse, links that lead somewhere."""

from __future__ import annotations

import re
import shlex
from datetime import date
from pathlib import Path

import pytest

from pipeline.matrix.expand import expand
from pipeline.matrix.load import load
from pipeline.options import parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = {"device": "run", "compile": "compile", "compare": "compare", "report": "report"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def pipeline_commands() -> list[list[str]]:
    """The pipeline's words of every command line in the README."""
    found = []
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line, comments=True)
        if "--" in words:
            session = words[words.index("--") - 1]
            found.append([COMMANDS[session], *words[words.index("--") + 1 :]])
        elif "pipeline" in words:
            found.append(words[words.index("pipeline") + 1 :])
    return found


@pytest.mark.parametrize("words", pipeline_commands(), ids=" ".join)
def test_a_command_is_understood(words: list[str]) -> None:
    assert parser().parse_args(words).command == words[0]


def test_the_two_commands_stand_together() -> None:
    setup, tests = blocks("sh")[0].splitlines()
    assert setup.endswith("nox -s device -- --geometry mc62")
    assert tests == ".venv/bin/nox -s tests"


def test_the_overlay_can_be_used_as_it_stands(tmp_path: Path) -> None:
    (overlay,) = blocks("yaml")
    (tmp_path / "mine.yaml").write_text(overlay)
    jobs = expand(load([ROOT / "matrix.yaml", tmp_path / "mine.yaml"]), date(2026, 12, 1))
    mine = [job.id for job in jobs if job.geometry_name == "mine" and job.id.startswith("device/")]
    assert len(mine) == 8
    assert "device/emu-half-away/mine/two-pass/ties" in mine


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    for target in targets:
        assert target.startswith("https://") or (page.parent / target).exists(), target
