"""What the engine asks of its child process, one kernel a process; it travels as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from pipeline.ground.jobs import WorkloadName


class Work(str, Enum):
    """How far a kernel is taken: to AICore C++, or through the cost model (which writes none)."""

    CODE = "code"
    COST = "cost"


@dataclass(frozen=True)
class Check:
    """Data to interpret every pass on.

    `arrays` is a folder with a .npy file a parameter, the output's being its golden; `calculator` is the
    verifier's library.
    """

    arrays: Path
    calculator: Path


@dataclass(frozen=True)
class Order:
    """One kernel's work.

    Attributes:
        workload: whose program it is.
        geometry, tiling: the fields of the workload's own types.
        kernels: the source file that holds `BUILD` (see `workloads.tensor_level`).
        folder: scratch of this order alone; output, logs and the framework's home lie in it.
        check: with `CODE`, asks for the verification of every pass as well.
    """

    work: Work
    program: str
    workload: WorkloadName
    geometry: Mapping[str, Any]
    tiling: Mapping[str, Any]
    kernels: Path
    folder: Path
    check: Check | None = None

    @property
    def output(self) -> Path:
        """Where the framework makes its dated output folder."""
        return self.folder / "output"


def encode(order: Order) -> bytes:
    """An order as JSON."""
    return msgspec.json.encode(order, enc_hook=str)


def decode(data: bytes) -> Order:
    """An order from JSON."""

    def path(kind: type[Any], value: Any) -> Any:
        return kind(value)

    return msgspec.json.decode(data, type=Order, dec_hook=path)
