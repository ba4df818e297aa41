from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ONE = ("--platform", "emu-a2a3", "--geometry", "bands", "--kernel", "fused")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with no byte left."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("a full disk needs mount and umount")
    folder = tmp_path / "full"
    folder.mkdir()
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("a full disk needs the right to mount a tmpfs")
    try:
        with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
            for _ in range(17):
                file.write(bytes(4096))
        yield folder
    finally:
        subprocess.run([umount, folder], check=True)


def test_a_run_on_a_full_disk_is_red_and_says_why(full_disk: Path, pipeline: Callable[..., Any]) -> None:
    outcome = pipeline("compile", *ONE, "--output", full_disk)
    assert outcome.code == 3
    (run,) = full_disk.glob("runs/*")
    assert (
        f"the pipeline itself failed: {run}/journal.jsonl: cannot be written: No space left on device; "
        "make room there or name another --output, then begin a new run"
    ) in outcome.out
    assert "exit code 3" in outcome.out
    assert "OSError" not in outcome.out
    assert not list(full_disk.glob("runs/*/junit.xml"))
    assert re.search(r"^run \S+: artefacts in ", outcome.out, re.MULTILINE)
    for again in (("run", "--resume", "last"), ("report", "show")):
        later = pipeline(*again, "--output", full_disk)
        assert later.code == 4
        assert "holds no run: it ended before its first line was written, killed or on a full" in later.err


def test_a_report_that_does_not_fit_is_not_there_and_the_run_is_red(
    full_disk: Path, pipeline: Callable[..., Any]
) -> None:
    outcome = pipeline("compile", *ONE, "--junit", full_disk / "junit.xml")
    assert outcome.code == 3
    assert f"{full_disk}/junit.xml: the report cannot be written: No space left on device" in outcome.out
    assert "exit code 3" in outcome.out
    assert "OSError" not in outcome.out
    assert {path.name for path in full_disk.iterdir()} == {"filler"}
    assert re.search(r"^run \S+: summary, artefacts in ", outcome.out, re.MULTILINE)


def test_a_history_on_a_full_disk_is_one_line_and_changes_no_run(
    full_disk: Path, pipeline: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINE_HISTORY", f"sqlite:///{full_disk}/history.sqlite")
    outcome = pipeline("compile", *ONE)
    assert outcome.code == 0
    for line in outcome.err.splitlines():
        assert line.startswith(f"history {full_disk}/history.sqlite: ")
    assert "; the report of run " in line
