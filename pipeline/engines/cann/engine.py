"""CANN's PyPTO as an engine: it compiles, estimates cycles and verifies numerically; it uses no device."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from emulator.soc import SOCS, Space
from golden.specs import Array
from kernels.tensor.plan import Capacities, TilingError
from pipeline.engines.base import (
    ACCEPTED_PASSES,
    Availability,
    CompileError,
    Done,
    InfrastructureError,
    NotSupportedError,
    Request,
)
from pipeline.engines.cache import user_cache
from pipeline.engines.cann import child
from pipeline.engines.cann.calculator import COMPILER, calculator, is_built
from pipeline.engines.cann.child import Order, Work
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
from pipeline.ground.jobs import Platform
from pipeline.ground.results import Metric, Source
from pipeline.ground.subject import Subject
from workloads.base import Workload

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


def to_build() -> str:
    """What the first verified job builds for all others; empty if it is built, or cannot be."""
    cache = user_cache("cann")
    with suppress(InfrastructureError, OSError):
        if cache and _installed() and not is_built(cache):
            return "the verifier's calculator"
    return ""


class CannEngine:
    """Compiles and verifies the tensor-level kernels, one child process per order.

    Args:
        cache: folder of the calculator; by default the user's cache folder.
        kernels: source file of the kernels; by default the one that the workload declares.
    """

    name = "cann"

    def __init__(self, cache: Path | None = None, kernels: Path | None = None) -> None:
        self._cache = cache or user_cache("cann")
        self._kernels = kernels

    def probe(
        self, platform: Platform, workload: Workload, programs: Sequence[str], *, compile_only: bool = False
    ) -> Availability:
        """Say whether the framework is installed and can take these programs, without importing it."""
        available = _installed() and _suits(platform, workload, programs)
        return available if compile_only or self._cache else available and _NO_CACHE

    def check(self, subject: Subject, program: str) -> None:
        """Nothing: the tensor-level programs follow no plan, and the compiler itself reads them."""

    def compile(self, request: Request) -> Done:
        """Compile to AICore C++ and estimate cycles; keeps `program.json`, the C++ and the cost report."""
        order = self._order(request)
        with _scratch(request.folder) as scratch:
            compiled = _compiled(child.run(order, scratch), request, order)
            output = child.run(replace(order, work=Work.COST), scratch)
            cycles = Metric("cycles", read_cycles(output), "cycles", Source.COST_MODEL)
            report = _keep(output / COST_REPORT, request.folder / "cost.txt")
        return _with(compiled, report, cycles)

    def run(self, request: Request, inputs: Mapping[str, Array]) -> Done:
        """Compile with every pass interpreted on `inputs` and compared with our golden, at zero tolerance.

        The output is the verifier's interpretation of the kernel's tensor graph, read as raw bytes, without
        the columns that the host drops.
        """
        order = self._order(request)
        program = request.subject.workload.tensor_programs[request.program]
        launch = program.launch(request.subject.device, order.tiling, inputs)
        if self._cache is None:
            raise InfrastructureError(f"{_NO_CACHE.reason}; {_NO_CACHE.remedy}")
        order = replace(order, work=Work.VERIFY, calculator=str(calculator(self._cache)))
        with _scratch(request.folder) as scratch:
            arrays = scratch / child.ARRAYS
            arrays.mkdir()
            for name, array in {**launch.operands, launch.output: launch.expected}.items():
                np.save(arrays / f"{name}.npy", array)
            output = child.run(order, scratch)
            compiled = _compiled(output, request, order)
            verdicts, given = read_verification(output, launch.expected.shape, launch.expected.dtype)
            (brief,) = output.glob(VERDICTS)
            report = _keep(brief, request.folder / "verdicts.csv")
        said, failed = {}, []
        for verdict in verdicts:
            said[f"verdict.{verdict.compiler_pass}"] = "pass" if verdict.passed else "fail"
            if not verdict.passed:
                failed.append(f"the verifier rejects {verdict.compiler_pass}: off by up to {verdict.worst:g}")
        passes = len(verdicts)
        accepted = Metric(ACCEPTED_PASSES, passes - len(failed), "passes", Source.VERIFIER, passes)
        done = _with(compiled, report, accepted)
        outputs = {launch.output: given[launch.kept]}
        return replace(done, facts={**done.facts, **said}, outputs=outputs, problems=tuple(failed))

    def _order(self, request: Request) -> Order:
        """The order to compile a program to C++; raises `NotSupportedError` if it or its geometry is none."""
        subject = request.subject
        suits = _suits(request.platform, subject.workload, [request.program])
        if not suits:
            raise NotSupportedError(suits.reason)
        level = subject.workload.level
        assert level is not None  # it has the program
        try:
            tiling = level.tiling(request.program, subject.device, CAPACITIES)
        except TilingError as error:
            raise NotSupportedError(subject.packing.explained(str(error))) from error
        kernels = str(self._kernels or level.source)
        return Order(Work.CODE, request.program, request.workload, subject.geometry, tiling, kernels)


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
    known = workload.tensor_programs
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


def _keep(source: Path, target: Path) -> Path:
    shutil.move(source, target)
    return target


def _compiled(output: Path, request: Request, order: Order) -> Done:
    """The compiled program in the framework's folder: keeps it and its AICore C++, and reads it."""
    kept = request.folder / "aicore"
    kept.mkdir()
    sources = sorted((output / "kernel_aicore").glob("*.cpp"))
    artefacts = [_keep(output / PROGRAM, request.folder / PROGRAM)]
    artefacts += [_keep(path, kept / path.name) for path in sources]
    program = read_program(request.folder)
    facts = {"program_sha256": program.digest, "tiling": order.tiling.describe()}
    return Done(facts, tuple(artefacts), tuple(_metrics(request, program)))


def _with(done: Done, artefact: Path, metric: Metric) -> Done:
    return replace(done, artefacts=(*done.artefacts, artefact), metrics=(*done.metrics, metric))


def _metrics(request: Request, program: Program) -> list[Metric]:
    """Bytes that the compiled program moves and uses."""
    traffic = {
        **{f"gm_read.{tensor}": size for tensor, size in sorted(program.read.items())},
        **{f"gm_written.{tensor}": size for tensor, size in sorted(program.written.items())},
    }
    handed_over = request.subject.workload.tensor_programs[request.program].handed_over
    if handed_over:
        traffic["mid_gm_read"] = sum(program.read.get(tensor, 0) for tensor in handed_over)
        traffic["mid_gm_written"] = sum(program.written.get(tensor, 0) for tensor in handed_over)
    moved = [Metric(what, size, "B", Source.COMPILER) for what, size in traffic.items()]
    return moved + [
        Metric(f"{memory}_peak", peak, "B", Source.COMPILER, getattr(CAPACITIES, memory))
        for memory, peak in sorted(program.peaks.items())
    ]
