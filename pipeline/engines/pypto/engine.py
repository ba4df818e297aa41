"""hw-native-sys PyPTO as an engine: compiles the tile kernels, and runs them on cards and simulators."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from golden.specs import Array
from kernels.plan import PlanError
from pipeline.engines.base import (
    Availability,
    CompileError,
    Done,
    InfrastructureError,
    Request,
)
from pipeline.engines.npu_smi import survey_host
from pipeline.engines.process import ending, perform
from pipeline.engines.pypto import toolchain
from pipeline.engines.pypto.messages import BEGUN, INPUTS, OUTPUT, REPLY, Order, Reply
from pipeline.ground.jobs import Platform
from pipeline.ground.programs import check_main, typed_program
from pipeline.ground.results import Blame
from pipeline.ground.subject import Subject
from workloads.base import Workload, WorkloadError


class PyptoError(RuntimeError):
    """PyPTO ended without saying whether the kernel or the machine is to blame."""


class PyptoEngine:
    """Compiles and runs the tile programs with the interpreter of `PIPELINE_PYTHON`, one process per kernel.

    Args:
        environment: of the toolchain; by default that of this process.
    """

    name = "pypto"

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)

    def probe(
        self, platform: Platform, workload: Workload, programs: Sequence[str], *, compile_only: bool = False
    ) -> Availability:
        """Say what the toolchain lacks; missing operators of the DSL are named."""
        return toolchain.available(platform, workload, programs, compile_only, self._environment)

    def check(self, subject: Subject, program: str) -> None:
        """Plan the geometry and look at the parameters of `main`; PyPTO is not asked."""
        _check(subject, program, None)

    def compile(self, request: Request) -> Done:
        """Compile with all passes, and with PTOAS if installed; keeps the kernels and the orchestration.

        Raises `PyptoError` too, if PyPTO's process ends without a reply; a signal while it compiles is an
        `InfrastructureError`.
        """
        _check(request.subject, request.program, None)
        return self._ask(request, assemble=toolchain.find_ptoas(self._environment) is not None, run=False)

    def run(self, request: Request, inputs: Mapping[str, Array]) -> Done:
        """Compile and run on the request's card or on the CPU simulator; raises the errors of `compile`.

        A CANN error code of the device is an `InfrastructureError`.
        """
        if request.platform.on_cards and request.device is None:
            raise InfrastructureError(f"platform {request.platform.name} runs on a card, but was given none")
        if toolchain.find_ptoas(self._environment) is None:
            raise InfrastructureError(f"running kernels needs PTOAS; set {toolchain.PTOAS}")
        entry = request.subject.program(request.program)
        _check(request.subject, request.program, inputs)
        arrays = request.folder / INPUTS
        arrays.mkdir()
        for name in entry.inputs:
            np.save(arrays / f"{name}.npy", np.ascontiguousarray(inputs[name]))
        done = self._ask(request, assemble=True, run=True)
        return replace(done, outputs={entry.output: np.load(request.folder / OUTPUT)})

    def _ask(self, request: Request, *, assemble: bool, run: bool) -> Done:
        """Have PyPTO's interpreter compile, or also run, the request's program; its output goes to a log."""
        subject, folder, device = request.subject, request.folder, request.device
        model = survey_host().model(device) if device is not None else ""
        order = Order(
            program=request.program,
            workload=request.workload.name,
            workload_file=request.workload.file,
            geometry=subject.geometry,
            plan_options=subject.plan_options,
            soc=request.platform.soc,
            platform=toolchain.toolchain_name(request.platform),
            simulated=not request.platform.on_cards,
            assemble=assemble,
            run=run,
            device=device or 0,
            model=model,
        )
        path, log = folder / "order.json", folder / "pypto.log"
        path.write_bytes(msgspec.json.encode(order))
        python = str(toolchain.interpreter(self._environment))
        code = perform(path, "pipeline.engines.pypto.worker", python, self._environment, log)
        try:
            reply = msgspec.json.decode((folder / REPLY).read_bytes(), type=Reply)
        except FileNotFoundError:
            sys.stdout.write(log.read_text(errors="replace"))
            if code < 0 and not (folder / BEGUN).exists():
                raise InfrastructureError(f"PyPTO's process {ending(code)} while it compiled") from None
            raise PyptoError(f"PyPTO's process {ending(code)}") from None
        artefacts = (*(folder / name for name in reply.artefacts), log)
        if reply.refusal:
            raise CompileError(reply.refusal, artefacts)
        if reply.failure:
            sys.stdout.write(f"{reply.failure}\n")
            first = reply.failure.partition("\n")[0]
            known = reply.blames is not Blame.NOTHING
            raise InfrastructureError(first, reply.blames) if known else PyptoError(first)
        facts = {**toolchain.versions(self._environment), **reply.facts}
        return Done(facts | ({"device_model": model} if model else {}), artefacts, reply.metrics)


def _check(subject: Subject, name: str, inputs: Mapping[str, Array] | None) -> None:
    """Raise what `PyptoEngine.check` raises; `inputs` are those of a run, None where there is none."""
    try:
        subject.plan  # noqa: B018 (raises where the geometry cannot be tiled)
    except PlanError as error:
        raise CompileError(str(error)) from error
    try:
        program = typed_program(subject, name)
    except Exception:  # what the emulator refuses PyPTO may take: PyPTO itself is asked
        return
    try:
        check_main(program, subject, name, inputs)
    except WorkloadError as error:
        raise CompileError(str(error)) from error
