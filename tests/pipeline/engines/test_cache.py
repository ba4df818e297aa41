from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pipeline.engines.cache import IN_USE, building, prune_builds

NOW = datetime.now(timezone.utc)
DAY = timedelta(days=1)

HOLDS = """\
import sys
from pathlib import Path
from pipeline.engines.cache import building
folder = Path(sys.argv[1])
with building(folder):
    (folder / "unfinished").write_text("half")
    print("builds", flush=True)
    sys.stdin.read()
    (folder / "unfinished").replace(folder / "runner")
"""


def built(cache: Path, name: str, ago: timedelta) -> Path:
    """A build of 100 bytes that was last asked for some time ago."""
    folder = cache / name
    with building(folder):
        (folder / "runner").write_bytes(bytes(100))
    unused(folder, ago)
    return folder


def unused(folder: Path, ago: timedelta) -> None:
    then = (NOW - ago).timestamp()
    os.utime(folder, (then, then))


def names(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def test_builds_go_by_age_and_then_by_bytes_but_none_that_may_be_in_use(tmp_path: Path) -> None:
    one, two, old, fresh = (f"program-{digit * 24}" for digit in "abcd")
    built(tmp_path, one, 2 * DAY)
    built(tmp_path, two, DAY)
    built(tmp_path, old, 40 * DAY)
    built(tmp_path, fresh, IN_USE / 2)
    (tmp_path / "somebody's own").mkdir()
    prune_builds(tmp_path, NOW)
    assert names(tmp_path) == [one, two, fresh, "somebody's own"]
    prune_builds(tmp_path, NOW, most_bytes=200)
    assert names(tmp_path) == [two, fresh, "somebody's own"]
    prune_builds(tmp_path, NOW, most_bytes=0)
    assert names(tmp_path) == [fresh, "somebody's own"]


def test_a_build_that_is_asked_for_is_used(tmp_path: Path) -> None:
    folder = built(tmp_path, "headers-" + "a" * 24, 40 * DAY)
    with building(folder):
        pass
    prune_builds(tmp_path, NOW, most_bytes=0)
    assert (folder / "runner").exists()


def test_a_build_that_another_process_makes_is_not_removed_under_it(tmp_path: Path) -> None:
    """Even if it takes so long that it seems to be unused."""
    folder = tmp_path / ("program-" + "a" * 24)
    command = [sys.executable, "-c", HOLDS, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdin is not None
        assert maker.stdout is not None
        assert maker.stdout.readline() == "builds\n"
        unused(folder, 40 * DAY)
        prune_builds(tmp_path, NOW, most_bytes=0)
        assert (folder / "unfinished").exists()
        maker.stdin.close()
    assert maker.returncode == 0
    assert (folder / "runner").read_text() == "half"
    unused(folder, 40 * DAY)
    prune_builds(tmp_path, NOW, most_bytes=0)
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_read_is_left(tmp_path: Path) -> None:
    prune_builds(tmp_path / "none", NOW)
    assert names(tmp_path) == []
