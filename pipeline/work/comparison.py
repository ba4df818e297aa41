"""One comparison stage of a job: runs a program, judges its output, and keeps what shows a fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from emulator.errors import AccessError
from golden.cache import Golden, golden_for, whose
from golden.inputs import save_inputs
from golden.specs import Array, Tensors
from kernels.plan import PlanError
from pipeline.diff.compare import compare
from pipeline.diff.data import Examined, examine, gathering
from pipeline.diff.diagnosis import Diagnosis
from pipeline.diff.evidence import Evidence
from pipeline.diff.files import write_files
from pipeline.diff.render import verdict
from pipeline.engines.base import CompileError, Engine, NotSupportedError, Request
from pipeline.engines.registry import engine_for
from pipeline.faults.host import spoiled_output
from pipeline.faults.injection import changes_program, inputs_with, why_not
from pipeline.ground.jobs import Job, State
from pipeline.ground.memory import sentinel_of
from pipeline.ground.results import BLAMED, DIAGNOSIS, INJECTED, PROVED, Diff, JobContext, StageResult
from pipeline.ground.subject import Subject, subject_of, wanted_golden
from pipeline.work.causes import cause_of
from pipeline.work.proof import Verdict, walked
from workloads.faults import Fault, fault_named
from workloads.form import Form
from workloads.stages import OutputsCompared, ProgramRun, Stage

INPUTS_FILE = "inputs.npz"
"""The file in a job's folder that holds its tensors after a mismatch; `--inputs` can read it."""


def actual_file(tensor: str) -> str:
    """Name of the file, in a stage's folder, that holds its wrong output."""
    return f"actual-{tensor}.npy"


@dataclass
class Comparison:
    """Runs the stages of one job on one platform.

    By stage, `outputs` holds the output in the user's channels, and `given` as the program gave it, for later
    stages that read it; `diagnoses` and `examined` say why a wrong output is wrong, and how. `committed`
    lists the stages in which the fault to inject is committed; `excused` says why it is not committed in the
    others: for each reason, the programs that it holds for. By stage, `recorded` says what is proved of the
    program that ran: if it has changed since, what was.
    """

    engine: Engine
    job: Job
    context: JobContext
    subject: Subject
    golden: Golden
    outputs: dict[str, Array] = field(default_factory=dict)
    given: dict[str, Array] = field(default_factory=dict)
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)
    examined: dict[str, Examined] = field(default_factory=dict)
    committed: list[str] = field(default_factory=list)
    excused: dict[str, list[str]] = field(default_factory=dict)
    recorded: dict[str, Verdict] = field(default_factory=dict)

    def admit(self, stages: Sequence[Stage]) -> str:
        """Find out in which stages the fault to inject is committed.

        Returns:
            Why it is committed in no stage; empty if it is committed, or if no fault is to be injected. A
            reason that all programs share names none of them, so that jobs of several kernels say the same.
        """
        fault = self._wanted_fault
        if fault is None:
            return ""
        for stage in stages:
            if isinstance(stage, ProgramRun):
                reason = why_not(fault, self.subject, stage, self._tensors, self.job.platform.variant)
                if reason:
                    programs = self.excused.setdefault(reason, [])
                    programs += [stage.program] if stage.program not in programs else []
                else:
                    self.committed.append(stage.name)
        if self.committed:
            return ""
        reasons = [
            reason if len(self.excused) == 1 else f"{reason} ({', '.join(programs)})"
            for reason, programs in self.excused.items()
        ]
        return f"fault {fault.id} was not injected: {'; '.join(reasons)}"

    @property
    def excuses(self) -> str:
        """Why the fault to inject is not committed, a line for each program that has no place for it."""
        lines = (f"{name}: {reason}" for reason, programs in self.excused.items() for name in programs)
        return "\n".join(lines)

    def run(self, stage: Stage) -> StageResult:
        """Run one stage; it is skipped with a reason if the output of a stage it needs is missing."""
        start = time.perf_counter()
        missing = [name for name in stage.needs if name not in self.outputs]
        if missing:
            return missing_output(stage, missing[0])
        if isinstance(stage, OutputsCompared):
            return timed(self.judge(stage), start)
        fault = self._wanted_fault if stage.name in self.committed else None
        injected = {INJECTED: fault.id} if fault else {}
        request = request_for(self.job, self.context, self.subject, stage)
        given, variant = self._given(stage), self.job.platform.variant
        try:
            inputs = inputs_with(fault, self.subject, stage.program, self._tensors, variant, given)
            done = self.engine.run(replace(request, fault=fault.id if fault else ""), inputs)
        except CompileError as error:
            result = refused(stage.name, self.context, error, lambda: self.verdict(stage))
            return timed(replace(result, facts={**result.facts, **injected}), start)
        except (NotSupportedError, PlanError) as error:
            return timed(StageResult(stage.name, State.SKIPPED, str(error)), start)
        (output,) = done.outputs.values()
        form = self.subject.form(stage.program)
        if fault and form is not None:
            output = spoiled_output(fault, form, output.astype(np.int8))
        self.given[stage.name] = output
        self.outputs[stage.name] = self.subject.packing.cut(
            self.subject.program(stage.program).tensor, output
        )
        judged = self.judge(stage, {**done.facts, **injected}, done.problems)
        left = named(done.artefacts, self.context)
        return timed(replace(judged, metrics=done.metrics, artefacts=left), start)

    def keep(self, stage: Stage, result: StageResult) -> StageResult:
        """Write to the job's folder what `replay` needs, and the full difference.

        Returns:
            The result of this stage, with its files and what its mismatches have in common.

        Raises:
            OSError: the files cannot be written, for example on a full disk.
        """
        inputs = self.context.folder / INPUTS_FILE
        if not inputs.exists():
            save_inputs(inputs, self.golden.tensors)
        files: list[Path] = []
        folder = self.context.folder / stage.name
        folder.mkdir(exist_ok=True)
        (diff,) = result.diffs
        if isinstance(stage, ProgramRun):
            files.append(folder / actual_file(diff.tensor))
            np.save(files[0], self.outputs[stage.name])
        if not (diff.clean or diff.problem):
            examined = self.examined.get(stage.name) or examine(self._evidence(stage), diff)
            details = "\n".join(part for part in (result.details, gathering(examined.data)) if part)
            result = replace(result, details=details)
            files += write_files(folder, examined)
        return replace(result, artefacts=(*named(files, self.context), *result.artefacts))

    @property
    def _wanted_fault(self) -> Fault | None:
        """The fault to commit, or None."""
        return fault_named(inject) if (inject := self.context.settings.inject) else None

    def _given(self, stage: ProgramRun) -> Mapping[str, Array]:
        """The outputs of the workload that a program reads: those of another stage or of the golden."""
        read = [name for name in self.subject.program(stage.program).inputs if name in self._golden]
        return {
            name: self.given[stage.given[name].name] if name in stage.given else self._golden[name]
            for name in read
        }

    @cached_property
    def _tensors(self) -> Tensors:
        """The inputs of programs, as the host packs the golden's."""
        return self.subject.packing.tensors(self.golden.tensors)

    @cached_property
    def _golden(self) -> Mapping[str, Array]:
        """What programs should give: the golden's outputs, with zeros in channels that it does not have."""
        return self.subject.packing.packed(self.golden.outputs)

    def expected(self, stage: Stage, rows: int) -> Array:
        """What a stage's output must be; for a first tile, only that many rows."""
        if isinstance(stage, OutputsCompared):
            return self.outputs[stage.other]
        entry = self.subject.program(stage.program)
        golden = self.golden.outputs[entry.tensor]
        return golden if entry.shape is None else golden[:rows]

    def judge(self, stage: Stage, facts: Mapping[str, str] = {}, problems: Sequence[str] = ()) -> StageResult:
        """Compare the output of a stage with what it must be, and diagnose a difference.

        `facts` and `problems` are what the engine says about its run; any problem fails the stage.
        """
        evidence = self._evidence(stage)
        diff = compare(
            self.subject.program(stage.program).output if isinstance(stage, ProgramRun) else stage.tensor,
            evidence.actual,
            evidence.expected,
            width=evidence.frame.columns,
            band_rows=evidence.frame.band_rows,
            sentinel=evidence.sentinel,
            against=stage.other if isinstance(stage, OutputsCompared) else "golden",
        )
        if not (diff.clean or diff.problem):
            diff = self._examined(stage, evidence, diff)
        if diff.clean and not problems:
            return StageResult(stage.name, State.PASSED, diffs=(diff,), facts=facts)
        told = [*([] if diff.clean else [verdict(diff)]), *problems]
        result = StageResult(stage.name, State.MISMATCH, "; ".join(told), diffs=(diff,), facts=facts)
        if not isinstance(stage, ProgramRun) or diff.clean:
            return result
        self.diagnoses[stage.name] = diagnosis = self._diagnosis(stage, evidence, diff)
        # A fault explains the output, and not what the engine found besides.
        causes = diagnosis.findings[0].hypotheses if diagnosis.findings and not problems else ()
        facts = {**facts, DIAGNOSIS: diagnosis.line, PROVED: self.verdict(stage).proved}
        if diagnosis.blamed:
            facts[BLAMED] = diagnosis.blamed
            told.append(diagnosis.blamed)
        return replace(result, message="; ".join(told), details=diagnosis.text, facts=facts, causes=causes)

    def _diagnosis(self, stage: ProgramRun, evidence: Evidence, diff: Diff) -> Diagnosis:
        """Why an output differs from the golden; a failed diagnosis does not hide the difference."""
        try:
            own = bool(self.subject.definition.sources)
            return cause_of(evidence, diff, self._verdicts(stage), own=own)
        except Exception as error:
            failed = f"no diagnosis, it failed: {type(error).__name__}: {first_line(error)}"
            return Diagnosis(line=failed, text=failed)

    def _verdicts(self, stage: ProgramRun) -> dict[str, Verdict]:
        """What is proved of the programs that can have made a stage's output wrong, in their order."""
        wrong = [run for run in stage.given.values() if run.name in self.diagnoses]
        before = [item for run in wrong for item in self._verdicts(run).items()]
        return {**dict(before), stage.program: self.verdict(stage)}

    def verdict(self, stage: ProgramRun) -> Verdict:
        """What is proved of the program that ran in a stage."""
        if stage.name not in self.recorded:
            self.recorded[stage.name] = self._proved(stage.program, stage.name in self.committed)
        return self.recorded[stage.name]

    def _proved(self, name: str, committed: bool) -> Verdict:
        fault, platform = self._wanted_fault if committed else None, self.job.platform
        try:
            changed = fault is not None and changes_program(fault, self.subject, name, platform.variant)
        except Exception:  # it is refused, and so is another one
            changed = True
        if changed:
            return Verdict("no: a fault is injected into it")
        return walked(self.subject, name, platform.backend)

    def _examined(self, stage: Stage, evidence: Evidence, diff: Diff) -> Diff:
        """A difference with what is seen in it; where that fails, `keep` says so."""
        cache, subject = self.context.cache, self.subject
        try:
            profile = whose(evidence.actual, subject.definition, subject.geometry, cache)
            self.examined[stage.name] = found = examine(evidence, diff, profile)
        except Exception:  # no failure here may hide the mismatch
            return diff
        return found.diff

    def _form(self, stage: Stage) -> Form | None:
        """The form behind a stage's output: of one program, or of several, one after the other."""
        if isinstance(stage, OutputsCompared):
            return None
        form = self.subject.form(stage.program)
        for before in map(self._form, stage.given.values()):
            form = before.then(form) if before is not None and form is not None else None
        return form

    def _evidence(self, stage: Stage) -> Evidence:
        if isinstance(stage, OutputsCompared):
            tensor, actual = stage.tensor, self.outputs[stage.one]
        else:
            tensor, actual = self.subject.program(stage.program).tensor, self.outputs[stage.name]
        return Evidence(
            self._form(stage),
            self.subject.frame(tensor),
            self._tensors,
            self._golden,
            self.job.platform.variant,
            tensor,
            actual,
            self.expected(stage, len(actual)),
            sentinel_of(actual.dtype) if isinstance(stage, ProgramRun) else None,
        )


Step = tuple[Comparison, Stage]
"""A stage of a job, and what runs it and judges its output."""


def comparison(job: Job, context: JobContext) -> Comparison:
    """The object that runs the stages of a job, with the job's golden.

    Raises:
        InputsError: the context's tensors do not fit the job's geometry.
    """
    subject, inputs = subject_of(job), context.settings.inputs
    wanted = wanted_golden(job, Path(inputs) if inputs is not None else None)
    golden = golden_for(wanted, context.cache)
    return Comparison(engine_for(job.platform.backend), job, context, subject, golden)


def request_for(job: Job, context: JobContext, subject: Subject, stage: ProgramRun) -> Request:
    """The request to the engine for a stage; creates the stage's folder in the job's folder."""
    folder = context.folder / stage.name
    folder.mkdir(parents=True, exist_ok=True)
    return Request(stage.program, job.workload, subject, job.platform, folder, context.device)


def named(files: Iterable[Path], context: JobContext) -> tuple[str, ...]:
    """The paths of a job's files, relative to its folder, as its results hold them."""
    return tuple(str(path.relative_to(context.folder)) for path in files)


def missing_output(stage: Stage, needed: str) -> StageResult:
    """The result of a stage that needs the output of another one, which gave none."""
    return StageResult(stage.name, State.SKIPPED, f"needs the output of {needed}, which gave none")


def refused(
    name: str, context: JobContext, error: CompileError, verdict: Callable[[], Verdict] | None = None
) -> StageResult:
    """The result of a stage whose program the engine refuses.

    If it accesses what it must not, `verdict` is asked which line is to blame.
    """
    left = named(error.artefacts, context)
    result = StageResult(name, State.COMPILE_ERROR, first_line(error), str(error), artefacts=left)
    if verdict is None or not isinstance(error.__cause__, AccessError) or not (found := verdict()).refuted:
        return result
    return replace(result, details=f"{error}\n{found.account}", facts=found.facts)


def first_line(error: Exception) -> str:
    """The first line of an error's message, never empty."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def timed(result: StageResult, start: float) -> StageResult:
    """A stage's result with the seconds since `start`, a reading of `time.perf_counter`."""
    return replace(result, seconds=time.perf_counter() - start)
