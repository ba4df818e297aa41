from __future__ import annotations

import io
import time
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from pipeline.run.cluster import node
from pipeline.run.goldens import prune_goldens


def test_files_of_a_process_are_packed_up_to_a_limit_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "LIMIT", 10)
    folder, result = tmp_path / "job", tmp_path / "1.json"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(b"12345")
    (folder / "big").write_bytes(b"x" * 11)
    (folder / "deep/c").write_bytes(b"67890")
    (folder / "link").symlink_to("/etc/passwd")
    result.write_bytes(b"{}")
    assert node._packed(folder, result) == (b"{}", [("a", b"12345"), ("deep/c", b"67890")], ("big",))
    assert list(tmp_path.iterdir()) == []
    assert node._packed(folder, result) == (None, [], ())


def test_a_node_that_is_cut_off_ends_its_steward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run asks again as soon as it has an answer: who has not asked for a minute is out of reach."""
    done: list[object] = []
    one = object.__new__(node.Node)
    monkeypatch.setattr(node, "_ABANDONED", 0.2)
    monkeypatch.setattr(node.Node, "_heard", lambda _self: [])
    monkeypatch.setattr(node.Node, "end", lambda _self: done.append("steward"))
    monkeypatch.setattr("os._exit", done.append)
    begun = time.monotonic()
    one.listen()
    one._watch()
    assert done == ["steward", 1]
    assert time.monotonic() - begun >= 0.2


def test_a_golden_that_did_not_fit_on_the_disk_is_pruned_as_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, content: bytes) -> int:
        self.touch()
        raise OSError("No space left on device")

    one = object.__new__(node.Node)
    one._goldens = tmp_path
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        one.tell(b"{}", ("a.golden",), b"content")
    prune_goldens(tmp_path, datetime.now(timezone.utc) + timedelta(hours=2))
    assert list(tmp_path.iterdir()) == []


def test_sources_are_unpacked_once_for_all_nodes_of_a_host(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("room/module.py", "x = 1")
    found = node._unpacked(buffer.getvalue(), tmp_path / "sources", "digest")
    assert (found / "room/module.py").read_text() == "x = 1"
    assert node._unpacked(b"not needed", tmp_path / "sources", "digest") == found
    assert [path.name for path in (tmp_path / "sources").iterdir()] == ["digest"]
