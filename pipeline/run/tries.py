"""How jobs ended at places, and what places a job was not tried at say most about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pipeline.ground.jobs import State
from pipeline.ground.results import Blame, Result
from pipeline.run.devices import node_of

WRONG = frozenset({State.MISMATCH, State.NONDETERMINISTIC})
"""The ends in which an output is wrong."""

TROUBLE = WRONG | {State.CRASHED, State.TIMED_OUT, State.KILLED, State.NO_RESULT}
"""The ends that are the job's fault unless they are its device's."""


@dataclass(frozen=True)
class Try:
    """How a job ended on a device (empty: on none), as the `at`-th event of the run.

    `first` is set if the device had no trouble of this `kind` before. `by_node`: it is an infrastructure
    error that blames the host, and there is another node that may do the job.
    """

    device: str
    result: Result
    kind: str
    at: int
    first: bool = False
    by_node: bool = False

    @property
    def refused(self) -> bool:
        """Whether it is an infrastructure error that blames the device, or its node."""
        blames_device = self.result.state is State.INFRASTRUCTURE and self.result.blames is Blame.DEVICE
        return blames_device or self.by_node

    @property
    def failed(self) -> bool:
        """Whether it failed in a way that is the job's fault unless it is the device's."""
        return self.result.state in TROUBLE


@dataclass(frozen=True)
class Fault:
    """What is not used any more, and why: `what` is a device or a node, which has these places."""

    what: str
    places: tuple[str, ...]
    reason: str


def fresh(places: Sequence[str], tried: Collection[str]) -> tuple[str, ...]:
    """Those of `places` that say most about a job that was tried: on other nodes, else those not tried.

    A node does not count where the job was only tried on what is none of these places any more.
    """
    nodes = {node_of(place) for place in tried if place in places}
    others = tuple(place for place in places if node_of(place) not in nodes)
    return others or tuple(place for place in places if place not in tried)


def places_of(reach: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """All places that jobs can have, each once. `reach` has those of each job; most have the very same."""
    different = {id(places): places for places in reach.values()}
    return tuple(dict.fromkeys(chain.from_iterable(different.values())))


def told(result: Result) -> str:
    """How a process ended, in words."""
    return ": ".join(filter(None, (result.state.value, result.message)))
