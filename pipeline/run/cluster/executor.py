"""The executor whose places are on the nodes of a Ray cluster.

Ray gives slots: resources on a node of its choice, for as long as the run needs them. This module gives slots
and devices to jobs and knows no Ray: it speaks with the liaison. What it calls a place is a device of a node
(`10.0.0.3:npu-0`), or the node itself (`10.0.0.3:host`) for a job that needs no device. So the evidence of a
run sets sick nodes aside as it does sick devices.
"""

from __future__ import annotations

import math
import selectors
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from golden.cache import notes_in
from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Blame, Result
from pipeline.run.ahead import GoldensAhead
from pipeline.run.cluster import head
from pipeline.run.cluster.builds import Builds
from pipeline.run.cluster.link import ClusterError, Link, Start, head_at, start_liaison
from pipeline.run.cluster.messages import (
    Aside,
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
    Run,
    Said,
    Survey,
    Tell,
    Unfit,
)
from pipeline.run.cluster.needs import GoldenFiles, built_by
from pipeline.run.cluster.places import Devices, Place, Slots
from pipeline.run.cluster.roster import MEMORY, Cluster, Node, Roster
from pipeline.run.devices import HOST, Device, lock_name, lock_of, number_of, on_node
from pipeline.run.executor import Ended, Process, Site, Terms, Told
from pipeline.run.goldens import Wanted
from pipeline.run.messages import encode
from pipeline.run.nursery import Nursery

NODE = "node"
"""The fact of a result that names the node where its job ran."""

_JOINING_SECONDS = 60.0
"""Within which a cluster that answers must have been joined: a busy host takes that long."""

_SURVEYING_SECONDS = 90.0
"""Within which the nodes of a cluster that was joined must have answered; later ones count later."""

_SILENT_SECONDS = 60.0
"""After which a node that says nothing is lost."""

_MOST_HIRES = 3
"""How often a node is tried, the first time included."""

_ROUND_TRIP_SECONDS = 5.0
"""What the way to a node and back may take, beside the patience of its keepers."""

_CLOSING_SECONDS = 40.0
"""That the liaison of a run has to end all its nodes."""

_CLOSING_UNOPENED_SECONDS = 0.5
"""The same, of a run that did not begin."""

_STEWARD = msgspec.json.Decoder(FromSteward)


class ClusterExecutor:
    """See `Executor`."""

    def __init__(
        self,
        terms: Terms,
        cluster: Cluster,
        start: Start = start_liaison,
        head_at: Callable[[str, Mapping[str, str]], str] = head_at,
    ) -> None:
        """Join the cluster, with a liaison that `start` starts, and learn what its nodes can do.

        `head_at` finds its head, as that of `link` does.

        Raises:
            ClusterError: there is no Ray, no cluster, or no node that can be used.
        """
        self._where = f"--executor ray: {cluster.address}"
        self._address = head_at(cluster.address, terms.environment)
        self.set_aside: dict[str, str] = {}
        self._terms, self._cluster = terms, cluster
        self._roster = Roster(terms.plan, cluster)
        self._nodes = self._roster.nodes
        self._hired: Counter[str] = Counter()
        self._running: dict[int, tuple[Process, str]] = {}
        self._devices = Devices()
        self._builds = Builds()
        self._told_of_memory = False
        self._files = GoldenFiles(terms.cache, terms.settings.inputs)
        self._give_up_at = math.inf
        self._site: Site | None = None
        self._nursery: Nursery | None = None
        self._goldens = GoldensAhead()
        self._told = Told(lambda _number, _ended: None)
        self._inspect = Inspect(cluster.survey, self._roster.kinds, cluster.devices, cluster.inputs)
        self._link = Link(start)
        self._slots = Slots(self._link.send, lambda key: self._nodes[key].processors)
        try:
            self._join()
        except BaseException:
            self.close()
            raise

    # Joining

    def _join(self) -> None:
        where = self._where
        archive, digest = self._cluster.archive()
        with tempfile.NamedTemporaryFile() as file:
            file.write(archive)
            file.flush()
            root, cache = str(self._cluster.root), str(self._terms.cache)
            self._link.send(Connect(self._address, file.name, digest, root, cache))
            # Meanwhile the liaison imports Ray.
            self._roster.compare_with(self._cluster.toolchains(self._terms.plan))
            connected = False
            for message in self._link.messages(_JOINING_SECONDS):
                if isinstance(message, Refused):
                    raise ClusterError(f"{where}: {message.text}")
                self._take_in(message)
                if connected := isinstance(message, Connected):
                    break
            if not connected:
                late = f"no answer within {_JOINING_SECONDS:g} s"
                what = "Ray's driver ended before it had joined" if self._link.ended else late
                raise ClusterError(f"{where}: {what}{self._link.last_error()}; {head.START}")
        for message in self._link.messages(_SURVEYING_SECONDS) if self._nodes else ():
            self._take_in(message)
            if all(node.answered for node in self._nodes.values()):
                break
        if not any(node.name for node in self._nodes.values()):
            why = "; ".join(f"{node.address}: {node.refused or 'no answer'}" for node in self._nodes.values())
            raise ClusterError(
                f"{where}: no node can be used ({why or 'none has a CPU for jobs'}); {head.START}"
            )

    # What the controller asks

    @property
    def workers(self) -> int:
        """See `Executor`."""
        there = sum(node.processors for node in self._roster.fit())
        return max(1, min(self._terms.jobs or there, len(self._terms.plan)))

    @property
    def has_room(self) -> bool:
        """See `Executor`."""
        return self._slots.has_room(self.workers)

    @property
    def wake_at(self) -> float:
        """See `Executor`."""
        silent = min((node.heard + _SILENT_SECONDS for node in self._roster.fit()), default=math.inf)
        ahead = self._goldens.wake_at
        return min(silent, ahead, self._give_up_at)

    def remarks(self) -> Sequence[str]:
        """See `Executor`."""
        return tuple(filter(None, map(str, self._nodes.values())))

    def open(self, site: Site, selector: selectors.BaseSelector, told: Told) -> None:
        """See `Executor`."""
        self._site, self._told = site, told
        self._nursery = Nursery(self._terms.preload, self._terms.environment, site.folder / "nursery.log")
        self._selector = selector
        selector.register(self._link.channel, selectors.EVENT_READ, self._receive)
        for key, node in self._nodes.items():
            if node.name:
                self._open_node(key, node)

    def wake(self) -> None:
        """See `Executor`."""
        now = time.monotonic()
        self._goldens.wake()
        for key, node in list(self._nodes.items()):
            if node.name and now >= node.heard + _SILENT_SECONDS:
                self._link.send(Dismiss(key))
                self._lose(key, f"it has said nothing for {_SILENT_SECONDS:g} s")
        if now >= self._give_up_at:
            self._give_up_at = math.inf
            for number, (process, _) in list(self._running.items()):
                lost = Result(process.job, State.INTERRUPTED, "its node did not answer")
                self._end(number, Ended(lost=lost))

    def available(self, job: Job) -> Availability:
        """See `Executor`."""
        return self._roster.available(job)

    def reach(self, job: Job) -> tuple[str, ...]:
        """See `Executor`."""
        return self._roster.reach(job)

    def width(self, name: str) -> int:
        """See `Executor`."""
        return 1 if number_of(name) is not None else self._nodes[self._roster.owner(name)].processors

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
        wanted, taken = self._wanted(job, names), self._devices.taken()
        idle, owner = self._slots.idle(wanted), self._roster.owner
        name = self._roster.nearest(job, self._files.of(job), names, idle, taken) if idle else ""
        if not name:
            free = (key for name in names if name not in taken and (key := owner(name)))
            if nodes := tuple(dict.fromkeys(free)):
                # Slots on nodes where it may run soon are of use to it, even if not now.
                self._slots.ask(wanted, nodes, self.workers, exchange=not self._builds.hinder(job))
            return None
        slot, device = idle[owner(name)], number_of(name)
        self._slots.use(slot)
        if device is not None:
            self._devices.use(name)
        return Place(device, name, slot)

    def ready(self, job: Job, names: tuple[str, ...]) -> tuple[str, ...]:
        """See `Executor`."""
        hindered = self._builds.hinder(job)
        if not hindered:
            return names
        return tuple(name for name in names if self._roster.owner(name) not in hindered)

    def _wanted(self, job: Job, names: Sequence[str]) -> Mapping[str, float]:
        """What a job asks Ray for, to run on one of these places."""
        wanted = self._roster.resources(job)
        needed = self._terms.memory.get(job.id, 0.0)
        if not needed:
            return wanted
        if memory := self._roster.memory(needed, names):
            return {**wanted, MEMORY: memory}
        if not self._told_of_memory:
            self._told_of_memory = True
            self._told.remark(
                f"no node has the {needed / 1024**2:.0f} MiB of memory that {job.id} is expected to need:"
                " jobs that need too much ask Ray for none"
            )
        return wanted

    def held_elsewhere(self, names: Sequence[str]) -> tuple[str, ...]:
        """See `Executor`."""
        return self._devices.held_elsewhere(names)

    def holder(self, name: str) -> str:
        """See `Executor`."""
        return self._devices.holder(name)

    def start(self, process: Process) -> None:
        """See `Executor`."""
        place, site = process.device, self._opened
        if not isinstance(place, Place):
            raise RuntimeError(f"{process.job.id} was given no place")
        key = self._slots.node_of(place.slot)
        node = self._nodes[key]
        self._running[process.number] = (process, key)
        folder, result = str(process.folder), str(site.result(process.number))
        self._link.send(Expect(key, process.number, str(site.folder), folder, result))
        lock = "" if place.number is None else lock_of(place.name)
        inside = str(process.folder.relative_to(site.folder))
        run = Run(process.number, process.job, inside, lock)
        entry = self._files.of(process.job)
        goldens: tuple[str, ...] = ()
        if entry is not None and str(entry) not in node.goldens:
            # The notes say whose outputs are known: a wrong output may be that of another profile.
            notes = (str(note) for note in notes_in(self._terms.cache) if str(note) not in node.goldens)
            goldens = (str(entry), *notes)
        node.kernels.add(built_by(process.job))
        self._builds.begin(process.number, key, process.job)
        self._link.send(Tell(key, msgspec.Raw(encode(run)), goldens))

    def cancel(self) -> None:
        """See `Executor`."""
        self._give_up_at = time.monotonic() + self._terms.patience + _ROUND_TRIP_SECONDS
        for key in {key for _, key in self._running.values()}:
            self._link.send(Tell(key, msgspec.Raw(encode(Cancel()))))

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
        self._link.close(_CLOSING_SECONDS if self._site is not None else _CLOSING_UNOPENED_SECONDS)

    # What the liaison says

    def _receive(self) -> None:
        channel = self._link.channel
        there = channel.read()
        while channel.arrived:
            self._take_in(channel.arrived.popleft())
        if not there:
            self._selector.unregister(channel)
            why = f"the connection to the Ray cluster was lost{self._link.last_error()}"
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
        self._nodes[key] = Node(address, resources, time.monotonic(), time.time())
        self._link.send(Hire(key, address, msgspec.Raw(encode(self._inspect))))

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
                self._devices.hold(process.device.name, f"{said.holder} on {node.name}")
            self._end(said.number, Ended(returned=True))
        elif isinstance(said, Done) and said.number in self._running:
            facts = {NODE: node.name}
            if left:
                facts["left_on_node"] = f"too big, or not to be written here: {', '.join(left)}"
            process, _ = self._running[said.number]
            if process.device is not None:
                self._devices.release(process.device.name)
            self._end(said.number, Ended(said.report, said.fault, said.gave_up, facts=facts))

    def _survey(self, key: str, node: Node, survey: Survey) -> None:
        if why := self._roster.admit(key, survey, time.time(), self.set_aside):
            self._refuse(key, node, why)
            return
        self._builds.know(key, survey.lacks)
        node.goldens.update(str(self._terms.cache / name) for name in survey.goldens)
        if self._site is not None:
            self._open_node(key, node)
            self._told.remark(str(node))
            self._told.changed()

    def _refuse(self, key: str, node: Node, why: str) -> None:
        node.refused = why
        self._link.send(Dismiss(key))
        if self._site is not None:
            self._told.remark(str(node))

    def _open_node(self, key: str, node: Node) -> None:
        terms = self._terms
        preload = (*terms.preload, terms.target.partition(":")[0])
        # Nodes of one host have marks of their own.
        mark = f"{self._opened.run_id}@{node.name[:40]}"
        begun = Open(mark, node.processors, terms.settings, terms.grace, preload, terms.target)
        self._link.send(Tell(key, msgspec.Raw(encode(begun))))

    def _granted(self, granted: Granted) -> None:
        node = self._nodes.get(granted.node)
        self._slots.grant(granted.slot, granted.node, fit=node is not None and bool(node.name))

    def _lose(self, key: str, why: str) -> None:
        """A node is gone: its processes are lost, and its places are used no longer."""
        node = self._nodes.get(key)
        if node is None:
            return
        if not node.name:
            node.refused = node.refused or why
            return
        reason = f"node {node.name} was lost: {why}"
        for name in self._roster.lose(key):
            self.set_aside.setdefault(name, reason)
        self._told.remark(reason)
        self._slots.lose(key)
        self._builds.lose(key)
        state = State.INFRASTRUCTURE
        if not any(self._roster.fit()):  # the head has ended, or the network: the run can be resumed
            state = State.INTERRUPTED
            self._told.stop(f"no node of the cluster is left; {reason}")
        for number, (process, where) in list(self._running.items()):
            if where == key:
                lost = Result(process.job, state, reason, blames=Blame.DEVICE)
                self._end(number, Ended(lost=lost, facts={NODE: node.name}))
        if state is State.INFRASTRUCTURE and self._hired[key] < _MOST_HIRES:
            # Perhaps only its steward or a worker of Ray was killed. If not, this fails at once.
            self._hire(key, node.address, node.resources)

    def _end(self, number: int, ended: Ended) -> None:
        process, _ = self._running.pop(number)
        self._builds.end(number, began=not ended.returned)
        place = process.device
        if isinstance(place, Place):
            self._devices.free(place.name)
            self._slots.free(place.slot)
        self._told.ended(number, ended)

    @property
    def _opened(self) -> Site:
        if self._site is None:
            raise RuntimeError("the executor is not open")
        return self._site
