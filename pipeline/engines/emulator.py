"""The emulator as an engine: always available and exact, but no substitute for a compiler or a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from emulator.artefact import report_data
from emulator.engine import Report, compile_program, run_program
from emulator.errors import KernelError
from emulator.listing import listing
from emulator.program import Program
from emulator.soc import SOCS, Space
from golden.specs import Array
from kernels.plan import PlanError
from pipeline.engines.base import (
    Availability,
    Compiled,
    CompileError,
    Executed,
    Request,
)
from pipeline.faults.injection import program_with
from pipeline.ground.jobs import Metric, Platform, Source
from pipeline.ground.programs import check_main, typed_program
from pipeline.ground.sentinel import untouched_output
from pipeline.ground.subject import Subject
from workloads.base import Workload, WorkloadError
from workloads.faults import fault_named

_REFUSALS = (KernelError, PlanError, SyntaxError, WorkloadError)


class EmulatorEngine:
    """Compiles and runs tile programs on the emulator."""

    name = "emulator"

    def probe(
        self, platform: Platform, workload: Workload, programs: Sequence[str], *, compile_only: bool = False
    ) -> Availability:
        """Always available: it needs only NumPy."""
        return Availability()

    def check(self, subject: Subject, program: str) -> None:
        """Read the program.

        Raises:
            CompileError: the geometry cannot be tiled, the source is refused, or its `main` takes other
                parameters than the declaration says.
        """
        try:
            check_main(typed_program(subject, program), subject, program)
        except _REFUSALS as error:
            raise CompileError(_words(error)) from error

    def compile(self, request: Request) -> Compiled:
        """Walk the program without data; leaves `report.json` and `listing.txt`.

        Raises:
            CompileError: the geometry cannot be tiled, the emulator refuses the kernel, or its `main` takes
                other parameters than the declaration says.
        """
        try:
            report = compile_program(_program(request), SOCS[request.platform.soc])
        except _REFUSALS as error:
            raise CompileError(_words(error)) from error
        return Compiled(_facts(report), _leave(report, request.folder), _metrics(report, request))

    def run(self, request: Request, inputs: Mapping[str, Array]) -> Executed:
        """Walk the program with data, and requantise as the platform's variant says, or with a fault.

        Raises:
            CompileError: as `compile`.
        """
        subject = request.subject
        entry = subject.program(request.program)
        try:
            form = subject.workload.output_of(request.program, subject.geometry, subject.plan)
            output = untouched_output(*form)
            arrays = {name: np.ascontiguousarray(inputs[name]) for name in entry.inputs}
            report = run_program(
                _program(request, arrays),
                SOCS[request.platform.soc],
                {**arrays, entry.output: output},
                request.platform.variant,
            )
        except _REFUSALS as error:
            raise CompileError(_words(error)) from error
        artefacts = _leave(report, request.folder)
        return Executed({entry.output: output}, _facts(report), artefacts, metrics=_metrics(report, request))


def _words(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '').name}:{error.lineno}: not Python: {error.msg}"
    return str(error)


def _program(request: Request, inputs: Mapping[str, Array] | None = None) -> Program:
    """The typed program of a request, with the fault it asks for; its `main` takes what is declared."""
    subject, name = request.subject, request.program
    if request.fault:
        program = program_with(fault_named(request.fault), subject, name, request.platform.variant)
    else:
        program = typed_program(subject, name)
    check_main(program, subject, name, inputs)
    return program


def _facts(report: Report) -> dict[str, str]:
    return {"estimated_cycles": "unavailable"} if report.estimate is None else {}


def _metrics(report: Report, request: Request) -> tuple[Metric, ...]:
    """Bytes moved and used, as the walk counted them, and the cycles that one core is estimated to need."""
    entry, handed_over = request.subject.program(request.program), request.subject.workload.handed_over
    counts, counter, estimate = report.counts, Source.COUNTER, Source.ESTIMATE
    metrics = [Metric(f"gm_read.{name}", size, "B", counter) for name, size in counts.read.items()]
    metrics += [Metric(f"gm_written.{name}", size, "B", counter) for name, size in counts.written.items()]
    if handed_over:
        given = [entry.output] if entry.shape is None and entry.tensor in handed_over else []
        for way, moved, names in (("read", counts.read, handed_over), ("written", counts.written, given)):
            metrics.append(Metric(f"mid_gm_{way}", sum(moved.get(name, 0) for name in names), "B", counter))
    peak = max(placed.peak(Space.Mat) for placed in report.memory.values())
    metrics.append(Metric("l1_peak", peak, "B", counter, report.soc.capacity[Space.Mat]))
    if report.estimate is not None:
        metrics += [
            Metric("estimated_cycles.serial", report.estimate.serial, "cycles", estimate),
            Metric("estimated_cycles.overlap", report.estimate.overlap, "cycles", estimate),
        ]
    return tuple(metrics)


def _leave(report: Report, folder: Path) -> tuple[Path, ...]:
    data, text = folder / "report.json", folder / "listing.txt"
    data.write_bytes(msgspec.json.format(msgspec.json.encode(report_data(report)), indent=1))
    text.write_text(listing(report.program))
    return data, text
