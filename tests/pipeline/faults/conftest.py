"""What tests of injection share: subjects, and programs run with a fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from golden.specs import Tensors
from pipeline.engines.base import Request
from pipeline.engines.emulator import EmulatorEngine
from pipeline.faults.host import spoiled_output
from pipeline.faults.injection import inputs_with
from pipeline.ground.jobs import Platform, WorkloadName
from pipeline.ground.subject import Subject
from workloads.base import Workload
from workloads.faults import Fault
from workloads.registry import workload_named

ROOT = Path(__file__).resolve().parents[3]

Array = npt.NDArray[Any]
Run = Callable[..., Array]


@pytest.fixture(scope="session")
def reversed_file() -> str:
    """A user's file: the pair with a kernel whose bands run backwards, and with one that has no form."""
    return str(ROOT / "tests" / "data" / "workloads" / "reversed_pair.py")


@pytest.fixture(scope="session")
def reversed_pair(reversed_file: str) -> Workload:
    return workload_named("reversed-pair", reversed_file)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The output of a program on the emulator, with a fault or without; `given` are outputs that it reads."""

    def emulated(
        subject: Subject,
        program: str,
        tensors: Tensors,
        fault: Fault | None = None,
        given: dict[str, Array] | None = None,
    ) -> Array:
        platform = Platform("emu", "emulator", subject.soc)
        name = WorkloadName(subject.workload.name)
        request = Request(program, name, subject, platform, tmp_path, fault=fault.id if fault else "")
        inputs = inputs_with(fault, subject, program, tensors, "vreq8", given or {})
        (output,) = EmulatorEngine().run(request, inputs).outputs.values()
        form = subject.form(program)
        return spoiled_output(fault, form, output.astype(np.int8)) if fault and form else output

    return emulated
