"""What a job's process is given, and what becomes of jobs: stages, results, end states. Facts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated

from pipeline.ground.jobs import Job, Platform, State
from pipeline.ground.settings import Settings


def _within(least: int, most: float) -> object:
    """The bounds that a number is read with. A toolchain's Python, which has no msgspec, reads no results."""
    try:
        from msgspec import Meta
    except ImportError:
        return None
    return Meta(ge=least, le=most)


Amount = Annotated[float, _within(0, 1e18)]
"""A number that was measured; neither infinite nor no number."""

Count = Annotated[int, _within(0, 2**63 - 1)]
"""So many things, or bytes. Databases take no more."""

Attempts = Annotated[int, _within(1, 2**31 - 1)]
"""The number of an attempt, or how many there were."""

DeviceId = Annotated[int, _within(0, 2**31 - 1)]
"""The physical id of a device."""


class Outcome(str, Enum):
    """The element of the JUnit testcase: none, `skipped`, `failure` (kernel wrong), `error` (not judged)."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILURE = "failure"
    ERROR = "error"


class Blame(str, Enum):
    """What an infrastructure error blames. Whether a device is at fault is then decided by evidence."""

    NOTHING = "nothing"
    DEVICE = "device"
    HOST = "host"


@dataclass(frozen=True)
class Ending:
    """What an end state means outside: its JUnit outcome and its exit code."""

    outcome: Outcome
    exit_code: int


OUTCOMES: Mapping[State, Ending] = {
    State.PASSED: Ending(Outcome.PASSED, 0),
    State.EXPECTED_FAILURE: Ending(Outcome.SKIPPED, 0),
    State.KNOWN_FAILURE: Ending(Outcome.SKIPPED, 0),
    State.SKIPPED: Ending(Outcome.SKIPPED, 0),
    State.MISMATCH: Ending(Outcome.FAILURE, 1),
    State.REFUTED: Ending(Outcome.FAILURE, 1),
    State.COMPILE_ERROR: Ending(Outcome.FAILURE, 1),
    State.UNEXPECTED_PASS: Ending(Outcome.FAILURE, 1),
    State.NONDETERMINISTIC: Ending(Outcome.FAILURE, 1),
    State.PERFORMANCE: Ending(Outcome.FAILURE, 1),
    State.DEVICE_DEPENDENT: Ending(Outcome.FAILURE, 1),
    State.PROVOKED: Ending(Outcome.FAILURE, 1),
    State.CRASHED: Ending(Outcome.ERROR, 1),
    State.TIMED_OUT: Ending(Outcome.ERROR, 1),
    State.KILLED: Ending(Outcome.ERROR, 1),
    State.NO_RESULT: Ending(Outcome.ERROR, 1),
    State.INTERRUPTED: Ending(Outcome.ERROR, 2),
    State.INFRASTRUCTURE: Ending(Outcome.ERROR, 6),
}
"""All end states. docs/states.md shows the same table; a test keeps them equal."""

VERIFY = "verify-"
"""The prefix of the names of stages that verify a program in the compile lane."""

PROVED = "proved"
"""The fact of a compile stage that says whether its program is proved; if not, with the reason."""

YES = "yes"
"""The value of `PROVED` for a program that is proved."""

DIAGNOSIS = "diagnosis"
"""The fact of a stage or a result that says in one line why an output is wrong."""

UNEXPLAINED = "cause unknown: "
"""What a `DIAGNOSIS` begins with that no known fault explains; the reason follows."""

PROGRAM_WRONG, PROGRAM_RIGHT = "the program is wrong: ", "the program is right: "
"""What a `DIAGNOSIS` begins with if the programs that gave the output are refuted, or proved."""

BLAMED = "blamed"
"""The fact of a stage or a result whose program is refuted: operator, tensor and lines, as a short text."""

WRONG_STEP = "wrong_step"
"""The fact of a result that says in one line which step is at fault."""

REPRODUCE = "reproduce"
"""The fact of a result that gives the command line to rerun its job on the same inputs."""

ATTEMPT = "attempt_"
"""What the facts of a result begin with that say why an attempt failed; the number of the attempt follows."""

RAN_IN = "ran_in"
"""The fact of a result that names the run in which its job ran last, if the job cannot run now."""

PACKING = "packing"
"""The fact that says how the host packs the tensors of a job's geometry, if its programs compute another."""

INJECTED = "injected"
"""The fact of a stage or a result that names the fault committed in it."""

TIMING = "timing"
"""The fact of a stage that says why its program could not be timed."""

QUEUED = "queue_s"
"""The fact of a result whose job waited so many seconds for a scheduler's card; the run did not choose it."""

FINGERPRINT = "fingerprint"
"""The fact of a result that identifies its kind of failure; it is the same in all runs and geometries."""

SINCE = "since"
"""The fact of a result that says since which run its job fails with this fingerprint, or `NEW`."""

KNOWN_AS, KNOWN_IN = "known_as", "known_in"
"""The facts of a `KNOWN_FAILURE` that give the state without the baseline, and the baseline's name."""

NEW = "new"
"""The value of `SINCE` for a failure that the job's last run did not have."""


@dataclass(frozen=True)
class JobContext:
    """What a job's process is given besides the job. All paths are absolute.

    `folder` is the job's own, for its artefacts; `device` is the physical id of its device (None: the
    platform has none); `cache` is the golden cache; `settings` are those of the run.
    """

    folder: Path
    device: int | None
    cache: Path
    settings: Settings = field(default_factory=Settings)


class Source(str, Enum):
    """Who measured, counted or estimated a metric."""

    COUNTER = "counter"
    ESTIMATE = "estimate"
    COMPILER = "compiler"
    COST_MODEL = "cost model"
    VERIFIER = "verifier"
    DEVICE_CLOCK = "device clock"
    HOST_CLOCK = "host clock"


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that an engine gives for a program.

    `unit` is `B`, `cycles`, `us` (microseconds), or names what is counted. `limit` is the largest possible
    value, such as a memory's capacity; None if there is no limit. `model` is the model of the device that it
    was measured on; empty if no device was used.
    """

    name: str
    value: float
    unit: str
    source: Source
    limit: float | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One wrong element: its index, the actual and the expected value, both widened."""

    index: tuple[int, ...]
    actual: int
    expected: int


@dataclass(frozen=True, slots=True)
class Region:
    """Mismatches within one part of an output (a band, a channel): `mismatches` of `count` elements."""

    name: str
    count: Count
    mismatches: Count
    max_abs: int


@dataclass(frozen=True, slots=True)
class Diff:
    """One output compared with its golden. `problem` is set if they cannot be compared at all (shape, dtype).

    `max_abs` is computed wide; the two hashes are SHA-256 over dtype, shape and bytes. `unwritten` counts
    wrong elements of C0 blocks (32 channels of a position) that hold only the sentinel pattern.
    `differences` are the most frequent values of actual - expected, each with its count. `against` names what
    the output was compared with: the golden, or another stage's output, whose hash is then in `golden_sha`.
    `matrix` is set if the output is a plain matrix, not an image: `channels` then are its columns, and a
    mismatch is at (row, column) instead of (row, column, channel). `single` is the one value that all wrong
    elements have, where the golden has several there. `tiles` are the ACC tiles, where they are known and
    something is wrong. `crcs` are checksums of what the output holds in each channel, then in each of these.
    Regions and checksums are empty where nothing is wrong, which is most of thousands of outputs.
    `facts` say what is surprising about the difference, each in a few words.
    """

    tensor: str
    shape: tuple[int, ...]
    count: Count
    mismatches: Count
    max_abs: int
    actual_sha: str
    golden_sha: str
    unwritten: int = 0
    problem: str = ""
    bands: tuple[Region, ...] = ()
    channels: tuple[Region, ...] = ()
    first: tuple[Mismatch, ...] = ()
    differences: tuple[tuple[int, int], ...] = ()
    against: str = "golden"
    matrix: bool = False
    single: int | None = None
    tiles: tuple[Region, ...] = ()
    crcs: tuple[int, ...] = ()
    facts: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """True where every element was compared and equal."""
        return not self.problem and self.mismatches == 0 and self.count > 0


@dataclass(frozen=True, slots=True)
class StageResult:
    """One comparison stage of a job: a program run on given inputs, compared with something.

    `facts` and `metrics` become `key=value` lines of the report; `message` is one line, `details` may be
    many. `artefacts` are paths of its files, relative to the same folder as those of its `Result`.
    `platforms` is set in a job that compares two: the platform that the program ran on, or both where their
    outputs were compared with each other. `causes` are the ids of faults that explain all that is wrong with
    it equally well, the likeliest first.
    """

    name: str
    state: State
    message: str = ""
    details: str = ""
    seconds: Amount = 0.0
    diffs: tuple[Diff, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[Metric, ...] = ()
    artefacts: tuple[str, ...] = ()
    platforms: tuple[Platform, ...] = ()
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one try of a job ended, and on which device: the name of its lock (`npu-0`), empty if on none."""

    device: str
    state: State
    message: str = ""
    seconds: Amount = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """How a job ended.

    `output` is what its process printed, limited in size. `artefacts` are paths of the job's own files,
    relative to the job's folder (in the controller: to the run's folder); `files` includes those of its
    stages. `blames` is set if the state is `infrastructure`. `causes` are the ids of faults that explain it
    equally well, the likeliest first. `tries` are all tries of a job that was executed, in order.
    `peak_memory` is the most bytes that one of its processes had in memory at a time; 0: not known.
    """

    job: Job
    state: State
    message: str = ""
    details: str = ""
    seconds: Amount = 0.0
    started: str = ""
    device: DeviceId | None = None
    attempts: Attempts = 1
    stages: tuple[StageResult, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    artefacts: tuple[str, ...] = ()
    output: str = ""
    blames: Blame = Blame.NOTHING
    causes: tuple[str, ...] = ()
    tries: tuple[Attempt, ...] = ()
    peak_memory: Count = 0

    @property
    def files(self) -> tuple[str, ...]:
        """The artefacts of the job, then those of its stages."""
        return (*self.artefacts, *(path for stage in self.stages for path in stage.artefacts))
