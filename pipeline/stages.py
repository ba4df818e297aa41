"""A job's work, stage by stage: which programs run, on which inputs, compared with what; and the verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from golden.cache import Golden, golden_for
from golden.geometry import C0
from golden.inputs import load_inputs, save_inputs
from golden.specs import Int8
from kernels.catalogue import KERNELS
from kernels.plan import Plan, PlanError
from pipeline.diff.compare import compare
from pipeline.diff.data import examine, gathering
from pipeline.diff.diagnosis import Diagnosis, diagnose
from pipeline.diff.evidence import TWO_PASS, Evidence
from pipeline.diff.files import write_files
from pipeline.diff.render import verdict
from pipeline.diff.steps import wrong_side
from pipeline.engines.base import (
    SENTINEL,
    Array,
    CompileError,
    Engine,
    NotSupportedError,
    Request,
)
from pipeline.engines.registry import engine_for
from pipeline.faults import Fault, fault_named
from pipeline.injection.host import spoiled_inputs, spoiled_output
from pipeline.jobs import (
    BETWEEN_CAUSES,
    CAUSE,
    DIAGNOSIS,
    WRONG_STEP,
    Job,
    JobContext,
    Lane,
    Result,
    StageResult,
    State,
)
from pipeline.tiling import plan_for


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


COMPARISON: Sequence[Stage] = (
    Stage("fused", "fused"),
    Stage("first-tile-load", "first-tile-load"),
    Stage("first-tile-packed", "first-tile-packed"),
    Stage("first-tile-fused-alloc", "first-tile-fused-alloc"),
    Stage("pass1", "pass1"),
    Stage("pass2-on-golden-mid", "pass2"),
    Stage("pass2-on-own-mid", "pass2", mid="pass1"),
    Stage("two-pass-vs-fused", "", mid="pass2-on-own-mid", against="fused"),
)
"""All stages in order: each isolates less than the one before has already cleared."""

_TILE_STAGES = 4

INPUTS_FILE = "inputs.npz"
"""The tensors of a job that mismatched, in its folder; `--inputs` reads it too."""


def actual_file(tensor: str) -> str:
    """Name of the file, in a stage's folder, that holds its wrong output."""
    return f"actual-{tensor}.npy"


def stages_of(job: Job, stage: str) -> Sequence[Stage]:
    """The stages of a job: all or the tile stages in the compare lane, a kernel's own programs elsewhere."""
    if job.lane is Lane.COMPARE:
        return COMPARISON[:_TILE_STAGES] if stage == "tile" else COMPARISON
    programs = KERNELS[job.kernel]
    return [Stage(name, name, mid="pass1" if name == "pass2" else "") for name in programs]


def execute(job: Job, context: JobContext) -> Result:
    """Do a job in this process.

    Raises:
        InfrastructureError: where the engine fails for a reason that says nothing about the kernel.
    """
    stages = stages_of(job, context.stage)
    if job.lane is Lane.COMPILE:
        engine = engine_for(job.platform.backend)
        results = [_compile(engine, job, context, stage) for stage in stages]
        return concluded(job, results, {}, {})
    work = comparison(job, context)
    return conclude(job, context, [(work, stage) for stage in stages])


def conclude(job: Job, context: JobContext, steps: Sequence[tuple[Comparison, Stage]]) -> Result:
    """Take the steps of a job, keep what shows why some are wrong, and say what they come to."""
    results: list[StageResult] = []
    diagnoses: dict[str, Diagnosis] = {}
    kept: list[Path] = []
    lost: list[str] = []
    for work, stage in steps:
        result = work.run(stage)
        if result.state is State.MISMATCH:
            try:
                result, files = work.keep(stage, result)
                kept += files
            except Exception as error:  # whatever fails here must not hide the mismatch
                lost.append(f"{stage.name}: {type(error).__name__}: {_first_line(error)}")
        results.append(result)
        diagnoses |= work.diagnoses
    notes = dict.fromkeys(work.golden.note for work, _ in steps if work.golden.note)
    facts = {"golden_note": "; ".join(notes)} if notes else {}
    if lost:
        facts["not_kept"] = "; ".join(lost)
    if context.inputs:
        facts["inputs"] = str(context.inputs)
    if context.inject:
        facts["injected"] = context.inject
    artefacts = tuple(str(path.relative_to(context.folder)) for path in dict.fromkeys(kept))
    return replace(concluded(job, results, diagnoses, facts), artefacts=artefacts)


def comparison(job: Job, context: JobContext) -> Comparison:
    """What runs the stages of a job, with its golden; raises as `execute`."""
    source = load_inputs(context.inputs, job.geometry) if context.inputs else str(job.profile)
    golden = golden_for(job.geometry, source, job.platform.variant, context.cache)
    return Comparison(engine_for(job.platform.backend), job, context, golden)


def _request(job: Job, context: JobContext, stage: Stage) -> Request:
    folder = context.folder / stage.name
    folder.mkdir(parents=True, exist_ok=True)
    return Request(stage.program, job.geometry, job.platform, folder, context.device, job.band_rows)


def _compile(engine: Engine, job: Job, context: JobContext, stage: Stage) -> StageResult:
    start = time.perf_counter()
    try:
        compiled = engine.compile(_request(job, context, stage))
    except CompileError as error:
        return _timed(StageResult(stage.name, State.COMPILE_ERROR, _first_line(error), str(error)), start)
    except NotSupportedError as error:
        return _timed(StageResult(stage.name, State.SKIPPED, str(error)), start)
    return _timed(StageResult(stage.name, State.PASSED, facts=compiled.facts), start)


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
            return _timed(self.judge(stage, stage.tensor, self.outputs[stage.mid], {}, ()), start)
        fault = self._fault(stage)
        request = replace(_request(self.job, self.context, stage), fault=fault.id if fault else "")
        try:
            executed = self.engine.run(request, self._inputs(stage, fault))
        except CompileError as error:
            result = StageResult(stage.name, State.COMPILE_ERROR, _first_line(error), str(error))
            return _timed(result, start)
        except (NotSupportedError, PlanError) as error:
            return _timed(StageResult(stage.name, State.SKIPPED, str(error)), start)
        (tensor, output), *_ = executed.outputs.items()
        if fault and tensor == "y":
            output = spoiled_output(fault, self._plan(), output.astype(np.int8))
        self.outputs[stage.name] = output
        return _timed(self.judge(stage, tensor, output, executed.facts, executed.problems), start)

    def keep(self, stage: Stage, result: StageResult) -> tuple[StageResult, list[Path]]:
        """Leave in the job's folder what `replay` needs, and the difference in full.

        Returns:
            The result of this stage, which says what its mismatches share, and the files.

        Raises:
            OSError: there is no room.
        """
        inputs = self.context.folder / INPUTS_FILE
        if not inputs.exists():
            save_inputs(inputs, self.golden.tensors)
        files = [inputs]
        folder = self.context.folder / stage.name
        folder.mkdir(exist_ok=True)
        output = self.outputs[stage.name if stage.program else stage.mid]
        (diff,) = result.diffs
        if stage.program:
            files.append(folder / actual_file(diff.tensor))
            np.save(files[-1], output)
        if diff.clean or diff.problem:
            return result, files
        expected = cast(Int8, self.expected(stage, diff.tensor, len(output)))
        examined = examine(self._evidence(stage, diff.tensor, output), expected, diff)
        details = "\n".join(part for part in (result.details, gathering(examined.data)) if part)
        return replace(result, details=details), [*files, *write_files(folder, examined)]

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
            failed = f"no diagnosis, it failed: {type(error).__name__}: {_first_line(error)}"
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


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _timed(result: StageResult, start: float) -> StageResult:
    return replace(result, seconds=time.perf_counter() - start)


def _cause(stages: Sequence[StageResult], diagnoses: Mapping[str, Diagnosis]) -> dict[str, str]:
    """Facts of a job: the first diagnosis of its stages that explains, and the step that is wrong."""
    judged = (State.PASSED, State.MISMATCH)
    clean = {stage.name: stage.state is State.PASSED for stage in stages if stage.state in judged}
    explaining = next((found for found in diagnoses.values() if found.findings), None)
    causes = explaining.findings[0].hypotheses if explaining else ()
    facts = {
        DIAGNOSIS: explaining.line if explaining else "",
        CAUSE: BETWEEN_CAUSES.join(causes),
        WRONG_STEP: wrong_side(clean, causes[0] if causes else ""),
    }
    return {name: fact for name, fact in facts.items() if fact}


def concluded(
    job: Job, stages: Sequence[StageResult], diagnoses: Mapping[str, Diagnosis], facts: Mapping[str, str]
) -> Result:
    """The job's state and message: those of the first stage that is wrong, else of one that could not run."""
    facts = {**facts, **_cause(stages, diagnoses)}
    wrong = [stage for stage in stages if stage.state not in (State.PASSED, State.SKIPPED)]
    facts = {**facts, "engine": job.platform.backend, "variant": job.platform.variant}
    if wrong:
        lead = f"first wrong stage: {wrong[0].name}: " if len(stages) > 1 else ""
        message, details = lead + wrong[0].message, wrong[0].details
        return Result(job, wrong[0].state, message, details, stages=tuple(stages), facts=facts)
    skipped = [stage for stage in stages if stage.state is State.SKIPPED]
    if skipped:
        message = f"{skipped[0].name}: {skipped[0].message}"
        return Result(job, State.SKIPPED, message, stages=tuple(stages), facts=facts)
    return Result(job, State.PASSED, stages=tuple(stages), facts=facts)
