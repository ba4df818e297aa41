"""The messages between the engine and its child process, which does one kernel, as JSON.

It imports only the standard library and this project's own facts, because both interpreters import it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from pipeline.ground.jobs import Metric, Source

BACKEND_TYPES: Mapping[str, str] = {"a2a3": "Ascend910B", "a5": "Ascend950"}
"""PyPTO's backend type for each soc."""

REPLY = "reply.json"
OUTPUT = "output.npy"


@dataclass(frozen=True)
class Order:
    """One kernel's work.

    Attributes:
        program: its name in the workload.
        workload: the workload's name.
        workload_file: the user's file that declares it, or empty.
        geometry: the fields of the workload's own type.
        plan_options: what the matrix sets for the plan.
        platform: the toolchain's name of the platform, such as `a2a3sim`.
        folder: the request's folder; the build, the reply and a run's output go there.
        assemble: whether to hand the kernels to PTOAS.
        arrays: folder with one .npy file per input; None: compile only.
        device: physical id of the card; 0 on a simulator, which has none.
        rounds: timed launches after the one whose output counts.
        simulated: whether the platform is a simulator, so that only the host's clock measures times.
    """

    program: str
    workload: str
    workload_file: str
    geometry: dict[str, Any]
    soc: str
    platform: str
    plan_options: dict[str, int]
    folder: Path
    assemble: bool
    arrays: Path | None = None
    device: int = 0
    rounds: int = 1
    simulated: bool = False


class Fault(str, Enum):
    """Why there is no output: the kernel was refused, the host or the device failed, or it is unknown."""

    REFUSED = "refused"
    HOST = "host"
    DEVICE = "device"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Failure:
    """A failure and its description; the first line of `text` can be shown alone."""

    fault: Fault
    text: str


@dataclass(frozen=True)
class Reply:
    """The result of an order: facts and metrics for the report, and files relative to its folder."""

    facts: dict[str, str] = field(default_factory=dict)
    artefacts: tuple[str, ...] = ()
    failure: Failure | None = None
    metrics: tuple[Metric, ...] = ()


def encode(message: Order | Reply) -> str:
    """A message as JSON."""
    return json.dumps(asdict(message), default=str)


def decode_order(text: str) -> Order:
    """An order from JSON."""
    values = json.loads(text)
    for name in ("folder", "arrays"):
        values[name] = Path(values[name]) if values[name] is not None else None
    return Order(**values)


def decode_reply(text: str) -> Reply:
    """A reply from JSON."""
    values = json.loads(text)
    failure = values["failure"]
    return Reply(
        values["facts"],
        tuple(values["artefacts"]),
        Failure(Fault(failure["fault"]), failure["text"]) if failure is not None else None,
        tuple(Metric(**{**metric, "source": Source(metric["source"])}) for metric in values["metrics"]),
    )
