from __future__ import annotations

import io
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from pipeline.run.cluster import node
from pipeline.run.goldens import prune_goldens

STEWARD = """
import os, socket, sys
def serve(descriptor, folder):
    with socket.socket(fileno=descriptor) as control:
        control.sendall(f"{__file__} {os.getcwd() == folder}\\n".encode())
        control.recv(1)
"""
"""Says where it is and whether the folder of its run is the current one, and waits for its end."""

PACKAGES = ("pipeline", "pipeline/run", "pipeline/run/cluster")
FILES = {**{f"{name}/__init__.py": "" for name in PACKAGES}, "pipeline/run/cluster/steward.py": STEWARD}

Start = Callable[[], node.Node]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a node below `tmp_path`, whose sources have nothing but a steward."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(node.Node, "_watch", lambda _self: None)  # it would end the tests
    started: list[node.Node] = []

    def start() -> node.Node:
        started.append(node.Node(packed(FILES), "digest", "a"))
        return started[-1]

    yield start
    for one in started:
        one.end()


def packed(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def home(tmp_path: Path) -> Path:
    return tmp_path / f"conv-pair-node-{os.getuid()}"


def test_a_steward_has_the_sources_of_the_run_whatever_else_the_node_has(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as an earlier checkout, which is on the path of everything that is started there."""
    for name, text in FILES.items():
        path = tmp_path / "earlier" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "earlier"))
    ((said, _, _),) = start().listen()
    own = home(tmp_path) / "sources/digest/pipeline/run/cluster/steward.py"
    assert said.decode() == f"{own} True"


FORKS: list[str] = []
os.register_at_fork(before=lambda: FORKS.append("fork"))


def test_a_node_forks_nothing(start: Start) -> None:
    """Its process is Ray's, and has many threads: their locks would stay locked in the child for ever."""
    FORKS.clear()
    one = start()
    one.listen()
    one.tell(b"line", ())
    one.end()
    assert FORKS == []


def test_the_log_of_a_nursery_is_given_although_the_steward_was_killed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "_LOGGED", 6)
    one = start()
    one.listen()
    (Path(one.places()[2]) / "nursery.log").write_text("broken for long")
    one._steward.kill()
    with pytest.raises(RuntimeError, match="its steward ended with -9"):
        one.listen()
    assert one.end() == b"broken"
    assert one.end() == b""


def test_what_killed_runs_left_is_removed_after_a_week(start: Start, tmp_path: Path) -> None:
    kept: list[Path] = []
    removed: list[Path] = []
    for folder in ("sources", "runs"):
        for days, paths in ((6, kept), (8, removed)):
            path = home(tmp_path) / folder / str(days)
            (path / "deep").mkdir(parents=True)
            (path / "deep/file").touch()
            then = time.time() - days * 24 * 3600
            os.utime(path, (then, then))
            paths.append(path)
    start()
    assert [path.exists() for path in kept] == [True, True]
    assert [path.exists() for path in removed] == [False, False]


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
    found = node._unpacked(packed({"room/module.py": "x = 1"}), tmp_path / "sources", "digest")
    assert (found / "room/module.py").read_text() == "x = 1"
    assert node._unpacked(b"not needed", tmp_path / "sources", "digest") == found
    assert [path.name for path in (tmp_path / "sources").iterdir()] == ["digest"]
