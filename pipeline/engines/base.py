"""What every engine offers: say whether it can be used, compile a program, run a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from golden.errors import UserError
from golden.specs import Array
from pipeline.ground.jobs import Platform, State, WorkloadName
from pipeline.ground.results import OUTCOMES, Blame, Metric
from pipeline.ground.subject import Subject
from workloads.base import Workload

ACCEPTED_PASSES = "accepted_passes"
"""The metric that counts the compiler passes whose result the framework's own verifier accepts."""


class CompileError(Exception):
    """The engine refuses the program; the message gives its true reason, with file and line if known.

    `artefacts` are files with details that it left in the request's folder.
    """

    def __init__(self, message: str, artefacts: tuple[Path, ...] = ()) -> None:
        super().__init__(message)
        self.artefacts = artefacts


class NotSupportedError(Exception):
    """The engine does not support this geometry here: the job is skipped with the message as its reason."""


class InfrastructureError(Exception):
    """The engine failed for a reason that says nothing about the kernel (a sick device, a missing driver).

    `blames` says whether the host or its device is at fault.
    """

    def __init__(self, message: str, blames: Blame = Blame.HOST) -> None:
        super().__init__(message)
        self.blames = blames


class ToolchainError(UserError):
    """Toolchains that were set up cannot be used; one line per problem, with its remedy. Exit code 6."""

    exit_code = OUTCOMES[State.INFRASTRUCTURE].exit_code


@dataclass(frozen=True)
class Availability:
    """Whether something can run here; if not, `reason` says why and `remedy` what to do."""

    reason: str = ""
    remedy: str = ""

    def __bool__(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Request:
    """One program to compile or run: its name in the workload of its subject, platform and device.

    `workload` says where the subject's workload is declared. `folder` is where the engine leaves artefacts;
    it exists, is empty and belongs to this request alone. `fault` is the id of a fault to commit in the
    kernel, which only the emulator can do.
    """

    program: str
    workload: WorkloadName
    subject: Subject
    platform: Platform
    folder: Path
    device: int | None = None
    fault: str = ""


@dataclass(frozen=True)
class Done:
    """What an engine found: facts, metrics, the artefacts it left in the request's folder; outputs of a run.

    The outputs are by parameter name. If `problems` is not empty, the stage fails even if they are right.
    """

    facts: Mapping[str, str]
    artefacts: tuple[Path, ...]
    metrics: tuple[Metric, ...]
    outputs: Mapping[str, Array] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class Engine(Protocol):
    """One way to compile and run programs. An instance serves one job's process and is not shared."""

    name: str

    def probe(
        self, platform: Platform, workload: Workload, programs: Sequence[str], *, compile_only: bool = False
    ) -> Availability:
        """Say, without importing heavy packages, whether these programs of a workload can be run here.

        With `compile_only`, what is needed only to run them may be missing.
        """
        ...

    def check(self, subject: Subject, program: str) -> None:
        """Raise `CompileError` for what refuses a program before there is any data: plan, source, `main`."""
        ...

    def compile(self, request: Request) -> Done:
        """Compile only. Raises `CompileError`, `NotSupportedError` or `InfrastructureError`."""
        ...

    def run(self, request: Request, inputs: Mapping[str, Array]) -> Done:
        """Compile and run on `inputs` (by parameter name, layouts of `golden.specs`). Raises as `compile`.

        If the engine writes outputs in place, they are first filled as `pipeline.ground.memory` says.
        """
        ...
