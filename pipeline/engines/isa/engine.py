"""The vendor's ISA simulator as an engine: an independent reading of the kernels, and no card."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from emulator.soc import SOCS
from golden.specs import Array
from lowering.instructions import LoweringError
from lowering.minimise import program_flags
from lowering.runner import runner
from lowering.text import lower
from pipeline.engines.base import (
    Availability,
    Done,
    InfrastructureError,
    NotSupportedError,
    Request,
)
from pipeline.engines.cache import user_cache
from pipeline.engines.isa.build import PROGRAM, RUNNER, build, run
from pipeline.engines.isa.probe import Measured, judge, measure
from pipeline.engines.isa.toolchain import ROOT, Toolchain, find
from pipeline.engines.refusals import refusing
from pipeline.ground.jobs import Platform
from pipeline.ground.memory import untouched_output
from pipeline.ground.programs import check_main, typed_program
from pipeline.ground.subject import Subject
from workloads.base import Workload

_NO_CACHE = Availability(
    "no folder to keep built programs in: this user has no home, and XDG_CACHE_HOME is not set",
    "set HOME or XDG_CACHE_HOME to an absolute path",
)


class IsaEngine:
    """Lowers tile programs to the public headers, builds them with the simulator and runs them.

    Args:
        environment: of the toolchain; by default that of this process.
        cache: folder of what is built; by default in the user's cache folder.
    """

    name = "isa"

    def __init__(self, environment: Mapping[str, str] | None = None, cache: Path | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)
        self._cache = cache or user_cache("isa")

    def probe(
        self, platform: Platform, workload: Workload, programs: Sequence[str], *, compile_only: bool = False
    ) -> Availability:
        """Say what is missing, or that the headers do not requantise as the platform declares."""
        found = find(self._environment)
        if isinstance(found, Availability):
            return found
        if self._cache is None:
            return _NO_CACHE
        return judge(_measured(found, self._cache), platform, found.headers)

    def check(self, subject: Subject, program: str) -> None:
        """Read the program."""
        with refusing():
            check_main(typed_program(subject, program), subject, program)

    def compile(self, request: Request) -> Done:
        """Lower and build the program; leaves its C++."""
        return self._build(request, None)[0]

    def run(self, request: Request, inputs: Mapping[str, Array]) -> Done:
        """Lower, build and run the program.

        Raises `SimulatorError` too, if the simulator ends without an output.
        """
        done, executable = self._build(request, inputs)
        subject, entry = request.subject, request.subject.program(request.program)
        output = untouched_output(*subject.output_of(entry.name))
        arrays = {name: np.ascontiguousarray(inputs[name]) for name in entry.inputs} | {entry.output: output}
        files = {name: request.folder / f"{name}.bin" for name in arrays}
        log = request.folder / "simulator.log"
        for name, array in arrays.items():
            array.tofile(files[name])
        run(executable, list(files.values()), log)
        written = np.fromfile(files[entry.output], output.dtype).reshape(output.shape)
        for file in files.values():
            file.unlink()
        return replace(done, outputs={entry.output: written}, artefacts=(*done.artefacts, log))

    def _build(self, request: Request, inputs: Mapping[str, Array] | None) -> tuple[Done, Path]:
        soc, subject, name = SOCS[request.platform.soc], request.subject, request.program
        toolchain = find(self._environment)
        if isinstance(toolchain, Availability):  # it was there when the run began
            raise InfrastructureError(toolchain.reason)
        if self._cache is None:
            raise InfrastructureError(_NO_CACHE.reason)
        with refusing():
            program = typed_program(subject, name)
            check_main(program, subject, name, inputs)
            try:
                text = lower(program, soc, program_flags(program, soc))
            except LoweringError as error:
                raise NotSupportedError(str(error)) from error
        kept = request.folder / PROGRAM
        kept.write_text(text)
        executable = build(toolchain, {PROGRAM: text, RUNNER: runner(program, soc)}, self._cache)
        return Done(toolchain.facts, (kept,), ()), executable


def installed(environment: Mapping[str, str], cache: Path | None = None) -> dict[str, str]:
    """For `doctor`: headers, compiler and what was measured of both, or what is missing."""
    found, cache = find(environment), cache or user_cache("isa")
    if isinstance(found, Availability):
        return {ROOT: found.reason}
    here = {ROOT: f"{found.root} ({found.headers})", "its compiler": f"{found.compiler}: {found.version}"}
    if cache is None:
        return here
    measured = _measured(found, cache)
    if measured.failure:
        return {**here, "its simulator": measured.failure}
    return {**here, "its TINSERT_FP": str(measured.insert), "its TSTORE_FP": str(measured.store)}


@lru_cache(maxsize=4)
def _measured(toolchain: Toolchain, cache: Path) -> Measured:
    """The measurement, which a process asks for once for all of its jobs."""
    return measure(toolchain, cache)
