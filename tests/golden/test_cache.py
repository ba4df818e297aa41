from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from golden import profiles
from golden.cache import Golden, golden_for, is_cached, prune
from golden.geometry import Conv, Geometry
from golden.profiles import ProfileError
from golden.specs import Tensors

pytest.importorskip("torch", reason="torch is not installed")

from golden.reference import reference

ROOT = Path(__file__).resolve().parents[2]
PAIR = Geometry(9, 7, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))
NOW = datetime(2026, 3, 10, 4, 0, tzinfo=timezone.utc)
DAY = timedelta(days=1)
GET = """
import resource, sys
from pathlib import Path
from golden.cache import golden_for
from golden.geometry import Conv, Geometry
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
pair = Geometry(9, 7, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))
golden = golden_for(pair, "small", "vreq8", Path(sys.argv[1]))
print("torch" in sys.modules, int(golden.y.astype(int).sum()), golden.note)
"""


def in_a_process(*arguments: str, root: Path = ROOT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", GET, *arguments], cwd=root, text=True, stdout=subprocess.PIPE
    )


def answer(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate()
    assert process.returncode == 0
    return output.strip()


def same(one: Golden, other: Golden) -> bool:
    inputs = all(
        np.array_equal(getattr(one.tensors, field.name), getattr(other.tensors, field.name))
        for field in fields(Tensors)
    )
    return inputs and np.array_equal(one.mid, other.mid) and np.array_equal(one.y, other.y)


def last_used(path: Path, ago: timedelta) -> Path:
    """A file that was last used so long before `NOW`; made where it is missing."""
    path.touch()
    os.utime(path, ((NOW - ago).timestamp(),) * 2)
    return path


def entry(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def total_of_y() -> int:
    return int(reference(PAIR, profiles.make("small", PAIR)).y.astype(int).sum())


def test_a_hit_gives_what_was_computed(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "when needed"
    computed = golden_for(PAIR, "full-range@7", "half-away", folder)
    wanted = reference(PAIR, profiles.make("full-range@7", PAIR), "half-away")
    assert np.array_equal(computed.mid, wanted.mid)
    assert np.array_equal(computed.y, wanted.y)
    before = entry(folder).stat()
    hit = golden_for(PAIR, "full-range@7", "half-away", folder)
    assert same(hit, computed)
    assert hit.note == computed.note == ""
    assert (entry(folder).stat().st_ino, entry(folder).stat().st_size) == (before.st_ino, before.st_size)


def test_a_hit_imports_no_torch(tmp_path: Path) -> None:
    assert answer(in_a_process(str(tmp_path))) == f"True {total_of_y()}"
    assert answer(in_a_process(str(tmp_path))) == f"False {total_of_y()}"


def test_all_that_determines_a_golden_has_an_entry_of_its_own(tmp_path: Path) -> None:
    tensors = profiles.make("small", PAIR)
    louder = tensors.bias2.copy()
    louder[0, 31] += 1
    wanted = [
        (PAIR, "small", "vreq8"),
        (PAIR, "small", "half-away"),
        (PAIR, "small@1", "vreq8"),
        (PAIR, "ties", "vreq8"),
        (replace(PAIR, conv2=Conv(3, 2, 1)), "small", "vreq8"),
        (PAIR, tensors, "vreq8"),
        (PAIR, replace(tensors, bias2=louder), "vreq8"),
        (PAIR, replace(tensors, x=-tensors.x), "vreq8"),
    ]
    for geometry, source, variant in wanted:
        golden = golden_for(geometry, source, variant, tmp_path)
        made = source if isinstance(source, Tensors) else profiles.make(source, geometry)
        assert np.array_equal(golden.y, reference(geometry, made, variant).y)
    assert len(list(tmp_path.iterdir())) == len(wanted)
    golden_for(PAIR, "small@0", "vreq8", tmp_path)
    assert len(list(tmp_path.iterdir())) == len(wanted), "small is small@0"


def test_an_entry_made_by_other_source_files_is_not_used(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "golden", tmp_path / "golden", ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "cache"
    answer(in_a_process(str(folder), root=tmp_path))
    with (tmp_path / "golden" / "vreq8.py").open("a") as file:
        file.write("# changed\n")
    assert answer(in_a_process(str(folder), root=tmp_path)) == f"True {total_of_y()}"
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: content + b"\0",
        lambda content: bytes(len(content)),
        lambda content: content[:-500] + bytes([content[-500] ^ 1]) + content[-499:],
        lambda content: bytes([content[0] ^ 1]) + content[1:],
    ],
    ids=[
        "empty",
        "digest cut",
        "a byte short",
        "half",
        "a byte long",
        "zeros",
        "a flipped bit",
        "digest bit",
    ],
)
def test_a_corrupt_entry_is_recomputed_and_said_so(tmp_path: Path, damage: object) -> None:
    computed = golden_for(PAIR, "small", "vreq8", tmp_path)
    path = entry(tmp_path)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    again = golden_for(PAIR, "small", "vreq8", tmp_path)
    assert same(again, computed)
    assert f"{path} is corrupt" in again.note
    assert again.note.endswith("recomputed")
    assert golden_for(PAIR, "small", "vreq8", tmp_path).note == "", "the good entry is in its place"


def test_an_entry_under_another_name_is_corrupt(tmp_path: Path) -> None:
    golden_for(PAIR, "small", "vreq8", tmp_path / "one")
    wanted = golden_for(PAIR, "ties", "vreq8", tmp_path / "other")
    shutil.copy(entry(tmp_path / "one"), entry(tmp_path / "other"))
    again = golden_for(PAIR, "ties", "vreq8", tmp_path / "other")
    assert same(again, wanted)
    assert "is corrupt" in again.note


def test_a_folder_that_cannot_be_used_costs_only_the_computation(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    golden = golden_for(PAIR, "small", "vreq8", occupied)
    assert int(golden.y.astype(int).sum()) == total_of_y()
    assert f"golden not kept in the cache {occupied}" in golden.note
    assert "\n" not in golden.note


def test_a_folder_that_cannot_be_entered_has_no_entry(tmp_path: Path) -> None:
    assert not is_cached(PAIR, "small", "vreq8", tmp_path / ("long" * 100))


def test_an_entry_that_cannot_be_read_is_recomputed(tmp_path: Path) -> None:
    golden_for(PAIR, "small", "vreq8", tmp_path)
    path = entry(tmp_path)
    path.unlink()
    path.mkdir()
    golden = golden_for(PAIR, "small", "vreq8", tmp_path)
    assert int(golden.y.astype(int).sum()) == total_of_y()
    assert f"{path} cannot be read (Is a directory): recomputed" in golden.note


def test_a_full_disk_loses_neither_the_golden_nor_leaves_half_an_entry(tmp_path: Path) -> None:
    torch_seen, total, note = answer(in_a_process(str(tmp_path), "1000")).split(" ", 2)
    assert (torch_seen, int(total)) == ("True", total_of_y())
    assert note == f"golden not kept in the cache {tmp_path} (File too large)"
    assert list(tmp_path.iterdir()) == []


def test_writers_at_the_same_time_agree(tmp_path: Path) -> None:
    processes = [in_a_process(str(tmp_path)) for _ in range(3)]
    answers = {answer(process).split(" ", 1)[1] for process in processes}
    assert answers == {str(total_of_y())}
    assert answer(in_a_process(str(tmp_path))) == f"False {total_of_y()}"
    assert entry(tmp_path).suffix == ".golden"


def test_an_unknown_profile_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="unknown profile 'big'"):
        golden_for(PAIR, "big", "vreq8", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_was_not_used_for_long_is_pruned_and_a_hit_is_a_use(tmp_path: Path) -> None:
    golden_for(PAIR, "small", "vreq8", tmp_path)
    hit = last_used(entry(tmp_path), timedelta(days=9000))
    golden_for(PAIR, "ties", "vreq8", tmp_path)
    golden_for(PAIR, "small", "vreq8", tmp_path)
    (idle,) = set(tmp_path.iterdir()) - {hit}
    last_used(idle, timedelta(days=9000))
    prune(tmp_path, max_bytes=1 << 30, max_age=30 * DAY, now=datetime.now(timezone.utc))
    assert list(tmp_path.iterdir()) == [hit]


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    for days in (3, 1, 4, 2):
        (tmp_path / f"{days}.golden").write_bytes(bytes(100))
        last_used(tmp_path / f"{days}.golden", days * DAY)
    prune(tmp_path, max_bytes=299, max_age=30 * DAY, now=NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"1.golden", "2.golden"}


def test_pruning_takes_half_entries_that_nobody_writes_any_more_and_nothing_else(tmp_path: Path) -> None:
    last_used(tmp_path / ".abandoned.partial", timedelta(hours=2))
    kept = {
        last_used(tmp_path / ".being-written.partial", timedelta(minutes=1)),
        last_used(tmp_path / "a user's notes.txt", 400 * DAY),
    }
    prune(tmp_path, max_bytes=0, max_age=DAY, now=NOW)
    assert set(tmp_path.iterdir()) == kept


def test_pruning_never_fails(tmp_path: Path) -> None:
    (tmp_path / "a folder.golden").mkdir()
    (tmp_path / "removed meanwhile.golden").symlink_to("nothing")
    old = last_used(tmp_path / "z.golden", 31 * DAY)
    for folder in (tmp_path / "none", old, tmp_path):
        prune(folder, max_bytes=0, max_age=30 * DAY, now=NOW)
    assert not old.exists()
