"""What the README and the other pages for people promise: commands that parse, links that lead somewhere."""

from __future__ import annotations

import re
import shlex
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from golden.geometry import Conv, Geometry
from golden.inputs import load_inputs
from golden.layout import matrix_to_filter, nc1hwc0_to_nhwc
from golden.profiles import CATALOGUE, make
from golden.vreq8 import VARIANTS
from pipeline.commands.options import parser
from pipeline.matrix.expand import expand
from pipeline.matrix.load import load

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = {"device": "run", "compile": "compile", "compare": "compare", "report": "report"}


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


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


def test_what_only_the_compare_lane_has_is_shown() -> None:
    commands = parser().commands
    shown = {word for words in pipeline_commands() if words[0] == "compare" for word in words}
    assert commands["compare"].options - commands["run"].options <= shown


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


def test_every_variant_and_profile_is_told() -> None:
    rows = [line for line in (ROOT / "docs/tensors.md").read_text().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert {*VARIANTS, *CATALOGUE} <= named


@pytest.mark.usefixtures("torch_installed")
def test_the_inputs_are_made_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    geometry = Geometry(10, 16, 32, 64, 32, Conv(), Conv())
    tensors = make("full-range", geometry)
    given = {
        "x": nc1hwc0_to_nhwc(tensors.x, 10, 16).T.reshape(1, 32, 10, 16),
        "filter1": matrix_to_filter(tensors.filter1, 3),
        "filter2": matrix_to_filter(tensors.filter2, 3),
        **{name: getattr(tensors, name).ravel() for name in ("bias1", "bias2", "scales1", "scales2")},
        **{name: getattr(tensors, name).astype(np.int32) for name in ("offsets1", "offsets2")},
    }
    (example,) = blocks("python", "docs/tensors.md")
    monkeypatch.chdir(tmp_path)
    exec(example, given)
    loaded = load_inputs(Path("my-tensors.npz"), geometry).arrays("vreq8")
    expected = tensors.arrays("vreq8")
    assert loaded.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(loaded[name], array)
