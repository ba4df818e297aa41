"""The driver of Ray: a process of its own, so that the controller has no threads of Ray's and outlives it.

Ray ends its drivers when the head of the cluster stays away; the controller then still ends its run in order.
One thread obeys the controller, another one listens to the cluster.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table
from ray.util.placement_group import remove_placement_group as remove_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipeline.run.cluster import membership
from pipeline.run.cluster import node as node_module
from pipeline.run.cluster.head import START
from pipeline.run.cluster.messages import (
    Ask,
    Brought,
    Connect,
    Connected,
    Dismiss,
    Expect,
    Found,
    Gone,
    Granted,
    Hire,
    Refused,
    Return,
    Said,
    Tell,
    ToLiaison,
)
from pipeline.run.messages import Channel, write_atomically

_ALIVE = 0
"""The state of a node that lives, in Ray's protocol."""

_ASKING_SECONDS = 5.0
"""Within which the head says which nodes there are."""

_POLL = 0.2
_POLL_SLOTS = 0.02
_NODES_EVERY = 1.0
_SAME = "install the same Ray and Python here and on all hosts of the cluster"
_THREADS = 4
"""Of an actor: one that listens, and some that bring goldens."""


@dataclass
class _Node:
    """An actor, its node's name, and where its sources, goldens and files are there, once it has said so."""

    actor: Any
    name: str
    places: tuple[str, str, str] | None = None


class Liaison:
    """The work of this process."""

    def __init__(self, control: Channel[ToLiaison], connect: Connect) -> None:
        self._control = control
        self._connect = connect
        self._sending = threading.Lock()
        self._hired: dict[str, _Node] = {}
        self._ending: dict[Any, _Node] = {}
        self._awaited: dict[Any, tuple[str, Callable[[Any], None]]] = {}
        self._new: queue.SimpleQueue[tuple[Any, str, Callable[[Any], None]]] = queue.SimpleQueue()
        self._expected: dict[tuple[str, int], Expect] = {}
        self._goldens: dict[str, Any] = {}
        self._run = ""
        self._asked: dict[int, PlacementGroup] = {}
        self._granted: dict[int, PlacementGroup] = {}
        self._seen: set[str] = set()
        self._ended = threading.Event()

    def work(self) -> None:
        """Join the cluster and serve the controller until it closes its end."""
        try:
            if why := membership.refusal(_raylets(self._connect.address), self._connect.address, os.environ):
                self._say(Refused(why))
                return
            ray.init(
                address=self._connect.address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
            )
        except Exception as error:  # Ray raises what it likes, and its text has several lines
            said = " ".join(str(error).split())
            self._say(Refused(f"{said}; {_SAME if 'Version mismatch' in said else START}"))
            return
        self._archive = ray.put(Path(self._connect.archive).read_bytes())
        ray.cloudpickle.register_pickle_by_value(node_module)
        self._look_for_nodes()
        self._say(Connected())
        listener = threading.Thread(target=self._listen, daemon=True)
        listener.start()
        while (message := self._control.next()) is not None:
            self._obey_all([message, *self._control.arrived])
            self._control.arrived.clear()
        self._ended.set()
        self._end_all()
        ray.shutdown()

    def _end_all(self) -> None:
        """End the actors that are left; what the nurseries of all, lost ones too, said comes home."""
        for node in list(self._hired):
            self._end(node)
        if ending := dict(self._ending):
            ended, _ = ray.wait(list(ending), num_returns=len(ending), timeout=30.0)
            for ref in ended:
                with suppress(RayError, OSError):
                    self._keep_log(ending[ref], ray.get(ref))

    def _end(self, node: str) -> bool:
        """End the actor on a node; False if there is none.

        It is asked once: what the nursery said is in the first answer alone.
        """
        if (one := self._hired.pop(node, None)) is None:
            return False
        with suppress(RayError):
            self._ending[one.actor.end.remote()] = one
        return True

    def _keep_log(self, one: _Node, said: bytes) -> None:
        """Write what the nursery of a node said into the folder of the run."""
        if said and self._run:
            with Path(self._run, f"nursery-{one.name}.log").open("ab") as log:
                log.write(self._at_home(said, one, None))

    def _say(self, message: object) -> None:
        with self._sending:
            self._control.send(message)

    # What the controller wants

    def _obey_all(self, messages: Sequence[ToLiaison]) -> None:
        """Obey in order; what one steward is told at once is one call of its actor."""
        lines: dict[str, list[bytes]] = {}
        for message in messages:
            if isinstance(message, Tell) and not message.goldens:
                lines.setdefault(message.node, []).append(bytes(message.line))
            else:
                self._obey(message)
        for node, told in lines.items():
            if (one := self._hired.get(node)) is not None:
                one.actor.tell.remote(b"\n".join(told), ())

    def _obey(self, message: ToLiaison) -> None:
        try:
            if isinstance(message, Hire):
                self._hire(message)
            elif isinstance(message, Tell):
                self._tell(message)
            elif isinstance(message, Expect):
                self._expected[message.node, message.number] = message
                self._run = message.run
            elif isinstance(message, Dismiss):
                if (one := self._hired.pop(message.node, None)) is not None:
                    ray.kill(one.actor)
            elif isinstance(message, Ask):
                among = f"in({','.join(message.nodes)})"
                self._asked[message.slot] = placement_group(
                    [dict(message.resources)], bundle_label_selector=[{"ray.io/node-id": among}]
                )
            elif isinstance(message, Return):
                for groups in (self._asked, self._granted):
                    if (group := groups.pop(message.slot, None)) is not None:
                        remove_group(group)
        except RayError as error:
            if isinstance(message, Hire | Tell):
                self._say(Gone(message.node, _one_line(error)))

    def _hire(self, message: Hire) -> None:
        affinity = NodeAffinitySchedulingStrategy(message.node, soft=False)
        actor = (
            ray.remote(node_module.Node)
            .options(num_cpus=0, max_concurrency=_THREADS, scheduling_strategy=affinity)
            .remote(self._archive, self._connect.digest, message.name)
        )
        one = self._hired[message.node] = _Node(actor, message.name)

        def placed(places: tuple[str, str, str]) -> None:
            one.places = places
            self._await(actor.listen.remote(), message.node, self._hearing(message.node, one))

        self._await(actor.places.remote(), message.node, placed)
        self._await(actor.tell.remote(bytes(message.line), ()), message.node, lambda _said: None)

    def _tell(self, message: Tell) -> None:
        one = self._hired.get(message.node)
        if one is None:
            return
        goldens = [path for path in message.goldens if self._put(path)]
        names = tuple(Path(path).name for path in goldens)
        told = one.actor.tell.remote(bytes(message.line), names, *map(self._goldens.__getitem__, goldens))
        brought = Brought(message.node, tuple(goldens))
        self._await(told, message.node, lambda _told: self._say(brought))

    def _put(self, path: str) -> bool:
        """Put a golden into the object store, once. False: it is no longer there."""
        if path not in self._goldens:
            try:
                self._goldens[path] = ray.put(Path(path).read_bytes())
            except OSError:
                return False
        return True

    # What the cluster says

    def _await(self, ref: Any, node: str, then: Callable[[Any], None]) -> None:
        """Call `then` with what a call gives; if it fails, the node is gone."""
        self._new.put((ref, node, then))

    def _listen(self) -> None:
        looked = time.monotonic()
        try:
            while not self._ended.is_set():
                with suppress(queue.Empty):
                    while True:
                        ref, node, then = self._new.get_nowait()
                        self._awaited[ref] = node, then
                self._take_answers()
                for slot, group in list(self._asked.items()):
                    self._look_for_slot(slot, group)
                if time.monotonic() - looked >= _NODES_EVERY:
                    looked = time.monotonic()
                    self._look_for_nodes()
        except BaseException:
            if not self._ended.is_set():  # the controller is told by the end of this process
                traceback.print_exc()
                os._exit(1)

    def _take_answers(self) -> None:
        wait = _POLL_SLOTS if self._asked or not self._new.empty() else _POLL
        refs = list(self._awaited)
        if not refs:
            time.sleep(_POLL_SLOTS)
            return
        ready, _ = ray.wait(refs, num_returns=1, timeout=wait)
        if ready and len(refs) > 1:
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ready:
            node, then = self._awaited.pop(ref)
            try:
                answer = ray.get(ref)
            except Exception as error:  # an error of the actor's own, or of Ray
                if self._end(node):  # if only its steward was killed, the actor still has the log
                    self._say(Gone(node, _one_line(error)))
                continue
            then(answer)

    def _hearing(self, node: str, one: _Node) -> Callable[[Any], None]:
        def hear(said: list[tuple[bytes, int, node_module.Packed | None]]) -> None:
            self._await(one.actor.listen.remote(), node, hear)
            for line, number, packed in said:
                left: tuple[str, ...] = ()
                text = self._at_home(line, one, None)
                if packed is not None and (expected := self._expected.pop((node, number), None)):
                    text = self._at_home(line, one, expected)
                    left = self._bring(packed, one, expected)
                self._say(Said(node, msgspec.Raw(text), left))

        return hear

    def _bring(self, packed: node_module.Packed, one: _Node, expected: Expect) -> tuple[str, ...]:
        """Write the files of a process where they belong; those that cannot be written are left out."""
        result, files, left = packed
        for name, content in files:
            path = Path(expected.folder, name)
            if ".." in path.parts or not path.is_relative_to(expected.folder):
                continue  # no steward of ours names such a file
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except OSError as error:
                left = (*left, f"{name} ({error.strerror})")
        if result is not None:
            try:
                write_atomically(Path(expected.result), self._at_home(result, one, expected))
            except OSError as error:
                left = (*left, f"its result ({error.strerror})")
        return left

    def _at_home(self, text: bytes, one: _Node, expected: Expect | None) -> bytes:
        """A text of a steward, with the paths of this host for those of the node."""
        if one.places is None:
            return text
        sources, goldens, folder = map(os.fsencode, one.places)
        text = text.replace(sources, os.fsencode(self._connect.root))
        text = text.replace(goldens, os.fsencode(self._connect.cache))
        if expected is not None:
            text = text.replace(folder, os.fsencode(expected.run))
        return text

    def _look_for_slot(self, slot: int, group: PlacementGroup) -> None:
        with suppress(RayError):
            table = placement_group_table(group)
            if table.get("state") == "CREATED" and self._asked.pop(slot, None) is not None:
                self._granted[slot] = group
                self._say(Granted(slot, next(iter(table["bundles_to_node_id"].values()))))

    def _look_for_nodes(self) -> None:
        alive = {each["NodeID"]: each for each in ray.nodes() if each["Alive"]}
        for node, each in alive.items():
            if node not in self._seen:
                resources: Mapping[str, float] = each["Resources"]
                self._say(Found(node, each["NodeManagerAddress"], resources))
        for node in self._seen - alive.keys():
            self._hired.pop(node, None)
            self._say(Gone(node, "Ray no longer reaches it"))
        self._seen = set(alive)


def _raylets(address: str) -> Iterator[membership.Raylet]:
    """Those of the nodes that live, as the head at an address says. Raises what Ray likes."""
    for one in ray._raylet.GcsClient(address=address).get_all_node_info(timeout=_ASKING_SECONDS).values():
        if one.state == _ALIVE:
            yield membership.Raylet(one.node_manager_address, one.node_manager_port, one.raylet_socket_name)


def _one_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__).strip().removeprefix("RuntimeError: ")


def main(descriptor: int) -> None:
    """Serve the controller at the other end of the socket `descriptor`."""
    control = Channel[ToLiaison](socket.socket(fileno=descriptor), msgspec.json.Decoder(ToLiaison))
    connect = control.next()
    if isinstance(connect, Connect):
        Liaison(control, connect).work()
