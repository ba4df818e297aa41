"""The emulator as an engine: always available and exact, but no substitute for a compiler or a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from emulator.artefact import report_data
from emulator.engine import Report, compile_program, run_program
from emulator.listing import listing
from emulator.program import Program
from emulator.soc import SOCS, Space
from golden.specs import Array
from pipeline.engines.base import Availability, Done, Request
from pipeline.engines.refusals import refusing
from pipeline.engines.walks import Walks, shared
from pipeline.faults.injection import program_with
from pipeline.ground.cuts import cuts_of
from pipeline.ground.jobs import Platform
from pipeline.ground.memory import untouched_output
from pipeline.ground.programs import check_main, typed_program
from pipeline.ground.results import Metric, Source
from pipeline.ground.subject import Subject
from workloads.base import Workload
from workloads.faults import fault_named


class EmulatorEngine:
    """Compiles and runs tile programs on the emulator."""

    name = "emulator"

    def __init__(self, walks: Walks | None = None) -> None:
        """`walks` are those that other jobs left; if None, those that this process shares with others."""
        self._walks = shared() if walks is None else walks

    def probe(
        self, platform: Platform, workload: Workload, programs: Sequence[str], *, compile_only: bool = False
    ) -> Availability:
        """Always available: it needs only NumPy."""
        return Availability()

    @refusing()
    def check(self, subject: Subject, program: str) -> None:
        """Read the program."""
        check_main(self._typed(subject, program), subject, program)

    @refusing()
    def compile(self, request: Request) -> Done:
        """Walk the program without data; leaves `report.json` and `listing.txt`."""
        program = self._program(request)
        report = compile_program(program, SOCS[request.platform.soc])
        self._keep(program, request)
        return _done(report, request)

    @refusing()
    def run(self, request: Request, inputs: Mapping[str, Array]) -> Done:
        """Walk the program with data, and requantise as the platform's variant says, or with a fault."""
        subject, platform = request.subject, request.platform
        entry = subject.program(request.program)
        output = untouched_output(*subject.output_of(entry.name))
        arrays = {name: np.ascontiguousarray(inputs[name]) for name in entry.inputs}
        program = self._program(request, arrays)
        tensors = {**arrays, entry.output: output}
        report = run_program(program, SOCS[platform.soc], tensors, platform.variant)
        self._keep(program, request)
        return replace(_done(report, request), outputs={entry.output: output})

    def _program(self, request: Request, inputs: Mapping[str, Array] | None = None) -> Program:
        """The typed program of a request, with the fault it asks for; its `main` takes what is declared."""
        subject, name = request.subject, request.program
        if request.fault:
            program = program_with(fault_named(request.fault), subject, name, request.platform.variant)
        else:
            program = self._typed(subject, name)
        check_main(program, subject, name, inputs)
        return program

    def _typed(self, subject: Subject, name: str) -> Program:
        """The typed program of a declaration: that of a kept walk, or else read."""
        kept = self._walks.find(subject, name) if self._walks is not None else None
        return typed_program(subject, name) if kept is None else kept

    def _keep(self, program: Program, request: Request) -> None:
        """Let other jobs have the walk of a program that was not refused, if it has no injected fault."""
        if self._walks is not None and not request.fault:
            self._walks.keep(request.subject, request.program, program)


def _done(report: Report, request: Request) -> Done:
    data, text = request.folder / "report.json", request.folder / "listing.txt"
    told = {**report_data(report), "cuts": cuts_of(request.subject, request.program)}
    data.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1))
    text.write_text(listing(report.program))
    facts = {"estimated_cycles": "unavailable"} if report.estimate is None else {}
    return Done(facts, (data, text), _metrics(report, request))


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
