"""What the history answers: runs, how jobs ended in them, and what is to be said of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES
from pipeline.results.fingerprint import RED


@dataclass(frozen=True)
class Run:
    """A run; `began` is in UTC. `toolchain` is a digest of its versions and sources.

    Of a merged run `parts` has the ids of its parts, with blanks between them.
    """

    id: str
    began: datetime
    seconds: float
    exit_code: int
    verdict: str
    host: str
    commit: str
    branch: str
    toolchain: str
    compared: str
    parts: str


@dataclass(frozen=True)
class Ended:
    """How a job ended in a run."""

    job: str
    run: str
    began: datetime
    commit: str
    toolchain: str
    state: State
    seconds: float
    device: str
    fingerprint: str
    message: str

    @property
    def red(self) -> bool:
        """Whether it failed or was not judged, also if that did not count because a baseline has it too."""
        return self.state is State.KNOWN_FAILURE or OUTCOMES[self.state].outcome in RED


@dataclass(frozen=True)
class Change:
    """A job that ends otherwise than the last time; `before` is None if it never ended before."""

    job: str
    now: Ended
    before: Ended | None


@dataclass(frozen=True)
class Failing:
    """A job that is red, since the run `since`: so many runs with this one, and days of the calendar."""

    job: str
    since: str
    runs: int
    days: int
    now: Ended


@dataclass(frozen=True)
class Flaky:
    """A job that ended `changes` times as nothing explains; `runs` had it."""

    job: str
    changes: int
    runs: int
    states: tuple[State, ...]
    last: str


@dataclass(frozen=True)
class Moved:
    """A metric that is further from the median of the earlier values than noise explains.

    Where it is deterministic only the last of them counts. `mad` is their median absolute deviation,
    `values` their number; `model` is the device model, or for `seconds` the host, that all of them are of.
    `percent` is the change from the median.
    """

    job: str
    metric: str
    value: float
    median: float
    mad: float
    percent: float
    values: int
    model: str


@dataclass(frozen=True)
class Measured:
    """A metric of a job in a run and in those before it, the last first: each run and its value."""

    job: str
    metric: str
    model: str
    values: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Gone:
    """A job that no run has had since `last`, though a run like the one asked about had it."""

    job: str
    last: str
    state: State


@dataclass(frozen=True)
class Counted:
    """How the results of some runs ended at one place. `rate` is the part of those judged that passed."""

    name: str
    runs: int
    states: Mapping[str, int]
    rate: float | None


@dataclass(frozen=True)
class Boundary:
    """Between which runs and commits a job broke; `good` is None if it never passed before."""

    job: str
    good: Ended | None
    bad: Ended


@dataclass(frozen=True)
class Difference:
    """Something that two runs do not have alike: what, and what it is in each."""

    what: str
    one: str
    other: str


@dataclass(frozen=True)
class Night:
    """A run with the number of its jobs in each state."""

    run: Run
    states: Mapping[str, int]
