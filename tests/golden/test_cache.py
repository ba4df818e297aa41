from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import conv, conv_pair, gemm
from golden.cache import Golden, Wanted, golden_for, is_cached, prune, whose
from golden.definition import Definition
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from golden.profiles import ProfileError
from golden.specs import Tensors

pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).resolve().parents[2]
PAIR = Geometry(9, 7, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))
NOW = datetime(2026, 3, 10, 4, 0, tzinfo=timezone.utc)
DAY = timedelta(days=1)
GET = """
import resource, sys
from pathlib import Path
from golden.cache import Wanted, golden_for
from golden.conv_pair import DEFINITION
from golden.geometry import Conv, Geometry
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
pair = Geometry(9, 7, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))
golden = golden_for(Wanted(DEFINITION, pair, "small", "vreq8"), Path(sys.argv[1]))
print("torch" in sys.modules, int(golden.outputs["y"].astype(int).sum()), golden.note)
"""


def wanted(
    source: str | Tensors = "small",
    variant: str = "vreq8",
    *,
    geometry: Any = PAIR,
    definition: Definition = conv_pair.DEFINITION,
) -> Wanted:
    return Wanted(definition, geometry, source, variant)


def in_a_process(*arguments: str, root: Path = ROOT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", GET, *arguments], cwd=root, text=True, stdout=subprocess.PIPE
    )


def answer(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate()
    assert process.returncode == 0
    return output.strip()


def same(one: Golden, other: Golden) -> bool:
    return all(
        list(mine) == list(theirs) and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        for mine, theirs in ((one.tensors.values, other.tensors.values), (one.outputs, other.outputs))
    )


def computed(asked: Wanted) -> Any:
    """The outputs, without any cache."""
    source = asked.source
    tensors = source if isinstance(source, Tensors) else asked.definition.make(source, asked.geometry)
    return asked.definition.compute(asked.geometry, tensors, asked.variant)


def last_used(path: Path, ago: timedelta) -> Path:
    """A file that was last used so long before `NOW`; made where it is missing."""
    path.touch()
    os.utime(path, ((NOW - ago).timestamp(),) * 2)
    return path


def entry(folder: Path) -> Path:
    (path,) = folder.glob("*.golden")
    return path


def total_of_y() -> int:
    return int(computed(wanted())["y"].astype(int).sum())


WORKLOADS = {
    "conv-pair": wanted("full-range@7", "half-away"),
    "conv": wanted(
        "full-range@7",
        "half-away",
        geometry=ConvGeometry(9, 7, 32, 64, Conv(3, 2, 1)),
        definition=conv.DEFINITION,
    ),
    "gemm": wanted("extremes@7", geometry=GemmGeometry(32, 64, 96), definition=gemm.DEFINITION),
}


@pytest.mark.parametrize("asked", WORKLOADS.values(), ids=WORKLOADS.keys())
def test_a_hit_gives_what_was_computed(asked: Wanted, tmp_path: Path) -> None:
    folder = tmp_path / "made" / "when needed"
    assert not is_cached(asked, folder)
    first = golden_for(asked, folder)
    outputs = computed(asked)
    assert list(first.outputs) == list(outputs)
    assert all(np.array_equal(first.outputs[name], array) for name, array in outputs.items())
    assert is_cached(asked, folder)
    before = entry(folder).stat()
    hit = golden_for(asked, folder)
    assert same(hit, first)
    assert all(hit.outputs[name].dtype == array.dtype for name, array in outputs.items())
    assert hit.note == first.note == ""
    assert (entry(folder).stat().st_ino, entry(folder).stat().st_size) == (before.st_ino, before.st_size)


def test_a_hit_imports_no_torch(tmp_path: Path) -> None:
    assert answer(in_a_process(str(tmp_path))) == f"True {total_of_y()}"
    assert answer(in_a_process(str(tmp_path))) == f"False {total_of_y()}"


def test_all_that_determines_a_golden_has_an_entry_of_its_own(tmp_path: Path) -> None:
    tensors = conv_pair.DEFINITION.make("small", PAIR)

    def but(**arrays: np.ndarray) -> Tensors:
        return replace(tensors, values={**tensors.values, **arrays})

    louder = tensors["bias2"].copy()
    louder[0, 31] += 1
    all_wanted = [
        wanted("small"),
        wanted("small", "half-away"),
        wanted("small@1"),
        wanted("ties"),
        wanted("small", geometry=replace(PAIR, conv2=Conv(3, 2, 1))),
        wanted(tensors),
        wanted(but(bias2=louder)),
        wanted(but(x=-tensors["x"])),
    ]
    for asked in all_wanted:
        golden = golden_for(asked, tmp_path)
        assert np.array_equal(golden.outputs["y"], computed(asked)["y"])
    assert len(list(tmp_path.glob("*.golden"))) == len(all_wanted)
    golden_for(wanted("small@0"), tmp_path)
    assert len(list(tmp_path.glob("*.golden"))) == len(all_wanted), "small is small@0"


def test_shapes_that_may_be_left_out_name_an_entry_only_if_they_are_not_the_default(tmp_path: Path) -> None:
    asked = WORKLOADS["conv"]
    golden_for(asked, tmp_path)

    @dataclass(frozen=True)
    class Before:
        """A geometry of a convolution as it was when there were neither groups nor dilation."""

        height: int
        width: int
        cin: int
        cout: int
        conv: Any

    @dataclass(frozen=True)
    class Kernel:
        kernel: int
        stride: int
        padding: int

    before = Before(9, 7, 32, 64, Kernel(3, 2, 1))
    assert is_cached(replace(asked, geometry=before), tmp_path)
    for other in (replace(asked.geometry, groups=2), replace(asked.geometry, conv=Conv(3, 2, 1, 2))):
        assert not is_cached(replace(asked, geometry=other), tmp_path)


def test_two_workloads_never_share_an_entry(tmp_path: Path) -> None:
    """Not even where shapes, profile and tensors are the same and only the workloads' names differ."""
    geometry = GemmGeometry(16, 32, 32)
    mine = replace(
        gemm.DEFINITION,
        name="my-gemm",
        compute=lambda geometry, tensors, variant: {"c": -gemm.product(tensors["a"], tensors["b"])},
    )
    given = gemm.DEFINITION.make("full-range", geometry)
    for number, source in enumerate(("full-range", given), 1):
        one = golden_for(wanted(source, geometry=geometry, definition=gemm.DEFINITION), tmp_path)
        other = golden_for(wanted(source, geometry=geometry, definition=mine), tmp_path)
        assert other.note == ""
        assert one.outputs["c"].any()
        assert np.array_equal(other.outputs["c"], -one.outputs["c"])
        assert len(list(tmp_path.glob("*.golden"))) == 2 * number


def test_a_change_of_a_users_file_makes_a_new_entry(tmp_path: Path) -> None:
    file, cache = tmp_path / "mine.py", tmp_path / "cache"
    file.write_text("SIGN = 1\n")
    helper = tmp_path / "helper.py"
    helper.write_text("\n")
    geometry = GemmGeometry(16, 32, 32)

    def asked(sign: int) -> Wanted:
        """As the workload's file would define it with this sign."""
        definition = replace(
            gemm.DEFINITION,
            sources=(file, helper),
            compute=lambda geometry, tensors, variant: {"c": sign * gemm.product(tensors["a"], tensors["b"])},
        )
        return wanted("full-range", geometry=geometry, definition=definition)

    first = golden_for(asked(1), cache)
    file.write_text("SIGN = -1\n")
    assert not is_cached(asked(-1), cache)
    changed = golden_for(asked(-1), cache)
    assert np.array_equal(changed.outputs["c"], -first.outputs["c"])
    assert len(list(cache.glob("*.golden"))) == 2
    file.write_text("SIGN = 1\n")
    assert is_cached(asked(1), cache)
    assert same(golden_for(asked(1), cache), first)
    assert not is_cached(wanted("full-range", geometry=geometry, definition=gemm.DEFINITION), cache)
    helper.write_text("changed = True\n")
    assert not is_cached(asked(1), cache)


def test_a_users_golden_cannot_write_to_its_inputs(tmp_path: Path) -> None:
    """The kernel would run on what it wrote."""

    def spoiling(geometry: GemmGeometry, tensors: Tensors, variant: str) -> dict[str, Any]:
        tensors["a"][:] = 0
        return {"c": gemm.product(tensors["a"], tensors["b"])}

    (tmp_path / "mine.py").touch()
    mine = replace(gemm.DEFINITION, compute=spoiling, sources=(tmp_path / "mine.py",))
    asked = wanted("full-range", geometry=GemmGeometry(16, 32, 32), definition=mine)
    with pytest.raises(ValueError, match="read-only"):
        golden_for(asked, tmp_path / "cache")
    kept = golden_for(replace(asked, definition=replace(mine, compute=gemm.DEFINITION.compute)), tmp_path)
    assert kept.tensors["a"].flags.writeable


def test_an_entry_made_by_other_source_files_is_not_used(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "golden", tmp_path / "golden", ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "cache"
    answer(in_a_process(str(folder), root=tmp_path))
    with (tmp_path / "golden" / "vreq8.py").open("a") as file:
        file.write("# changed\n")
    assert answer(in_a_process(str(folder), root=tmp_path)) == f"True {total_of_y()}"
    assert len(list(folder.glob("*.golden"))) == 2


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
def test_a_corrupt_entry_is_recomputed_and_said_so(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    first = golden_for(wanted("small"), tmp_path)
    path = entry(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    again = golden_for(wanted("small"), tmp_path)
    assert same(again, first)
    assert f"{path} is corrupt" in again.note
    assert again.note.endswith("recomputed")
    assert golden_for(wanted("small"), tmp_path).note == "", "the good entry is in its place"


def test_an_entry_under_another_name_is_corrupt(tmp_path: Path) -> None:
    golden_for(wanted("small"), tmp_path / "one")
    good = golden_for(wanted("ties"), tmp_path / "other")
    shutil.copy(entry(tmp_path / "one"), entry(tmp_path / "other"))
    again = golden_for(wanted("ties"), tmp_path / "other")
    assert same(again, good)
    assert "is corrupt" in again.note


def test_a_folder_that_cannot_be_used_costs_only_the_computation(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    golden = golden_for(wanted("small"), occupied)
    assert int(golden.outputs["y"].astype(int).sum()) == total_of_y()
    assert f"golden not kept in the cache {occupied}" in golden.note
    assert "\n" not in golden.note


def test_a_folder_that_cannot_be_entered_has_no_entry(tmp_path: Path) -> None:
    assert not is_cached(wanted("small"), tmp_path / ("long" * 100))


def test_an_entry_that_cannot_be_read_is_recomputed(tmp_path: Path) -> None:
    golden_for(wanted("small"), tmp_path)
    path = entry(tmp_path)
    path.unlink()
    path.mkdir()
    golden = golden_for(wanted("small"), tmp_path)
    assert int(golden.outputs["y"].astype(int).sum()) == total_of_y()
    assert f"{path} cannot be read (Is a directory): recomputed" in golden.note


def test_an_output_is_known_by_the_profile_that_has_it(tmp_path: Path) -> None:
    asked = wanted("small@3", "half-away")
    outputs = golden_for(asked, tmp_path).outputs
    for name, output in outputs.items():
        told = whose(output, asked.definition, asked.geometry, tmp_path)
        assert told == f"{name} of small@3 (half-away)"
    assert whose(outputs["y"] + np.int8(1), asked.definition, asked.geometry, tmp_path) == ""
    other = replace(asked.geometry, conv2=Conv(3, 2, 1))
    assert whose(outputs["y"], asked.definition, other, tmp_path) == ""
    assert whose(outputs["y"], asked.definition, asked.geometry, tmp_path / "none") == ""


def test_a_users_tensors_are_no_profile(tmp_path: Path) -> None:
    asked = wanted(conv_pair.DEFINITION.make("small", PAIR))
    output = golden_for(asked, tmp_path).outputs["y"]
    assert whose(output, asked.definition, asked.geometry, tmp_path) == ""


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
        golden_for(wanted("big"), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_was_not_used_for_long_is_pruned_and_a_hit_is_a_use(tmp_path: Path) -> None:
    golden_for(wanted("small"), tmp_path)
    hit = last_used(entry(tmp_path), timedelta(days=9000))
    golden_for(wanted("ties"), tmp_path)
    golden_for(wanted("small"), tmp_path)
    (idle,) = set(tmp_path.glob("*.golden")) - {hit}
    last_used(idle, timedelta(days=9000))
    prune(tmp_path, max_bytes=1 << 30, max_age=30 * DAY, now=datetime.now(timezone.utc))
    assert list(tmp_path.glob("*.golden")) == [hit]


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    for days in (3, 1, 4, 2):
        (tmp_path / f"{days}.golden").write_bytes(bytes(100))
        last_used(tmp_path / f"{days}.golden", days * DAY)
    prune(tmp_path, max_bytes=299, max_age=30 * DAY, now=NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"1.golden", "2.golden"}


def test_pruning_takes_half_entries_that_nobody_writes_any_more_and_nothing_else(tmp_path: Path) -> None:
    last_used(tmp_path / ".abandoned.partial", timedelta(hours=2))
    last_used(tmp_path / "old.output", 2 * DAY)
    kept = {
        last_used(tmp_path / ".being-written.partial", timedelta(minutes=1)),
        last_used(tmp_path / "a user's notes.txt", 400 * DAY),
        last_used(tmp_path / "new.output", timedelta(hours=1)),
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
