"""One comparison stage of a job: a program run on its inputs, its output judged, what shows a fault kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from golden.cache import Golden, golden_for
from golden.geometry import C0
from golden.inputs import load_inputs, save_inputs
from golden.specs import Int8
from kernels.plan import Plan, PlanError
from pipeline.diff.compare import compare
from pipeline.diff.data import examine, gathering
from pipeline.diff.diagnosis import Diagnosis, diagnose
from pipeline.diff.evidence import TWO_PASS, Evidence
from pipeline.diff.files import write_files
from pipeline.diff.render import verdict
from pipeline.engines.base import SENTINEL, Array, CompileError, Engine, NotSupportedError, Request
from pipeline.engines.registry import engine_for
from pipeline.faults.catalogue import Fault, fault_named
from pipeline.faults.host import spoiled_inputs, spoiled_output
from pipeline.ground.jobs import DIAGNOSIS, Job, JobContext, StageResult, State
from pipeline.ground.tiling import plan_for


@dataclass(frozen=True)
class Stage:
    """One comparison: a program run, its output set against the golden's or another stage's.

    `mid` and `against` name the stage whose output serves as pass2's input, or as the expected value; empty
    means the golden's. A stage without a program only compares the outputs of `mid` and `against`, which are
    both `tensor`.
    """

    name: str
    program: str
    mid: str = ""
    against: str = ""
    tensor: str = "y"


INPUTS_FILE = "inputs.npz"
"""The tensors of a job that mismatched, in its folder; `--inputs` reads it too."""


def actual_file(tensor: str) -> str:
    """Name of the file, in a stage's folder, that holds its wrong output."""
    return f"actual-{tensor}.npy"


@dataclass
class Comparison:
    """Runs the stages of one job.

    `outputs` holds what each gave, for those that build on it; `diagnoses` why it is wrong, where it is.
    """

    engine: Engine
    job: Job
    context: JobContext
    golden: Golden
    outputs: dict[str, Array] = field(default_factory=dict)
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)

    def run(self, stage: Stage) -> StageResult:
        """Run one stage; a stage that lacks another's output is skipped and says so."""
        start = time.perf_counter()
        missing = [name for name in (stage.mid, stage.against) if name and name not in self.outputs]
        if missing:
            return StageResult(
                stage.name, State.SKIPPED, f"needs the output of {missing[0]}, which gave none"
            )
        if not stage.program:
            return timed(self.judge(stage, stage.tensor, self.outputs[stage.mid], {}, ()), start)
        fault = self._fault(stage)
        request = replace(request_for(self.job, self.context, stage), fault=fault.id if fault else "")
        try:
            executed = self.engine.run(request, self._inputs(stage, fault))
        except CompileError as error:
            return timed(refused(stage, self.context, error), start)
        except (NotSupportedError, PlanError) as error:
            return timed(StageResult(stage.name, State.SKIPPED, str(error)), start)
        (tensor, output), *_ = executed.outputs.items()
        if fault and tensor == "y":
            output = spoiled_output(fault, self._plan(), output.astype(np.int8))
        self.outputs[stage.name] = output
        judged = self.judge(stage, tensor, output, executed.facts, executed.problems)
        left = named(executed.artefacts, self.context)
        return timed(replace(judged, metrics=executed.metrics, artefacts=left), start)

    def keep(self, stage: Stage, result: StageResult) -> StageResult:
        """Leave in the job's folder what `replay` needs, and the difference in full.

        Returns:
            The result of this stage, which names its files and says what its mismatches share.

        Raises:
            OSError: there is no room.
        """
        inputs = self.context.folder / INPUTS_FILE
        if not inputs.exists():
            save_inputs(inputs, self.golden.tensors)
        files: list[Path] = []
        folder = self.context.folder / stage.name
        folder.mkdir(exist_ok=True)
        output = self.outputs[stage.name if stage.program else stage.mid]
        (diff,) = result.diffs
        if stage.program:
            files.append(folder / actual_file(diff.tensor))
            np.save(files[-1], output)
        if diff.clean or diff.problem:
            return replace(result, artefacts=(*named(files, self.context), *result.artefacts))
        expected = cast(Int8, self.expected(stage, diff.tensor, len(output)))
        examined = examine(self._evidence(stage, diff.tensor, output), expected, diff)
        details = "\n".join(part for part in (result.details, gathering(examined.data)) if part)
        files += write_files(folder, examined)
        return replace(result, details=details, artefacts=(*named(files, self.context), *result.artefacts))

    def _plan(self) -> Plan:
        return plan_for(self.job.geometry, self.job.platform.soc, self.job.band_rows)

    def _fault(self, stage: Stage) -> Fault | None:
        """The fault to commit; one in the hand-over of mid spares pass2 on the golden's mid."""
        if not self.context.inject:
            return None
        fault = fault_named(self.context.inject)
        handed_over = stage.program != "pass2" or bool(stage.mid)
        return fault if handed_over or fault.step != "hand-over" else None

    def _inputs(self, stage: Stage, fault: Fault | None) -> Mapping[str, Array]:
        arrays = self.golden.tensors.arrays(self.job.platform.variant)
        if stage.program == "pass2":
            arrays["mid"] = self.outputs[stage.mid] if stage.mid else self.golden.mid
        if stage.program == "first-tile-packed":
            arrays["x_band"] = self._packed_band(arrays["x"])
        if fault:
            job, tensors = self.job, self.golden.tensors
            return spoiled_inputs(fault, stage.program, job.geometry, tensors, job.platform.variant, arrays)
        return arrays

    def _packed_band(self, x: Array) -> Array:
        """The x rows of the first band as one int8 [rows * width, cin] matrix: the host's packing."""
        geometry = self.job.geometry
        rows = self._plan().bands[0].x.rows
        planes = x.reshape(geometry.cin // C0, geometry.height, geometry.width, C0)[:, :rows]
        return planes.transpose(1, 2, 0, 3).reshape(rows * geometry.width, geometry.cin)

    def expected(self, stage: Stage, tensor: str, rows: int) -> Array:
        """What a stage's output must be; of a tile so many rows."""
        if stage.against:
            return self.outputs[stage.against]
        if tensor == "tile":
            return self.golden.mid[:rows]
        return self.golden.mid if tensor == "mid" else self.golden.y

    def judge(
        self,
        stage: Stage,
        tensor: str,
        output: Array,
        facts: Mapping[str, str],
        problems: Sequence[str],
    ) -> StageResult:
        """Compare an output with what it must be, and diagnose a difference.

        Args:
            stage: what gave the output.
            tensor: which one it is.
            output: what the engine gave.
            facts: what the engine says about the run.
            problems: what it complains of; any fails the stage.
        """
        geometry = self.job.geometry
        width, height = (
            (geometry.out_width, geometry.out_height)
            if tensor == "y"
            else (geometry.mid_width, geometry.mid_height)
        )
        diff = compare(
            tensor,
            output,
            self.expected(stage, tensor, len(output)),
            width=width,
            band_rows=self._band_rows(tensor, height),
            sentinel=SENTINEL if stage.program else None,
            against=stage.against or "golden",
        )
        if diff.clean and not problems:
            return StageResult(stage.name, State.PASSED, diffs=(diff,), facts=facts)
        message = "; ".join([*([] if diff.clean else [verdict(diff)]), *problems])
        details = ""
        if stage.program and not diff.clean:
            self.diagnoses[stage.name] = diagnosis = self._diagnosis(stage, tensor, output)
            facts, details = {**facts, DIAGNOSIS: diagnosis.line}, diagnosis.text
        return StageResult(stage.name, State.MISMATCH, message, details, diffs=(diff,), facts=facts)

    def _diagnosis(self, stage: Stage, tensor: str, output: Array) -> Diagnosis:
        """Why an output differs from the golden; a failure to find out does not hide that it differs."""
        try:
            return diagnose(self._evidence(stage, tensor, output))
        except Exception as error:
            failed = f"no diagnosis, it failed: {type(error).__name__}: {first_line(error)}"
            return Diagnosis(line=failed, text=failed)

    def _evidence(self, stage: Stage, tensor: str, output: Array) -> Evidence:
        return Evidence(
            self.job.geometry,
            self._plan_or_none(),
            self.golden.tensors,
            self.job.platform.variant,
            TWO_PASS if stage.mid else stage.program,
            tensor,
            cast(Int8, output),  # another dtype is said to have no diagnosis
            self.golden.mid,
            self.golden.y,
            SENTINEL,
        )

    def _plan_or_none(self) -> Plan | None:
        """The plan; None where the geometry has no tile plan."""
        try:
            return self._plan()
        except PlanError:
            return None

    def _band_rows(self, tensor: str, height: int) -> int:
        """Rows of a band of this tensor; the whole image where the geometry has no tile plan."""
        plan = self._plan_or_none()
        if plan is None:
            return height
        return plan.band_rows if tensor == "y" else plan.pass1[0][1]


def comparison(job: Job, context: JobContext) -> Comparison:
    """What runs the stages of a job, with its golden.

    Raises:
        InputsError: the context's tensors do not fit the job's geometry.
    """
    source = load_inputs(context.inputs, job.geometry) if context.inputs else str(job.profile)
    golden = golden_for(job.geometry, source, job.platform.variant, context.cache)
    return Comparison(engine_for(job.platform.backend), job, context, golden)


def request_for(job: Job, context: JobContext, stage: Stage) -> Request:
    """What an engine is asked for in a stage; makes the stage's folder in the job's."""
    folder = context.folder / stage.name
    folder.mkdir(parents=True, exist_ok=True)
    return Request(stage.program, job.geometry, job.platform, folder, context.device, job.band_rows)


def named(files: Iterable[Path], context: JobContext) -> tuple[str, ...]:
    """The paths of a job's files as its results name them."""
    return tuple(str(path.relative_to(context.folder)) for path in files)


def refused(stage: Stage, context: JobContext, error: CompileError) -> StageResult:
    """The result of a stage whose program the engine refuses."""
    left = named(error.artefacts, context)
    return StageResult(stage.name, State.COMPILE_ERROR, first_line(error), str(error), artefacts=left)


def first_line(error: Exception) -> str:
    """The first line of an error's message, never empty."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def timed(result: StageResult, start: float) -> StageResult:
    """A stage's result with the seconds since `start`, a reading of `time.perf_counter`."""
    return replace(result, seconds=time.perf_counter() - start)
