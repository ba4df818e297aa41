"""The messages between the engine and its child process, which does one kernel, as JSON.

It imports only the standard library and this project's own facts, because both interpreters import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.ground.results import Blame, Metric

BACKEND_TYPES: Mapping[str, str] = {"a2a3": "Ascend910B", "a5": "Ascend950"}
"""PyPTO's backend type for each soc."""

INPUTS = "inputs"
"""The folder of the arrays of a run, one .npy file per input."""

BEGUN = "begun"
"""The file that says that the kernel was compiled and its run has begun."""

REPLY = "reply.json"
OUTPUT = "output.npy"


@dataclass(frozen=True)
class Order:
    """One kernel's work. The arrays of a run are in the order's folder; the build and the reply go there.

    Attributes:
        workload: the workload's name.
        workload_file: the user's file that declares it, or empty.
        geometry: the fields of the workload's own type.
        plan_options: what the matrix sets for the plan.
        platform: the toolchain's name of the platform, such as `a2a3sim`.
        simulated: whether the platform is a simulator, so that only the host's clock measures times.
        assemble: whether to hand the kernels to PTOAS.
        run: whether to run the kernel; otherwise it is only compiled.
        device: physical id of the card; 0 on a simulator, which has none.
        model: the card's model, because times of different models cannot be compared; empty on a simulator.
    """

    program: str
    workload: str
    workload_file: str
    geometry: Any
    plan_options: Mapping[str, int]
    soc: str
    platform: str
    simulated: bool
    assemble: bool
    run: bool
    device: int
    model: str


@dataclass(frozen=True)
class Reply:
    """The result of an order: facts and metrics for the report, and files relative to its folder.

    `refusal` says why PyPTO refuses the kernel. `failure` says why there is no output for another reason, and
    `blames` what is at fault, if that is known. The first line of each can be shown alone.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    artefacts: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    refusal: str = ""
    failure: str = ""
    blames: Blame = Blame.NOTHING
