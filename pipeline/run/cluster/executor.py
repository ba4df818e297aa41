"""The executor whose places are on the nodes of a Ray cluster.

Ray gives slots: resources on a node of its choice, for as long as the run needs them. This module gives slots
and devices to jobs and knows no Ray: it speaks with the liaison. What it calls a place is a device of a node
(`10.0.0.3:npu-0`), or the node itself (`10.0.0.3:host`) for a job that needs no device. So the evidence of a
run sets sick nodes aside as it does sick devices.
"""

from __future__ import annotations

import itertools
import math
import re
import select
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import msgspec

from golden.cache import entry_of, notes_in
from golden.definition import DefinitionError
from golden.errors import UserError
from pipeline.engines.base import Availability
from pipeline.ground.jobs import Blame, Job, Result, State
from pipeline.run.ahead import GoldensAhead
from pipeline.run.cluster import head
from pipeline.run.cluster.messages import (
    Able,
    Aside,
    Ask,
    Brought,
    Busy,
    Cancel,
    Connect,
    Connected,
    Dismiss,
    Done,
    Expect,
    Found,
    FromLiaison,
    FromSteward,
    Gone,
    Granted,
    Hire,
    Inspect,
    Open,
    Refused,
    Return,
    Run,
    Said,
    Survey,
    Tell,
    Unfit,
)
from pipeline.run.devices import HOST, Device, lock_name, lock_of, node_of, number_of, on_node
from pipeline.run.executor import Ended, Process, Site, Terms, Told
from pipeline.run.goldens import Wanted, golden_kind
from pipeline.run.messages import Channel, encode
from pipeline.run.nursery import Nursery

NODE = "node"
"""The fact of a result that names the node where its job ran."""

JOINING = 60.0
"""Seconds within which a cluster that answers must have been joined: a busy host takes that long."""

JOINING_UNSEEN = 12.0
"""The same, of a cluster that was not seen to answer."""

_SURVEYING = 90.0
_SILENT = 60.0
_PENDING = 8
_HIRES = 3
_HELD = 5.0
_ANSWERING = 2.0
_MODEL = "accelerator_type:"
_CLOCK = 5.0
_CLOSE_PATIENCE = 40.0
_BOOT = (
    "import sys; sys.path[:] = {path!r}; from pipeline.run.cluster.liaison import main;"
    " main(int(sys.argv[1]))"
)
_CHATTER = re.compile(r"\[[-\d :,.]+ [IW] \d+ \d+\]")
"""How lines begin that Ray prints although nothing is wrong."""

_STEWARD = msgspec.json.Decoder(FromSteward)


class ClusterError(UserError):
    """The cluster cannot be used; the message is one line: what, where, remedy."""


@dataclass(frozen=True)
class Cluster:
    """The cluster that a run uses, and what its nodes must have.

    Args:
        address: of the head, or `head.AUTO`.
        archive: the sources that the nodes are sent, and their digest.
        root: the folder of the same sources on this host.
        survey: `module:function` of what a node answers with; see `Inspect`.
        facts: versions by name that every node must have too.
        sources: digests by name that every node must have too.
        toolchains: of the plan, by backend whose jobs compile, with what they do here: versions by name.
            Nodes that have another one get none of these jobs; if there is none here, that of the first node
            counts.
        devices: the ids of `--devices`.
        inputs: the path of a user's tensors.
    """

    address: str
    archive: Callable[[], tuple[bytes, str]]
    root: Path
    survey: str
    facts: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    toolchains: Callable[[Sequence[Job]], Mapping[str, Mapping[str, str]]] = lambda _plan: {}
    devices: str | None = None
    inputs: str | None = None


@dataclass(frozen=True)
class _Place(Device):
    """A device, or a node, together with the slot in which it is used."""

    slot: int = 0


@dataclass
class _Slot:
    """Resources that Ray was asked for. `node` is where it gave them; empty: not yet."""

    resources: Mapping[str, float]
    node: str = ""

    def covers(self, resources: Mapping[str, float]) -> bool:
        return all(self.resources.get(name, 0.0) >= amount for name, amount in resources.items())


@dataclass
class _Node:
    """A node. `name` is empty until it was found fit; `refused` says why not, `spared` for which jobs."""

    address: str
    resources: Mapping[str, float]
    heard: float
    name: str = ""
    refused: str = ""
    survey: Survey | None = None
    spared: str = ""
    answers: Mapping[Hashable, Able] = field(default_factory=dict)
    goldens: set[str] = field(default_factory=set)
    kernels: set[Hashable] = field(default_factory=set)

    @property
    def answered(self) -> bool:
        return bool(self.survey or self.refused)

    @property
    def processors(self) -> int:
        return int(self.resources.get("CPU", 0.0))


class ClusterExecutor:
    """See `Executor`."""

    def __init__(self, terms: Terms, cluster: Cluster) -> None:
        """Join the cluster and learn what its nodes can do.

        Raises:
            ClusterError: there is no Ray, no cluster, or no node that can be used.
        """
        self._where = f"--executor ray: {cluster.address}"
        # For itself Ray may find the traces of a cluster that has ended; a head that speaks TLS is not asked.
        unseen = cluster.address == head.AUTO or head.speaks_tls(terms.environment)
        self._joining = JOINING_UNSEEN if unseen else JOINING
        if cluster.address != head.AUTO and (why := head.refusal(cluster.address, terms.environment)):
            raise ClusterError(f"{self._where}: {why}")
        self.set_aside: dict[str, str] = {}
        self._terms, self._cluster = terms, cluster
        self._kinds = {_kind(job): job for job in reversed(terms.plan)}
        self._nodes: dict[str, _Node] = {}
        self._hired: Counter[str] = Counter()
        self._slots: dict[int, _Slot] = {}
        self._asked: set[int] = set()
        self._idle: set[int] = set()
        self._numbers = itertools.count(1)
        self._running: dict[int, tuple[Process, str]] = {}
        self._busy: set[str] = set()
        self._owners: dict[str, str] = {}
        self._held: dict[str, tuple[float, str]] = {}
        self._reach: dict[Hashable, tuple[str, ...]] = {}
        self._asks: dict[Hashable, Mapping[str, float]] = {}
        self._own_toolchains: Mapping[str, Mapping[str, str]] = {}
        self._toolchains: dict[str, Mapping[str, str]] = {}
        self._entries: dict[Hashable, Path | None] = {}
        self._give_up_at = math.inf
        self._site: Site | None = None
        self._nursery: Nursery | None = None
        self._goldens = GoldensAhead()
        self._told = Told(lambda _number, _ended: None)
        self._inspect = Inspect(cluster.survey, tuple(self._kinds.values()), cluster.devices, cluster.inputs)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._liaison, self._channel = self._start_liaison()
        try:
            self._join()
        except BaseException:
            self.close()
            raise

    # Joining

    def _start_liaison(self) -> tuple[subprocess.Popen[bytes], Channel[FromLiaison]]:
        if find_spec("ray") is None:
            raise ClusterError("--executor ray: Ray is not installed here; install `.[ray]`, or leave it out")
        ours, theirs = socket.socketpair()
        path = [entry or str(Path.cwd()) for entry in sys.path]
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", _BOOT.format(path=path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                start_new_session=True,
            )
        return process, Channel[FromLiaison](ours, msgspec.json.Decoder(FromLiaison))

    def _join(self) -> None:
        where = self._where
        archive, digest = self._cluster.archive()
        with tempfile.NamedTemporaryFile() as file:
            file.write(archive)
            file.flush()
            root, cache = str(self._cluster.root), str(self._terms.cache)
            self._channel.send(Connect(self._cluster.address, file.name, digest, root, cache))
            # Meanwhile the liaison imports Ray.
            self._own_toolchains = self._cluster.toolchains(self._terms.plan)
            self._toolchains = {name: there for name, there in self._own_toolchains.items() if there}
            connected = False
            for message in self._messages(self._joining):
                if isinstance(message, Refused):
                    raise ClusterError(f"{where}: {message.text}")
                self._take_in(message)
                if connected := isinstance(message, Connected):
                    break
            if not connected:
                raise ClusterError(
                    f"{where}: no answer within {self._joining:g} s{self._last_error()}; {head.START}"
                )
        for message in self._messages(_SURVEYING) if self._nodes else ():
            self._take_in(message)
            if all(node.answered for node in self._nodes.values()):
                break
        if not any(node.name for node in self._nodes.values()):
            why = "; ".join(f"{node.address}: {node.refused or 'no answer'}" for node in self._nodes.values())
            raise ClusterError(
                f"{where}: no node can be used ({why or 'none has a CPU for jobs'}); {head.START}"
            )

    def _messages(self, seconds: float) -> Iterator[FromLiaison]:
        """What the liaison says within some seconds, until it ends."""
        end = time.monotonic() + seconds
        while self._channel.arrived:
            yield self._channel.arrived.popleft()
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._channel], [], [], left)[0] or not self._channel.read():
                return
            while self._channel.arrived:
                yield self._channel.arrived.popleft()

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "backslashreplace").splitlines()
        telling = [line.strip() for line in lines if line.strip() and not _CHATTER.match(line)]
        return f" ({telling[-1]})" if telling else ""

    # What the controller asks

    @property
    def workers(self) -> int:
        """See `Executor`."""
        there = sum(node.processors for node in self._fit())
        return max(1, min(self._terms.jobs or there, len(self._terms.plan)))

    @property
    def has_room(self) -> bool:
        """See `Executor`."""
        return bool(self._idle) or (len(self._asked) < _PENDING and len(self._slots) < self.workers)

    @property
    def wake_at(self) -> float:
        """See `Executor`."""
        silent = min((node.heard + _SILENT for node in self._fit()), default=math.inf)
        ahead = self._goldens.wake_at
        return min(silent, ahead, self._give_up_at)

    def remarks(self) -> Sequence[str]:
        """See `Executor`."""
        return tuple(filter(None, map(self._described, self._nodes.values())))

    def open(self, site: Site, selector: selectors.BaseSelector, told: Told) -> None:
        """See `Executor`."""
        self._site, self._told = site, told
        self._nursery = Nursery(self._terms.preload, self._terms.environment, site.folder / "nursery.log")
        self._selector = selector
        selector.register(self._channel, selectors.EVENT_READ, self._receive)
        for key, node in self._nodes.items():
            if node.name:
                self._open_node(key, node)

    def wake(self) -> None:
        """See `Executor`."""
        now = time.monotonic()
        self._goldens.wake()
        for key, node in list(self._nodes.items()):
            if node.name and now >= node.heard + _SILENT:
                self._channel.send(Dismiss(key))
                self._lose(key, f"it has said nothing for {_SILENT:g} s")
        if now >= self._give_up_at:
            self._give_up_at = math.inf
            for number, (process, _) in list(self._running.items()):
                lost = Result(process.job, State.INTERRUPTED, "its node did not answer")
                self._end(number, Ended(lost=lost))

    def available(self, job: Job) -> Availability:
        """See `Executor`."""
        kind, reasons = _kind(job), []
        for node in self._fit():
            answer = node.answers[kind]
            if not answer.reason:
                return Availability()
            reasons.append(answer)
        return Availability(reasons[0].reason, reasons[0].remedy) if reasons else Availability()

    def reach(self, job: Job) -> tuple[str, ...]:
        """See `Executor`."""
        kind = _kind(job)
        if kind not in self._reach:
            self._reach[kind] = tuple(
                name
                for node in self._fit()
                if not node.answers[kind].reason
                for name in self._places(node, job)
            )
        return self._reach[kind]

    def lent(self, job: Job) -> tuple[int, ...]:
        """See `Executor`."""
        return ()

    def place_of(self, result: Result) -> str:
        """See `Executor`."""
        node = result.facts.get(NODE, "")
        lock = lock_name(result.job.platform, result.device) if result.device is not None else HOST
        return on_node(node, lock) if node else ""

    def take(self, job: Job, names: Sequence[str]) -> Device | None:
        """See `Executor`."""
        # There may be hundreds of places and slots, and this is asked for each job.
        wanted, now = self._resources(job), time.monotonic()
        taken = self._busy | {name for name, (until, _) in self._held.items() if until > now}
        idle = {
            self._slots[number].node: number for number in self._idle if self._slots[number].covers(wanted)
        }
        name = self._nearest(job, names, idle, taken) if idle else ""
        if not name:
            free = (self._owners[name] for name in names if name in self._owners and name not in taken)
            if nodes := tuple(dict.fromkeys(free)):
                self._ask(wanted, nodes)
            return None
        number = idle[self._owners[name]]
        self._idle.remove(number)
        device = number_of(name)
        if device is None:
            return _Place(None, name, number)
        self._busy.add(name)
        if name in self._held:
            self._held[name] = (now + _ANSWERING, self._held[name][1])
        return _Place(device, name, number)

    def held_elsewhere(self, names: Sequence[str]) -> tuple[str, ...]:
        """See `Executor`. A place that is tried again is waited for until it has had time to answer."""
        now = time.monotonic()
        waited = (name for name in names if name in self._held and name not in self._busy)
        tried = (name for name, (end, _) in self._held.items() if name in self._busy and now < end)
        return (*waited, *tried)

    def holder(self, name: str) -> str:
        """See `Executor`."""
        return self._held[name][1] if name in self._held else "nobody"

    def start(self, process: Process) -> None:
        """See `Executor`."""
        place, site = process.device, self._opened
        if not isinstance(place, _Place):
            raise RuntimeError(f"{process.job.id} was given no place")
        key = self._slots[place.slot].node
        node = self._nodes[key]
        self._running[process.number] = (process, key)
        folder, result = str(process.folder), str(site.result(process.number))
        self._channel.send(Expect(key, process.number, str(site.folder), folder, result))
        lock = "" if place.number is None else lock_of(place.name)
        inside = str(process.folder.relative_to(site.folder))
        run = Run(process.number, process.job, inside, lock)
        entry = self._entry(process.job)
        goldens: tuple[str, ...] = ()
        if entry is not None and str(entry) not in node.goldens:
            # The notes say whose outputs are known: a wrong output may be that of another profile.
            notes = (str(note) for note in notes_in(self._terms.cache) if str(note) not in node.goldens)
            goldens = (str(entry), *notes)
        node.kernels.add(_built(process.job))
        self._channel.send(Tell(key, msgspec.Raw(encode(run)), goldens))

    def cancel(self) -> None:
        """See `Executor`."""
        self._give_up_at = time.monotonic() + self._terms.patience + _CLOCK
        for key in {key for _, key in self._running.values()}:
            self._channel.send(Tell(key, msgspec.Raw(encode(Cancel()))))

    def compute(self, missing: Mapping[str, Wanted]) -> None:
        """See `Executor`."""
        if self._nursery is not None:
            self._goldens.compute(missing, self._nursery, self._selector)

    def awaits_golden(self, job: Job) -> bool:
        """See `Executor`."""
        return self._goldens.awaited_by(job.id)

    def close(self) -> None:
        """See `Executor`."""
        self._goldens.close()
        if self._nursery is not None:
            self._nursery.close()
        self._channel.shut()
        with suppress(subprocess.TimeoutExpired):
            self._liaison.wait(_CLOSE_PATIENCE if self._site is not None else 0.5)
        self._liaison.kill()  # does nothing if it has ended
        self._liaison.wait()
        self._channel.close()
        self._errors.close()

    # What the liaison says

    def _receive(self) -> None:
        there = self._channel.read()
        while self._channel.arrived:
            self._take_in(self._channel.arrived.popleft())
        if not there:
            self._selector.unregister(self._channel)
            why = f"the connection to the Ray cluster was lost{self._last_error()}"
            self._give_up_at = math.inf
            self._told.stop(why)
            for number, (process, _) in list(self._running.items()):
                self._end(number, Ended(lost=Result(process.job, State.INTERRUPTED, why)))

    def _take_in(self, message: FromLiaison) -> None:
        if isinstance(message, Found):
            self._found(message)
        elif isinstance(message, Said):
            self._nodes[message.node].heard = time.monotonic()
            self._said(message.node, _STEWARD.decode(message.line), message.left)
        elif isinstance(message, Gone):
            self._lose(message.node, message.why)
        elif isinstance(message, Brought):
            self._nodes[message.node].goldens.update(message.goldens)
        elif isinstance(message, Granted):
            self._granted(message)

    def _found(self, found: Found) -> None:
        if not int(found.resources.get("CPU", 0.0)):
            return  # a head that runs no jobs
        self._hire(found.node, found.address, found.resources)

    def _hire(self, key: str, address: str, resources: Mapping[str, float]) -> None:
        self._hired[key] += 1
        self._nodes[key] = _Node(address, resources, time.monotonic())
        self._channel.send(Hire(key, address, msgspec.Raw(encode(self._inspect))))

    def _said(self, key: str, said: FromSteward, left: tuple[str, ...]) -> None:
        node = self._nodes[key]
        if isinstance(said, Survey):
            self._survey(key, node, said)
        elif isinstance(said, Unfit):
            self._refuse(key, node, said.text)
        elif isinstance(said, Aside) and node.name:
            self._told.set_aside(on_node(node.name, said.device), said.reason)
        elif isinstance(said, Busy) and said.number in self._running:
            process, _ = self._running[said.number]
            if process.device is not None:
                holder = f"{said.holder} on {node.name}"
                self._held[process.device.name] = (time.monotonic() + _HELD, holder)
            self._end(said.number, Ended(returned=True))
        elif isinstance(said, Done) and said.number in self._running:
            facts = {NODE: node.name}
            if left:
                facts["left_on_node"] = f"too big, or not to be written here: {', '.join(left)}"
            process, _ = self._running[said.number]
            if process.device is not None:
                self._held.pop(process.device.name, None)
            self._end(said.number, Ended(said.report, said.fault, said.gave_up, facts=facts))

    def _survey(self, key: str, node: _Node, survey: Survey) -> None:
        if differing := _differing(self._cluster.facts, survey.facts):
            self._refuse(key, node, f"has other versions: {differing}")
            return
        own = {name: digest for name, digest in survey.sources.items() if not name.startswith("workload.")}
        if differing := _differing({name: self._cluster.sources.get(name, "") for name in own}, own):
            self._refuse(key, node, f"has other files: {differing}")
            return
        node.survey = survey
        others = self._other_toolchains(survey)
        node.spared = "".join(f"; no jobs on {backend}: {why}" for backend, why in others.items())
        names = {one.name for one in self._nodes.values()} | set(map(node_of, self.set_aside))
        tries = (node.address if n == 1 else f"{node.address}#{n}" for n in itertools.count(1))
        node.name = next(name for name in tries if name not in names)
        node.answers = {
            kind: self._checked(job, answer, survey, others)
            for (kind, job), answer in zip(self._kinds.items(), survey.able, strict=True)
        }
        self._owners.update(dict.fromkeys(self._all_places(node), key))
        self._reach.clear()
        self._asks.clear()
        if self._site is not None:
            self._open_node(key, node)
            self._told.remark(self._described(node))
            self._told.changed()

    def _other_toolchains(self, survey: Survey) -> Mapping[str, str]:
        """By backend, how the toolchain of a node differs from that of the run, which the first one sets."""
        found = {backend: versions for backend, versions in survey.toolchains.items() if versions}
        for job, answer in zip(self._kinds.values(), survey.able, strict=True):
            for platform in () if answer.reason else job.platforms:
                if platform.backend in found:
                    self._toolchains.setdefault(platform.backend, found[platform.backend])
        others = {}
        for name, there in found.items():
            where = "here" if self._own_toolchains.get(name) else "elsewhere"
            if why := _differing(self._toolchains.get(name, {}), there, where):
                others[name] = why
        return others

    def _checked(self, job: Job, answer: Able, survey: Survey, others: Mapping[str, str]) -> Able:
        """An answer of a node; a job whose workload or toolchain is another one there cannot run."""
        name = f"workload.{job.workload.name}"
        if survey.sources.get(name) != self._cluster.sources.get(name):
            missing = f"{job.workload.file} is missing or another file on the nodes"
            return Able(missing, "copy it to every node")
        if other := next((others[one.backend] for one in job.platforms if one.backend in others), ""):
            return Able(f"the nodes have another toolchain: {other}", "install the same on every node")
        return answer

    def _refuse(self, key: str, node: _Node, why: str) -> None:
        node.refused = why
        self._channel.send(Dismiss(key))
        if self._site is not None:
            self._told.remark(self._described(node))

    def _described(self, node: _Node) -> str:
        if node.refused:
            return f"node {node.address} is not used: {node.refused}"
        if node.survey is None:
            return ""
        off = node.survey.clock - time.time() + (time.monotonic() - node.heard)
        clock = f"; its clock is {off:+.0f} s off" if abs(off) > _CLOCK else ""
        has = f"{node.processors} processors{clock}{node.spared}"
        return f"node {node.name} ({node.survey.facts['host']}): {has}"

    def _open_node(self, key: str, node: _Node) -> None:
        terms = self._terms
        preload = (*terms.preload, terms.target.partition(":")[0])
        # Nodes of one host have marks of their own.
        mark = f"{self._opened.run_id}@{node.name[:40]}"
        begun = Open(mark, node.processors, terms.settings, terms.grace, preload, terms.target)
        self._channel.send(Tell(key, msgspec.Raw(encode(begun))))

    def _granted(self, granted: Granted) -> None:
        slot = self._slots.get(granted.slot)
        node = self._nodes.get(granted.node)
        if slot is None:
            return  # it was given back before
        if node is None or not node.name:
            self._give_back(granted.slot)
            return
        slot.node = granted.node
        self._asked.discard(granted.slot)
        self._idle.add(granted.slot)

    def _lose(self, key: str, why: str) -> None:
        """A node is gone: its processes are lost, and its places are used no longer."""
        node = self._nodes.pop(key, None)
        if node is None:
            return
        if not node.name:
            node.refused = node.refused or why
            self._nodes[key] = node
            return
        reason = f"node {node.name} was lost: {why}"
        for name in self._all_places(node):
            self._owners.pop(name, None)
            self.set_aside.setdefault(name, reason)
        self._reach.clear()
        self._asks.clear()
        self._told.remark(reason)
        for number in [number for number, slot in self._slots.items() if slot.node == key]:
            self._give_back(number)
        state = State.INFRASTRUCTURE
        if not any(self._fit()):  # the head has ended, or the network: the run can be resumed
            state = State.INTERRUPTED
            self._told.stop(f"no node of the cluster is left; {reason}")
        for number, (process, where) in list(self._running.items()):
            if where == key:
                lost = Result(process.job, state, reason, blames=Blame.DEVICE)
                self._end(number, Ended(lost=lost, facts={NODE: node.name}))
        if state is State.INFRASTRUCTURE and self._hired[key] < _HIRES:
            # Perhaps only its steward or a worker of Ray was killed. If not, this fails at once.
            self._hire(key, node.address, node.resources)

    def _end(self, number: int, ended: Ended) -> None:
        process, _ = self._running.pop(number)
        place = process.device
        if isinstance(place, _Place):
            self._busy.discard(place.name)
            if place.slot in self._slots:
                self._idle.add(place.slot)
        self._told.ended(number, ended)

    # Nodes, slots, places

    @property
    def _opened(self) -> Site:
        if self._site is None:
            raise RuntimeError("the executor is not open")
        return self._site

    def _fit(self) -> Iterator[_Node]:
        return (node for node in self._nodes.values() if node.name)

    def _all_places(self, node: _Node) -> Iterable[str]:
        return {name for job in self._kinds.values() for name in self._places(node, job)}

    def _places(self, node: _Node, job: Job) -> Iterator[str]:
        numbers = node.survey.pools.get(job.platform.name, ()) if node.survey is not None else ()
        for number in numbers:
            yield on_node(node.name, lock_name(job.platform, number))
        if not numbers:
            yield on_node(node.name, HOST)

    def _resources(self, job: Job) -> Mapping[str, float]:
        """What a job asks Ray for, as far as all nodes that can run it say that they have such things."""
        kind = _kind(job)
        if kind not in self._asks:
            able = [set(node.resources) for node in self._fit() if not node.answers[kind].reason]
            offered = set.intersection(*able) if able else set()
            wanted = {"NPU"} if job.platform.on_cards else {"emulated"} if job.platform.devices else set()
            if any(one.backend in self._own_toolchains for one in job.platforms):
                wanted.add("compiler")
            models = {name for name in offered if name.startswith(_MODEL)} if job.platform.on_cards else ()
            # The model is no quantity: Ray's own programs ask for a trace of it.
            self._asks[kind] = {
                "CPU": 1.0,
                **dict.fromkeys(sorted(wanted & offered), 1.0),
                **dict.fromkeys(models, 0.001),
            }
        return self._asks[kind]

    def _ask(self, resources: Mapping[str, float], nodes: tuple[str, ...]) -> None:
        """Ask for one more slot; for its sake give back one that is of no use to such a job."""
        if len(self._slots) >= self.workers:
            if not self._idle:
                return
            self._give_back(min(self._idle))
        if len(self._asked) < _PENDING:
            number = next(self._numbers)
            self._slots[number] = _Slot(resources)
            self._asked.add(number)
            self._channel.send(Ask(number, resources, nodes))

    def _give_back(self, number: int) -> None:
        del self._slots[number]
        self._asked.discard(number)
        self._idle.discard(number)
        self._channel.send(Return(number))

    def _nearest(self, job: Job, names: Sequence[str], idle: Container[str], taken: Container[str]) -> str:
        """The first place whose node lacks the least for a job, of idle nodes; empty: all are taken."""
        entry, built = self._entry(job), _built(job)
        lacking: dict[str, int] = {}
        best = ""
        for name in names:
            key = self._owners.get(name, "")
            if key not in idle or name in taken:
                continue
            if key not in lacking:
                node = self._nodes[key]
                lacks_golden = entry is not None and str(entry) not in node.goldens
                lacking[key] = 2 * lacks_golden + (built not in node.kernels)
            if not best or lacking[key] < lacking[self._owners[best]]:
                best = name
            if not lacking[key]:
                break
        return best

    def _entry(self, job: Job) -> Path | None:
        """The file of a job's golden; None if it needs none or has none."""
        if job.profile is None:
            return None
        kind = golden_kind(job)
        if kind not in self._entries:
            wanted = Wanted(job, str(self._terms.cache), self._terms.settings.inputs, 0.0)
            try:
                self._entries[kind] = entry_of(wanted.wanted(), self._terms.cache)
            except (UserError, DefinitionError, MemoryError):
                self._entries[kind] = None
        entry = self._entries[kind]
        return entry if entry is not None and entry.exists() else None


def _kind(job: Job) -> Hashable:
    """What decides whether a host can run a job."""
    return (job.platform, job.other, job.workload, job.kernel, job.profile is None)


def _built(job: Job) -> Hashable:
    """What a host may have built for a job that another one can use."""
    return (job.platform.name, job.workload, job.geometry_name, job.kernel)


def _differing(ours: Mapping[str, str], theirs: Mapping[str, str], where: str = "here") -> str:
    return ", ".join(
        f"{name} {theirs.get(name, 'none')} ({where} {value})"
        for name, value in ours.items()
        if theirs.get(name) != value
    )
