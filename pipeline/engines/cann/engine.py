"""CANN's PyPTO as an engine: it compiles, estimates cycles and verifies numerically; it uses no device."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from emulator.soc import SOCS, Space
from golden.specs import Array
from kernels.tensor.plan import Capacities, TilingError
from pipeline.engines.base import (
    ACCEPTED_PASSES,
    Availability,
    Compiled,
    CompileError,
    Executed,
    InfrastructureError,
    NotSupportedError,
    Request,
)
from pipeline.engines.cann import child
from pipeline.engines.cann.calculator import COMPILER, calculator
from pipeline.engines.cann.order import Check, Order, Work
from pipeline.engines.cann.readings import (
    COST_REPORT,
    PROGRAM,
    VERDICTS,
    Program,
    read_cycles,
    read_program,
    read_verification,
)
from pipeline.engines.identity import Framework, identify
from pipeline.ground.jobs import Metric, Platform, Source
from pipeline.ground.subject import Subject
from workloads.base import Workload
from workloads.tensor_level import TensorLevel, TensorProgram

SOC = "a2a3"
"""The only soc it compiles for."""

VARIANT = "vreq8"
"""The requantisation that its kernels implement."""

CAPACITIES = Capacities(
    l1=SOCS[SOC].capacity[Space.Mat],
    l0a=SOCS[SOC].capacity[Space.Left],
    l0b=SOCS[SOC].capacity[Space.Right],
    l0c=SOCS[SOC].capacity[Space.Acc],
    ub=SOCS[SOC].capacity[Space.Vec],
)

_PYTHONS = ((3, 9), (3, 12))
"""First and last Python version that has wheels."""


_NO_CACHE = Availability(
    "no folder to keep the verifier's calculator in: this user has no home, and XDG_CACHE_HOME is not set",
    "set HOME or XDG_CACHE_HOME to an absolute path",
)


def default_cache() -> Path | None:
    """Where the verifier's calculator is kept: in the user's cache folder, if there is one.

    By the XDG Base Directory Specification, a relative path counts as not set.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not folder.is_absolute():
        try:
            folder = Path.home() / ".cache"
        except RuntimeError:
            return None
    return folder / "conv-pair-pipeline" / "cann" if folder.is_absolute() else None


class CannEngine:
    """Compiles and verifies the tensor-level kernels, one child process per kernel.

    Args:
        cache: folder of the calculator; by default the user's cache folder.
        kernels: source file of the kernels; by default the one that the workload declares.
    """

    name = "cann"

    def __init__(self, cache: Path | None = None, kernels: Path | None = None) -> None:
        self._cache = cache or default_cache()
        self._kernels = kernels

    def probe(
        self, platform: Platform, workload: Workload, programs: Sequence[str], *, compile_only: bool = False
    ) -> Availability:
        """Say whether the framework is installed and can take these programs, without importing it."""
        available = _installed() and _suits(platform, workload, programs)
        return available if compile_only or self._cache else available and _NO_CACHE

    def check(self, subject: Subject, program: str) -> None:
        """Nothing: the tensor-level programs follow no plan, and the compiler itself reads them."""

    def compile(self, request: Request) -> Compiled:
        """Compile to AICore C++ and estimate the cycles; keeps `program.json`, the C++ and the cost report.

        Raises:
            CompileError: the framework refuses the kernel.
            NotSupportedError: these kernels do not support the geometry.
            InfrastructureError: the framework's process ended for another reason.
        """
        tiling = _tiling(request)
        with _scratch(request.folder) as scratch:
            output = child.run(self._order(Work.CODE, request, tiling, scratch / "code"))
            artefacts = _keep_program(output, request.folder)
            program = read_program(request.folder)
            output = child.run(self._order(Work.COST, request, tiling, scratch / "cost"))
            cycles = Metric("cycles", read_cycles(output), "cycles", Source.COST_MODEL)
            artefacts.append(_keep(output / COST_REPORT, request.folder / "cost.txt"))
        metrics = (*_metrics(request, program), cycles)
        return Compiled(_facts(program, tiling), tuple(artefacts), metrics)

    def run(self, request: Request, inputs: Mapping[str, Array]) -> Executed:
        """Compile with every pass interpreted on `inputs` and compared with our golden, at zero tolerance.

        The output is the verifier's interpretation of the kernel's tensor graph, read as raw bytes, without
        the columns that the host drops. Raises the errors of `compile`.
        """
        tiling = _tiling(request)
        launch = _tensor_program(request).launch(request.subject.geometry, tiling, inputs)
        if self._cache is None:
            raise InfrastructureError(f"{_NO_CACHE.reason}; {_NO_CACHE.remedy}")
        library = calculator(self._cache)
        with _scratch(request.folder) as scratch:
            arrays = scratch / "arrays"
            arrays.mkdir()
            for name, array in {**launch.operands, launch.output: launch.expected}.items():
                np.save(arrays / f"{name}.npy", array)
            check = Check(arrays, library)
            output = child.run(self._order(Work.CODE, request, tiling, scratch / "verify", check))
            artefacts = _keep_program(output, request.folder)
            program = read_program(request.folder)
            verification = read_verification(output, launch.expected.shape, launch.expected.dtype)
            (verdicts,) = output.glob(VERDICTS)
            artefacts.append(_keep(verdicts, request.folder / "verdicts.csv"))
        facts, failed = _facts(program, tiling), []
        for verdict in verification.verdicts:
            facts[f"verdict.{verdict.compiler_pass}"] = "pass" if verdict.passed else "fail"
            if not verdict.passed:
                failed.append(f"the verifier rejects {verdict.compiler_pass}: off by up to {verdict.worst:g}")
        passes = len(verification.verdicts)
        accepted = Metric(ACCEPTED_PASSES, passes - len(failed), "passes", Source.VERIFIER, passes)
        outputs = {launch.output: verification.output[launch.kept]}
        metrics = (*_metrics(request, program), accepted)
        return Executed(outputs, facts, tuple(artefacts), tuple(failed), metrics)

    def _order(
        self,
        work: Work,
        request: Request,
        tiling: Any,
        folder: Path,
        check: Check | None = None,
    ) -> Order:
        return Order(
            work,
            request.program,
            request.workload,
            msgspec.to_builtins(request.subject.geometry),
            msgspec.to_builtins(tiling),
            self._kernels or _level(request).source,
            folder,
            check,
        )


def _level(request: Request) -> TensorLevel:
    level = request.subject.workload.tensor_level
    assert level is not None  # `_tiling` refused it otherwise
    return level


def _tensor_program(request: Request) -> TensorProgram:
    return _level(request).programs[request.program]


def _tiling(request: Request) -> Any:
    subject = request.subject
    suits = _suits(request.platform, subject.workload, [request.program])
    if not suits:
        raise NotSupportedError(suits.reason)
    try:
        return _level(request).tiling(request.program, subject.geometry, CAPACITIES)
    except TilingError as error:
        raise NotSupportedError(str(error)) from error


def _installed() -> Availability:
    found = identify()
    first, last = _PYTHONS
    if not first <= sys.version_info[:2] <= last:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return Availability(
            f"CANN PyPTO has no build for Python {version}",
            f"run the pipeline with Python {last[0]}.{last[1]}",
        )
    if found.framework is not Framework.CANN:
        return Availability(
            f"needs {Framework.CANN.value}, but found {found}",
            "pip install pypto==0.2.0 into the pipeline's own environment",
        )
    if find_spec("torch") is None:
        return Availability("CANN PyPTO needs torch, which is not installed", "pip install torch")
    if shutil.which(COMPILER) is None:
        return Availability(f"CANN PyPTO needs {COMPILER}, which is not on PATH", "install GCC 9.4 or newer")
    return Availability()


def _suits(platform: Platform, workload: Workload, programs: Sequence[str]) -> Availability:
    if platform.soc != SOC:
        return Availability(f"CANN PyPTO compiles for {SOC}, not for {platform.soc}", f"set soc: {SOC}")
    if platform.variant != VARIANT:
        return Availability(
            f"the tensor-level kernels requantise as {VARIANT}, not as {platform.variant}",
            f"set variant: {VARIANT}",
        )
    level = workload.tensor_level
    known = level.programs if level is not None else {}
    missing = [program for program in programs if program not in known]
    if missing:
        remedy = f"use kernels with {', '.join(known)} only" if known else "use another platform"
        return Availability(f"there is no tensor-level version of {missing[0]}", remedy)
    return Availability()


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for child processes, removed afterwards; after an error their logs are kept."""
    scratch = folder / "scratch"
    scratch.mkdir()
    try:
        yield scratch
    except Exception as error:
        logs = [_keep(log, folder / f"{log.parent.name}.log") for log in scratch.glob(f"*/{child.LOG}")]
        if isinstance(error, CompileError):
            error.artefacts = tuple(logs)
        raise
    finally:
        shutil.rmtree(scratch)


def _keep_program(output: Path, folder: Path) -> list[Path]:
    """Keep the compiled program and its AICore C++."""
    sources = sorted((output / "kernel_aicore").glob("*.cpp"))
    kept = folder / "aicore"
    kept.mkdir()
    return [_keep(output / PROGRAM, folder / PROGRAM), *(_keep(path, kept / path.name) for path in sources)]


def _keep(source: Path, target: Path) -> Path:
    shutil.move(source, target)
    return target


def _facts(program: Program, tiling: Any) -> dict[str, str]:
    return {"program_sha256": program.digest, "tiling": tiling.describe()}


def _metrics(request: Request, program: Program) -> list[Metric]:
    """Bytes that the compiled program moves and uses."""
    traffic = {
        **{f"gm_read.{tensor}": size for tensor, size in sorted(program.read.items())},
        **{f"gm_written.{tensor}": size for tensor, size in sorted(program.written.items())},
    }
    handed_over = _tensor_program(request).handed_over
    if handed_over:
        traffic["mid_gm_read"] = sum(program.read.get(tensor, 0) for tensor in handed_over)
        traffic["mid_gm_written"] = sum(program.written.get(tensor, 0) for tensor in handed_over)
    moved = [Metric(what, size, "B", Source.COMPILER) for what, size in traffic.items()]
    return moved + [
        Metric(f"{memory}_peak", peak, "B", Source.COMPILER, getattr(CAPACITIES, memory))
        for memory, peak in sorted(program.peaks.items())
    ]
