"""The driver of Ray, with a stand-in for Ray whose actors say what the test wants."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

pytest.importorskip("ray", reason="Ray is not installed")

from ray.exceptions import RayError

from pipeline.run.cluster import liaison
from pipeline.run.cluster.messages import (
    Ask,
    Brought,
    Connect,
    Expect,
    FromLiaison,
    Gone,
    Granted,
    Hire,
    Return,
    Said,
    Tell,
    ToLiaison,
)
from pipeline.run.messages import Channel
from pipeline.run.processes import wait_until

NODE = "0a" * 28
"""As Ray names nodes."""


@dataclass(eq=False)
class Answer:
    """What a call of an actor gives, once it is `ready`; an exception is raised."""

    value: Any = None
    ready: bool = True


@dataclass(eq=False)
class Method:
    """A method of an actor: it remembers how it was called."""

    answers: Callable[[], Answer]
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def remote(self, *arguments: Any) -> Answer:
        self.calls.append(arguments)
        return self.answers()


class Actor:
    """A node's actor."""

    def __init__(self, places: tuple[str, str, str]) -> None:
        self.hears = Answer(ready=False)
        self._heard = 0
        self.places = Method(lambda: Answer(places))
        self.tell = Method(Answer)
        self.listen = Method(lambda: self.hears)
        self.end = Method(lambda: Answer(b""))

    def fail(self, why: str) -> None:
        """Let `listen` fail, as it does once the steward has ended."""
        self._hear(RuntimeError(why))

    def say(self, *said: object) -> None:
        """Let `listen` give what a steward said: lines, each with a number and what was packed."""
        self._hear(list(said))

    def _hear(self, value: object) -> None:
        self._heard += 1
        assert wait_until(lambda: len(self.listen.calls) == self._heard, 30), "nobody listens"
        before, self.hears = self.hears, Answer(ready=False)
        before.value, before.ready = value, True


class Ray:
    """The stand-in: what is put into its object store is the reference itself."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self.asked: dict[str, Any] = {}
        self.stored: list[bytes] = []

    def nodes(self) -> list[Any]:
        return []

    def remote(self, _node: Any) -> Any:
        return self

    def options(self, **options: object) -> Any:
        self.asked = options
        return Method(lambda: self._actor)  # type: ignore[arg-type, return-value]

    def put(self, content: bytes) -> bytes:
        self.stored.append(content)
        return content

    def wait(self, refs: Sequence[Answer], num_returns: int, timeout: float) -> tuple[Any, Any]:
        ready = [ref for ref in refs if ref.ready][:num_returns]
        if not ready:
            time.sleep(min(timeout, 0.01))
        return ready, [ref for ref in refs if ref not in ready]

    def get(self, ref: Answer) -> Any:
        if isinstance(ref.value, Exception):
            raise ref.value
        return ref.value


@dataclass
class Scene:
    """A liaison that has hired a node, whose actor is `actor`."""

    liaison: Any
    actor: Actor
    ray: Ray
    controller: Channel[FromLiaison]

    def tell(self, *messages: ToLiaison) -> None:
        self.liaison._obey_all(messages)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Sources, goldens and runs are in /node/... on the node, and below `tmp_path` here."""
    actor = Actor(("/node/sources/1", "/node/goldens", "/node/runs/2"))
    ray = Ray(actor)
    monkeypatch.setattr(liaison, "ray", ray)
    ours, theirs = socket.socketpair()
    connect = Connect("head:1", "", "1", str(tmp_path / "checkout"), str(tmp_path / "cache"))
    made = liaison.Liaison(Channel(theirs, msgspec.json.Decoder(ToLiaison)), connect)
    made._archive = b""
    controller = Channel[FromLiaison](ours, msgspec.json.Decoder(FromLiaison))
    # A fault in the thread must end the test, and not all tests.
    monkeypatch.setattr(os, "_exit", lambda _code: theirs.shutdown(socket.SHUT_RDWR))
    ours.settimeout(30)
    made._obey_all([Hire(NODE, "host-a", msgspec.Raw(b"{}"))])
    listening = Thread(target=made._listen)
    listening.start()
    yield Scene(made, actor, ray, controller)
    made._ended.set()
    listening.join()
    ours.close()
    theirs.close()


def expect(folder: Path) -> Expect:
    return Expect(NODE, 1, str(folder), str(folder / "jobs/1"), str(folder / "results/1.json"))


def test_the_actor_of_a_node_is_on_that_node_and_ends_with_the_run(scene: Scene) -> None:
    """Ray itself ends it, also if the run is killed. It leaves the processors to the jobs."""
    assert scene.ray.asked.get("lifetime") is None, "it would be detached"
    assert scene.ray.asked["num_cpus"] == 0
    where = scene.ray.asked["scheduling_strategy"]
    assert (where.node_id, where.soft) == (NODE, False)


def test_files_come_home_into_the_folder_of_their_process_alone(scene: Scene, tmp_path: Path) -> None:
    """Whatever a node names them: it may be another program that answers there."""
    run = tmp_path / "run"
    (run / "results").mkdir(parents=True)
    wrong = ("../escaped", "deep/../../../escaped", str(tmp_path / "escaped"), f"{run}/jobs/1/../escaped")
    files = [(name, b"wrong") for name in wrong] + [("deep/trace.bin", b"right")]
    scene.tell(expect(run))
    scene.actor.say((b"1", 1, (b"{}", files, ())))
    assert scene.controller.next() == Said(NODE, msgspec.Raw(b"1"))
    found = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {Path("run/jobs/1/deep/trace.bin"): b"right", Path("run/results/1.json"): b"{}"}


def test_what_the_nursery_said_before_its_steward_was_killed_comes_home(scene: Scene, tmp_path: Path) -> None:
    """The actor lives on and has it; if the actor ended too, nothing comes, and nothing is waited for."""
    scene.tell(expect(tmp_path))
    scene.actor.end = Method(lambda: Answer(b"/node/sources/1/pipeline/run/keeper.py: broken"))
    scene.actor.fail("its steward ended with -9")
    assert scene.controller.next() == Gone(NODE, "its steward ended with -9")
    scene.actor.end = Method(lambda: Answer(RayError("the actor is dead")))
    scene.tell(Hire(NODE, "host-a#2", msgspec.Raw(b"{}")))
    scene.actor.fail("the actor is dead")
    assert scene.controller.next() == Gone(NODE, "the actor is dead")
    scene.liaison._end_all()
    (log,) = tmp_path.glob("nursery-*")
    assert log.name == "nursery-host-a.log"
    assert log.read_text() == f"{tmp_path}/checkout/pipeline/run/keeper.py: broken"


def test_an_actor_is_ended_once_although_what_listens_to_it_then_fails(scene: Scene, tmp_path: Path) -> None:
    """Its first answer has what the nursery said; it removes the file."""
    said = iter([b"broken"])

    def end() -> Answer:
        scene.actor.fail("its steward ended with 0")
        assert wait_until(lambda: not scene.liaison._awaited, 30), "the failure is not taken"
        return Answer(next(said, b""))

    scene.actor.end = Method(end)
    scene.tell(expect(tmp_path))
    scene.liaison._end_all()
    assert len(scene.actor.end.calls) == 1
    assert (tmp_path / "nursery-host-a.log").read_text() == "broken"


def test_what_cannot_be_written_here_is_told_with_the_reason(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "jobs/1/trace.bin").mkdir(parents=True)
    scene.tell(expect(tmp_path))
    scene.actor.say((b"1", 1, (b"{}", [("trace.bin", b"x")], ("core",))))
    assert scene.controller.next() == Said(NODE, msgspec.Raw(b"1"), ("core", "trace.bin (Is a directory)"))


def test_paths_of_the_node_are_told_as_those_here(scene: Scene, tmp_path: Path) -> None:
    """In what a steward says and in results: people look for the files where the run is."""
    (tmp_path / "results").mkdir()
    on_node = b'"/node/sources/1/kernels/a.py:3 read /node/goldens/x and wrote /node/runs/2/jobs/1/trace.bin"'
    here = (
        f'"{tmp_path}/checkout/kernels/a.py:3 read {tmp_path}/cache/x and wrote {tmp_path}/jobs/1/trace.bin"'
    )
    scene.tell(expect(tmp_path))
    scene.actor.say((on_node, 1, (on_node, [], ())))
    assert scene.controller.next() == Said(NODE, msgspec.Raw(here.encode()))
    assert (tmp_path / "results/1.json").read_text() == here
    # Of no process: where its run would be here is not known.
    scene.actor.say((b'"/node/goldens and /node/runs/2"', 0, None))
    assert scene.controller.next() == Said(NODE, msgspec.Raw(f'"{tmp_path}/cache and /node/runs/2"'.encode()))


def test_goldens_are_put_into_the_object_store_once_and_their_arrival_is_told(
    scene: Scene, tmp_path: Path
) -> None:
    """Else each job would bring its golden again. One that was pruned meanwhile is left out."""
    golden, pruned = tmp_path / "golden", tmp_path / "pruned"
    golden.write_bytes(b"numbers")
    for line in (b"1", b"2"):
        scene.tell(Tell(NODE, msgspec.Raw(line), (str(golden), str(pruned))))
        assert scene.controller.next() == Brought(NODE, (str(golden),))
        assert scene.actor.tell.calls[-1] == (line, ("golden",), b"numbers")
    assert scene.ray.stored == [b"numbers"]


def test_a_golden_that_does_not_arrive_is_the_end_of_its_node(scene: Scene, tmp_path: Path) -> None:
    """Such as if the disk there is full."""
    golden = tmp_path / "golden"
    golden.write_bytes(b"numbers")
    failed = OSError("trace\n[Errno 28] No space left on device")
    scene.actor.tell.answers = lambda: Answer(failed)
    scene.tell(Tell(NODE, msgspec.Raw(b"1"), (str(golden),)))
    assert scene.controller.next() == Gone(NODE, "[Errno 28] No space left on device")


def test_a_slot_is_asked_for_on_some_nodes_and_given_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that Ray has not given yet: else nobody else could have it until the run ends."""
    groups: dict[str, str] = {}

    def placement_group(bundles: list[Any], bundle_label_selector: list[dict[str, str]]) -> str:
        (group,) = bundles[0].keys()
        assert bundle_label_selector == [{"ray.io/node-id": f"in({NODE},x)"}]
        groups[group] = "CREATED" if group == "there" else "PENDING"
        return str(group)

    def table(group: str) -> dict[str, Any]:
        return {"state": groups.get(group, "REMOVED"), "bundles_to_node_id": {0: NODE}}

    monkeypatch.setattr(liaison, "placement_group", placement_group)
    monkeypatch.setattr(liaison, "placement_group_table", table)
    monkeypatch.setattr(liaison, "remove_group", groups.pop)
    scene.tell(Ask(1, {"there": 1.0}, (NODE, "x")), Ask(2, {"never there": 1.0}, (NODE, "x")))
    assert scene.controller.next() == Granted(1, NODE)
    assert set(groups) == {"there", "never there"}
    scene.tell(Return(1), Return(2))
    assert groups == {}
