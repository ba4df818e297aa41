"""Jobs: what runs on which platform, and in which state it is. Facts only; there is no behaviour here.

What becomes of jobs is in `results`: it is apart, so that `list` does not load it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Lane(str, Enum):
    """What is done with a kernel: compile on any host, run on a device, or compare stage by stage."""

    COMPILE = "compile"
    DEVICE = "device"
    COMPARE = "compare"


class State(str, Enum):
    """The state of a job. The first three come before its end; the others are end states (see `OUTCOMES`)."""

    PLANNED = "planned"
    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    MISMATCH = "mismatch"
    REFUTED = "refuted"
    COMPILE_ERROR = "compile-error"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    KILLED = "killed"
    INFRASTRUCTURE = "infrastructure"
    SKIPPED = "skipped"
    EXPECTED_FAILURE = "expected-failure"
    KNOWN_FAILURE = "known-failure"
    UNEXPECTED_PASS = "unexpected-pass"
    NONDETERMINISTIC = "nondeterministic"
    PERFORMANCE = "performance"
    DEVICE_DEPENDENT = "device-dependent"
    PROVOKED = "provoked"
    NO_RESULT = "no-result"
    INTERRUPTED = "interrupted"


EXCUSABLE = (State.MISMATCH, State.REFUTED, State.COMPILE_ERROR, State.PERFORMANCE)
"""Only a judgement on the kernel can be expected: a hang says nothing about a known fault."""

INPUTS = "inputs"
"""The name of the profile of a job that runs on a user's tensors."""


class PlatformKind(str, Enum):
    """What a platform's jobs run on: an NPU card, a simulator of one on the CPU, or this host alone."""

    CARD = "card"
    SIMULATOR = "simulator"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Platform:
    """Where jobs run: backend (engine), the soc whose limits apply, the variant of requantisation, devices.

    `variant` is a name from `golden.vreq8.VARIANTS`. `devices` are physical ids; empty means that the backend
    needs none. If a platform is `required`, a skip becomes an error. `kind` is one of the backend's kinds
    (`pipeline.engines.registry`); the matrix loader sets it.
    """

    name: str
    backend: str
    soc: str
    variant: str = "vreq8"
    devices: tuple[int, ...] = ()
    required: bool = False
    kind: PlatformKind = PlatformKind.HOST

    @property
    def on_cards(self) -> bool:
        """Whether its jobs run on cards. Cards are locked, can be lent, and can fail."""
        return self.kind is PlatformKind.CARD


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """A known failure of a job: the reason, a link to its issue, and which failure is excused.

    `cause` is the id of a fault, `fingerprint` the fact of that name. `pipeline.results.excuses` says what is
    excused if both are None.
    """

    reason: str
    link: str
    cause: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class WorkloadName:
    """A workload's name in the matrix, and the absolute path of the user's file that declares it.

    The path is empty for a shipped workload.
    """

    name: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One job of the plan. `id` is the same every night: it has no device, seed of the night or time in it.

    `geometry` holds the shapes as the matrix writes them, and `plan_options` what it sets for the plan:
    `pipeline.ground.subject` converts them to the workload's own types.

    `profile` is None if the kernel is only compiled. In the compile lane the compiled programs are verified
    on the profile, and it is not part of the id. `written_profile` is set if the matrix writes the profile
    differently, such as `full-range@nightly`, whose seed changes each night. `timeout` is in seconds, always
    finite. `other` is the second platform of a job that compares two; with `other_first` it was named first.
    """

    id: str
    lane: Lane
    platform: Platform
    workload: WorkloadName
    geometry_name: str
    geometry: Mapping[str, Any]
    kernel: str
    profile: str | None
    timeout: float
    expected_failure: ExpectedFailure | None = None
    plan_options: Mapping[str, int] = field(default_factory=dict)
    other: Platform | None = None
    written_profile: str = ""
    other_first: bool = False

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """The platform, or both platforms of a job that compares two, in the order they were named."""
        if self.other is None:
            return (self.platform,)
        return (self.other, self.platform) if self.other_first else (self.platform, self.other)

    @property
    def platform_name(self) -> str:
        """The name of the platform, or both names with `+` between them."""
        return "+".join(platform.name for platform in self.platforms)

    @property
    def work(self) -> str:
        """What is done on the geometry: kernel, profile as the matrix writes it, or both with `/` between.

        In the compile lane there is no profile; in the compare lane, which runs all programs, no kernel.
        """
        profile = self.written_profile or self.profile
        named = {
            Lane.COMPILE: (self.kernel,),
            Lane.DEVICE: (self.kernel, profile),
            Lane.COMPARE: (profile,),
        }
        return "/".join(filter(None, named[self.lane]))
