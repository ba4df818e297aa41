"""Geometries of each workload, small enough to be run often, and jobs of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.mutants.catalogue.cases import conv_tiling, pair_tiling
from emulator.engine import run_program
from golden.definition import Definition
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from pipeline.ground.jobs import Job, Lane, Platform, WorkloadName
from pipeline.ground.memory import sentinel_of
from pipeline.matrix.expand import COMPARED
from workloads.registry import workload_named

EMULATED = Platform("emu", "emulator", "a2a3")


@dataclass(frozen=True)
class Sample:
    """A workload in a geometry: several bands, but for the pair."""

    workload: str
    geometry: Any
    plan_options: Mapping[str, int]

    @property
    def definition(self) -> Definition:
        return workload_named(self.workload).definition

    def job(self, lane: Lane, kernel: str = COMPARED, profile: str = "small", **changes: Any) -> Job:
        """A job of it on the emulator."""
        given = {
            "id": f"{lane.value}/emu/g/{kernel}/{profile}",
            "lane": lane,
            "platform": EMULATED,
            "workload": WorkloadName(self.workload),
            "geometry_name": "g",
            "geometry": msgspec.to_builtins(self.geometry),
            "kernel": kernel,
            "profile": profile,
            "timeout": 60.0,
            "plan_options": self.plan_options,
        }
        return Job(**{**given, **changes})


SAMPLES = {
    "conv-pair": Sample(
        "conv-pair", Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)), pair_tiling(12)
    ),
    "conv": Sample("conv", ConvGeometry(20, 16, 64, 64, Conv(5, 1, 2)), conv_tiling(8)),
    "gemm": Sample("gemm", GemmGeometry(64, 96, 64), {}),
}


@pytest.fixture(scope="session")
def samples() -> Mapping[str, Sample]:
    """One of each workload that is shipped, by its name."""
    return SAMPLES


@pytest.fixture
def last_row_unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator's programs leave the last row of their output as they found it."""

    def run(program: Any, soc: Any, arrays: Mapping[str, Any], variant: str) -> Any:
        report = run_program(program, soc, arrays, variant)
        output = list(arrays.values())[-1]
        output[-1] = sentinel_of(output.dtype)
        return report

    monkeypatch.setattr("pipeline.engines.emulator.run_program", run)


@pytest.fixture
def refusing(tmp_path: Path) -> str:
    """A user's file: the pair with a pass1 that refuses every plan, and a kernel of this program alone."""
    path = tmp_path / "refusing.py"
    path.write_text(
        """
from dataclasses import replace

from kernels.plan import PlanError
from workloads import Kernel
from workloads.conv_pair import WORKLOAD as PAIR


def refused(pl, plan):
    raise PlanError("refused here")


PROGRAMS = tuple(replace(one, factory=refused) if one.name == "pass1" else one for one in PAIR.programs)
KERNELS = (*PAIR.kernels, Kernel("pass1", ("pass1",)))
WORKLOAD = replace(
    PAIR, definition=replace(PAIR.definition, name="refusing"), programs=PROGRAMS, kernels=KERNELS
)
"""
    )
    return str(path)
