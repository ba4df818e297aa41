"""The messages between controller, liaison and stewards, as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pipeline.ground.jobs import Job
from pipeline.ground.settings import Settings
from pipeline.run.messages import Report

# Controller to liaison


class Connect(msgspec.Struct, frozen=True, tag=True):
    """First: join the cluster at `address`, and send stewards the sources in the file `archive`.

    `digest` identifies the archive. `root` is where the sources are on this host, and `cache` the folder of
    goldens: what stewards say of theirs is told with these.
    """

    address: str
    archive: str
    digest: str
    root: str
    cache: str


class Hire(msgspec.Struct, frozen=True, tag=True):
    """Start a steward on a node, with files in a folder that begins with `name`, and tell it `line`."""

    node: str
    name: str
    line: msgspec.Raw


class Tell(msgspec.Struct, frozen=True, tag=True):
    """Tell a node's steward a line, after the files `goldens` have been brought to its folder of goldens."""

    node: str
    line: msgspec.Raw
    goldens: tuple[str, ...] = ()


class Expect(msgspec.Struct, frozen=True, tag=True):
    """Where the files of a process belong: the folder of the run, its own folder, and its result's file."""

    node: str
    number: int
    run: str
    folder: str
    result: str


class Dismiss(msgspec.Struct, frozen=True, tag=True):
    """End a node's actor, and so its steward."""

    node: str


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Ask Ray for a slot with these resources on one of these nodes."""

    slot: int
    resources: Mapping[str, float]
    nodes: tuple[str, ...]


class Return(msgspec.Struct, frozen=True, tag=True):
    """Give a slot back, or no longer ask for it."""

    slot: int


ToLiaison = Connect | Hire | Tell | Expect | Dismiss | Ask | Return


# Liaison to controller


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The cluster cannot be used; one line says why, and what helps. It is the last message."""

    text: str


class Found(msgspec.Struct, frozen=True, tag=True):
    """A node of the cluster, with what Ray says that it has."""

    node: str
    address: str
    resources: Mapping[str, float]


class Connected(msgspec.Struct, frozen=True, tag=True):
    """All nodes that the cluster had when it was joined have been told."""


class Gone(msgspec.Struct, frozen=True, tag=True):
    """A node or its steward has ended."""

    node: str
    why: str


class Said(msgspec.Struct, frozen=True, tag=True):
    """What a node's steward said. `left` names files of a process that are too big, or cannot be written."""

    node: str
    line: msgspec.Raw
    left: tuple[str, ...] = ()


class Brought(msgspec.Struct, frozen=True, tag=True):
    """Goldens have arrived at a node."""

    node: str
    goldens: tuple[str, ...]


class Granted(msgspec.Struct, frozen=True, tag=True):
    """Ray has given a slot, on this node."""

    slot: int
    node: str


FromLiaison = Refused | Found | Connected | Gone | Said | Brought | Granted


# Controller to steward


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """First: say what can be done on this host.

    `survey` is the name `module:function` of what answers. `jobs` are one of each kind, `devices` are the ids
    of `--devices`, and `inputs` is the path of a user's tensors.
    """

    survey: str
    jobs: tuple[Job, ...]
    devices: str | None
    inputs: str | None


class Open(msgspec.Struct, frozen=True, tag=True):
    """A run begins, with at most `workers` processes at the same time; see `Terms`. `mark` names it here."""

    mark: str
    workers: int
    settings: Settings
    grace: float
    preload: tuple[str, ...]
    target: str


class Run(msgspec.Struct, frozen=True, tag=True):
    """Begin the `number`-th process, in a folder below that of the run, with the device of this lock."""

    number: int
    job: Job
    folder: str
    device: str


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """End all processes, soon."""


ToSteward = Inspect | Open | Run | Cancel


# Steward to controller


class Able(msgspec.Struct, frozen=True):
    """Whether a job can run; if not, why. See `Availability`."""

    reason: str = ""
    remedy: str = ""


class Survey(msgspec.Struct, frozen=True, tag=True):
    """What a host can do.

    Attributes:
        facts: versions by name.
        sources: digests of what verdicts depend on, by name (`source_digests`).
        able: for each job that was asked about.
        pools: the ids of the devices of each platform, by its name.
        clock: the time of day there, in seconds since the epoch.
        toolchains: what the jobs of each backend compile with, by its name: versions by name.
        lacks: what the first job on a backend builds there for all later ones, by the backend's name.
        goldens: the names of the files of goldens that are there, as in `goldens_in`.
    """

    facts: Mapping[str, str]
    sources: Mapping[str, str]
    able: tuple[Able, ...]
    pools: Mapping[str, tuple[int, ...]]
    clock: float
    toolchains: Mapping[str, Mapping[str, str]] = {}
    lacks: Mapping[str, str] = {}
    goldens: tuple[str, ...] = ()


class Done(msgspec.Struct, frozen=True, tag=True):
    """A process ended; see `Ended`."""

    number: int
    report: Report | None
    fault: str
    gave_up: bool


class Busy(msgspec.Struct, frozen=True, tag=True):
    """A process did not begin: who holds its device, in words."""

    number: int
    holder: str


class Aside(msgspec.Struct, frozen=True, tag=True):
    """A device cannot be used any longer: the name of its lock, and why."""

    device: str
    reason: str


class Unfit(msgspec.Struct, frozen=True, tag=True):
    """The host cannot be used; why, in one line."""

    text: str


class Beat(msgspec.Struct, frozen=True, tag=True):
    """Nothing has happened for a while."""


FromSteward = Survey | Done | Busy | Aside | Unfit | Beat
