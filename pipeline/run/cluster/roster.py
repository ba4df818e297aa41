"""The nodes of a cluster as a run knows them: whether each may be used, and what it can run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job
from pipeline.run.cluster.messages import Able, Survey
from pipeline.run.cluster.needs import built_by, kind_of
from pipeline.run.devices import HOST, lock_name, node_of, on_node

_CLOCK_SECONDS = 5.0
"""By how much the clock of a node may be off before that is said."""

MEMORY = "memory"
"""Ray's name for the bytes that a node has for processes; it finds them for itself."""

_LEAST_MEMORY = 256 * 1024**2
"""Bytes that a job asks for at least; each further amount is twice the one before."""

_MODEL = "accelerator_type:"
"""How Ray's name of the resource begins that says a node's model of cards."""


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


@dataclass
class Node:
    """A node. `name` is empty until it was found fit; `refused` says why not, `spared` for which jobs.

    `heard` is when it said something last (monotonic, seconds). `asked` is the time of day here when its
    survey was asked for, in seconds since the epoch, and `clock` says how its own clock is off, if it is.
    """

    address: str
    resources: Mapping[str, float]
    heard: float
    asked: float
    name: str = ""
    refused: str = ""
    survey: Survey | None = None
    spared: str = ""
    clock: str = ""
    answers: Mapping[Hashable, Able] = field(default_factory=dict)
    goldens: set[str] = field(default_factory=set)
    kernels: set[Hashable] = field(default_factory=set)

    @property
    def answered(self) -> bool:
        """Whether it is known whether it may be used."""
        return bool(self.survey or self.refused)

    @property
    def processors(self) -> int:
        """Processors for jobs."""
        return int(self.resources.get("CPU", 0.0))

    @property
    def memory(self) -> float:
        """Bytes for processes."""
        return self.resources.get(MEMORY, 0.0)

    def __str__(self) -> str:
        """What people are told of it; empty until it has answered."""
        if self.refused:
            return f"node {self.address} is not used: {self.refused}"
        if self.survey is None:
            return ""
        has = f"{self.processors} processors{self.clock}{self.spared}"
        return f"node {self.name} ({self.survey.facts['host']}): {has}"


def clock_error(asked: float, clock: float, answered: float) -> str:
    """How the clock of a node is off; empty if it may be right, as far as is known.

    The node read `clock` at some time between the question and its answer, which are `asked` and `answered`
    by the clock here; all are seconds since the epoch. A busy node may take long to answer.
    """
    fast, slow = clock - answered, asked - clock
    if max(fast, slow) <= _CLOCK_SECONDS:
        return ""
    return f"; its clock is at least {max(fast, slow):.0f} s {'fast' if fast > slow else 'slow'}"


class Roster:
    """The nodes, by the keys that Ray gives them. Their places have names; see `pipeline.run.devices`."""

    def __init__(self, plan: Sequence[Job], cluster: Cluster) -> None:
        self.nodes: dict[str, Node] = {}
        self._cluster = cluster
        self._kinds = {kind_of(job): job for job in reversed(plan)}
        self._owners: dict[str, str] = {}
        self._reach: dict[Hashable, tuple[str, ...]] = {}
        self._asks: dict[Hashable, Mapping[str, float]] = {}
        self._least_memory = 0.0
        self._own_toolchains: Mapping[str, Mapping[str, str]] = {}
        self._toolchains: dict[str, Mapping[str, str]] = {}

    @property
    def kinds(self) -> tuple[Job, ...]:
        """A job of each kind, about which nodes are asked."""
        return tuple(self._kinds.values())

    def compare_with(self, toolchains: Mapping[str, Mapping[str, str]]) -> None:
        """Take in the toolchains of this host, before any node answers; see `Cluster`."""
        self._own_toolchains = toolchains
        self._toolchains = {name: there for name, there in toolchains.items() if there}

    def fit(self) -> Iterator[Node]:
        """The nodes that may be used."""
        return (node for node in self.nodes.values() if node.name)

    def owner(self, place: str) -> str:
        """The key of the node that has a place; empty: none has."""
        return self._owners.get(place, "")

    # Nodes come and go

    def admit(self, key: str, survey: Survey, answered: float, set_aside: Iterable[str]) -> str:
        """Let a node be used that answered so. The reason, if it may not be.

        Args:
            key: of the node.
            survey: what it answered.
            answered: the time of day here when it did; see `clock_error`.
            set_aside: names of places that are used no longer; a new node gets none of their names.
        """
        node = self.nodes[key]
        if differing := _differing(self._cluster.facts, survey.facts):
            return f"has other versions: {differing}"
        own = {name: digest for name, digest in survey.sources.items() if not name.startswith("workload.")}
        if differing := _differing({name: self._cluster.sources.get(name, "") for name in own}, own):
            return f"has other files: {differing}"
        node.survey = survey
        node.clock = clock_error(node.asked, survey.clock, answered)
        others = self._other_toolchains(survey)
        node.spared = "".join(f"; no jobs on {backend}: {why}" for backend, why in others.items())
        names = {one.name for one in self.nodes.values()} | set(map(node_of, set_aside))
        tries = (node.address if n == 1 else f"{node.address}#{n}" for n in itertools.count(1))
        node.name = next(name for name in tries if name not in names)
        node.answers = {
            kind: self._checked(job, answer, survey, others)
            for (kind, job), answer in zip(self._kinds.items(), survey.able, strict=True)
        }
        self._owners.update(dict.fromkeys(self._all_places(node), key))
        self._nodes_changed()
        return ""

    def lose(self, key: str) -> Iterable[str]:
        """Forget a node that was used. The names of its places."""
        places = self._all_places(self.nodes.pop(key))
        for name in places:
            self._owners.pop(name, None)
        self._nodes_changed()
        return places

    def _nodes_changed(self) -> None:
        self._reach.clear()
        self._asks.clear()
        self._least_memory = min((node.memory for node in self.fit()), default=0.0)

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

    # What a job can have

    def available(self, job: Job) -> Availability:
        """Whether a job can run on any node, and if not, why."""
        kind, reasons = kind_of(job), []
        for node in self.fit():
            answer = node.answers[kind]
            if not answer.reason:
                return Availability()
            reasons.append(answer)
        return Availability(reasons[0].reason, reasons[0].remedy) if reasons else Availability()

    def reach(self, job: Job) -> tuple[str, ...]:
        """The names of the places where a job can run."""
        kind = kind_of(job)
        if kind not in self._reach:
            self._reach[kind] = tuple(
                name for node in self.fit() if not node.answers[kind].reason for name in _places(node, job)
            )
        return self._reach[kind]

    def memory(self, needed: float, names: Sequence[str]) -> float:
        """What is asked for a job that needs so many bytes on one of these places; 0 if no node has as much.

        It is an amount that few differ in, so that jobs can share slots, unless just that is too much.
        """
        asked = float(_LEAST_MEMORY)
        while asked < needed:
            asked *= 2
        if asked <= self._least_memory:
            return asked
        most = max((self.nodes[key].memory for key in set(map(self.owner, names)) if key), default=0.0)
        return next((amount for amount in (asked, needed) if amount <= most), 0.0)

    def resources(self, job: Job) -> Mapping[str, float]:
        """What a job asks Ray for, as far as all nodes that can run it say that they have such things.

        Memory is apart, in `memory`.
        """
        kind = kind_of(job)
        if kind not in self._asks:
            able = [set(node.resources) for node in self.fit() if not node.answers[kind].reason]
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

    def nearest(
        self, job: Job, golden: Path | None, names: Sequence[str], idle: Container[str], taken: Container[str]
    ) -> str:
        """The first place whose node lacks the least for a job; empty: all are taken.

        Args:
            job: that is to run.
            golden: the file that it needs.
            names: of places.
            idle: keys of the nodes where there is a slot for it.
            taken: names of places that are not free.
        """
        built = built_by(job)
        lacking: dict[str, int] = {}
        best = ""
        for name in names:
            key = self.owner(name)
            if key not in idle or name in taken:
                continue
            if key not in lacking:
                node = self.nodes[key]
                lacks_golden = golden is not None and str(golden) not in node.goldens
                lacking[key] = 2 * lacks_golden + (built not in node.kernels)
            if not best or lacking[key] < lacking[self.owner(best)]:
                best = name
            if not lacking[key]:
                break
        return best

    def _all_places(self, node: Node) -> set[str]:
        return {name for job in self._kinds.values() for name in _places(node, job)}


def _places(node: Node, job: Job) -> Iterator[str]:
    numbers = node.survey.pools.get(job.platform.name, ()) if node.survey is not None else ()
    for number in numbers:
        yield on_node(node.name, lock_name(job.platform, number))
    if not numbers:
        yield on_node(node.name, HOST)


def _differing(ours: Mapping[str, str], theirs: Mapping[str, str], where: str = "here") -> str:
    return ", ".join(
        f"{name} {theirs.get(name, 'none')} ({where} {value})"
        for name, value in ours.items()
        if theirs.get(name) != value
    )
