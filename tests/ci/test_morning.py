"""The script of the morning after: what it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "ci" / "morning.sh"


def refused(folder: Path, *words: str) -> str:
    """What the script says in a folder, where it changes nothing."""
    before = sorted(folder.rglob("*"))
    ended = subprocess.run(
        ["bash", str(SCRIPT), *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (4, "")
    assert sorted(folder.rglob("*")) == before
    (line,) = ended.stderr.splitlines()
    return line


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a night and a link to it."""
    (tmp_path / "some" / "night").mkdir(parents=True)
    (tmp_path / "some" / "night" / "junit.xml").touch()
    (tmp_path / "link").symlink_to("some")
    return tmp_path


@pytest.mark.parametrize("site", ["some/night", "some/night/", "some", "link", "link/../some/night", "."])
def test_a_site_that_would_take_the_night_with_it_is_refused(site: str, checkout: Path) -> None:
    said = refused(checkout, "some/night", site)
    assert said.startswith(f"ci/morning.sh: SITE {site} is made anew, and ")
    assert said.endswith(" would go with it: name another folder")


@pytest.mark.parametrize("words", [(), ("some/night",), ("some/night", "site", "more")])
def test_folder_and_site_are_named(words: tuple[str, ...], checkout: Path) -> None:
    assert refused(checkout, *words) == "ci/morning.sh: write ci/morning.sh FOLDER SITE"
