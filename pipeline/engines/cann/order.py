"""The order that the engine sends to its child process, as JSON: the work on one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from pipeline.ground.jobs import WorkloadName


class Work(str, Enum):
    """What is made of a kernel: AICore C++, or an estimate by the cost model (which writes no C++)."""

    CODE = "code"
    COST = "cost"


@dataclass(frozen=True)
class Check:
    """The data on which every pass is interpreted.

    `arrays` is a folder with one .npy file per parameter; that of the output holds its golden. `calculator`
    is the verifier's library.
    """

    arrays: Path
    calculator: Path


@dataclass(frozen=True)
class Order:
    """One kernel's work.

    Attributes:
        workload: the workload that has the program.
        geometry, tiling: the fields of the workload's own types.
        kernels: the source file that holds `BUILD` (see `workloads.tensor_level`).
        folder: scratch of this order alone, for output, logs and the framework's home.
        check: only with `CODE`: also verify every pass.
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
        """The folder in which the framework creates its dated output folder."""
        return self.folder / "output"


def encode(order: Order) -> bytes:
    """An order as JSON."""
    return msgspec.json.encode(order, enc_hook=str)


def decode(data: bytes) -> Order:
    """An order from JSON."""

    def path(kind: type[Any], value: Any) -> Any:
        return kind(value)

    return msgspec.json.decode(data, type=Order, dec_hook=path)
