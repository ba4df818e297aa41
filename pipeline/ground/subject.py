"""What is under test: a workload in one geometry on one soc, with its plan and the forms of its programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from golden.definition import Definition
from golden.geometry import GeometryError
from golden.specs import Array
from kernels.choice import Account
from kernels.plan import Limits, PlanError
from pipeline.ground.jobs import Job, Lane, Platform
from pipeline.ground.memory import limits_of
from workloads.base import Frame, TileProgram, Workload, WorkloadError
from workloads.form import Form, FormError
from workloads.own import blamed, reason_of
from workloads.packing import Packing
from workloads.registry import workload_named

if TYPE_CHECKING:
    from golden.cache import Wanted


@dataclass(frozen=True, eq=False)
class Subject:
    """A workload in one geometry, of the workload's type, on one soc, whose limits apply to the plan.

    `geometry` is the user's, as data and golden have it. Programs compute the geometry `device`, for which
    the host packs the tensors.
    """

    workload: Workload
    geometry: Any
    soc: str
    plan_options: Mapping[str, int] = field(default_factory=dict)

    @property
    def definition(self) -> Definition:
        """What the workload computes."""
        return self.workload.definition

    @cached_property
    def packing(self) -> Packing:
        """How the host packs the tensors for the programs."""
        return self.workload.packing(self.geometry)

    @property
    def device(self) -> Any:
        """The geometry that the programs compute."""
        return self.packing.device

    @cached_property
    def plan(self) -> Any:
        """How the geometry is tiled. Raises `PlanError` if it cannot be tiled; the message names the rule."""
        return self._tiled(self.workload.plan)

    @cached_property
    def account(self) -> Account | None:
        """The plan in words and numbers; None if the workload gives no account. Raises as `plan` does."""
        return self._tiled(self.workload.account) if self.workload.account else None

    def _tiled(self, tile: Callable[[Any, Limits, Mapping[str, int]], Any]) -> Any:
        try:
            return tile(self.device, limits_of(self.soc), self.plan_options)
        except PlanError as error:
            if not self.packing.changes:
                raise
            raise PlanError(self.packing.explained(str(error)), error.ratio, error.option) from error

    @property
    def plan_or_none(self) -> Any:
        """The plan; None if the geometry has no tile plan."""
        try:
            return self.plan
        except PlanError:
            return None

    def program(self, name: str) -> TileProgram:
        """A tile program of the workload."""
        return self.workload.program(name)

    def form(self, program: str) -> Form | None:
        """The form of a program; None if its declaration does not describe one.

        Raises:
            WorkloadError: the declared form contradicts itself.
        """
        form = self.program(program).form
        if form is None:
            return None
        try:
            return form(self.device, self.plan_or_none)
        except FormError as error:
            raise WorkloadError(f"workload {self.workload.name}: form of {program}: {error}") from error

    def frame(self, tensor: str) -> Frame:
        """How an output is laid out for the diff."""
        return self.workload.frame_of(tensor, self.geometry, self.plan_or_none)

    def output_of(self, program: str) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype of what a program gives. Raises `PlanError` if the geometry cannot be tiled."""
        return self.workload.output_of(program, self.device, self.plan)

    def host_made(self, program: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs of a program that the host makes of the arrays that are packed for all programs.

        Raises:
            PlanError: the host makes some, and the geometry cannot be tiled.
        """
        made = self.program(program).host
        return {name: make(self.device, self.plan, arrays) for name, make in made.items()}


def workload_of(job: Job) -> Workload:
    """The declaration of a job's workload.

    Raises:
        WorkloadError: it cannot be loaded, or it no longer has the job's kernel.
    """
    workload = workload_named(job.workload.name, job.workload.file)
    if job.workload.file and job.lane is not Lane.COMPARE and job.kernel not in workload.kernel_names:
        known = ", ".join(workload.kernel_names)
        raise WorkloadError(f"{job.workload.file}: declares no kernel {job.kernel!r}: declared are {known}")
    return workload


def geometry_of(workload: Workload, shapes: Mapping[str, Any]) -> Any:
    """The geometry, of the workload's type, for shapes as the matrix writes them.

    Raises:
        GeometryError: the shapes break a rule of the workload.
        WorkloadError: the workload's type has other fields (its file was changed), or raises another error.
    """
    what = f"a geometry of workload {workload.name}"
    try:
        return msgspec.convert(dict(shapes), workload.definition.geometry)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # the type may come from a user's file
        # msgspec raises its own error from a ValueError or TypeError of the type, and from nothing else.
        cause = error.__cause__ if isinstance(error, msgspec.ValidationError) else error
        if isinstance(cause, GeometryError):
            raise cause from None
        if cause is None:
            raise WorkloadError(f"{what}: {error}") from error
        if sources := workload.definition.sources:
            raise blamed(cause, what, str(sources[0])) from error
        raise WorkloadError(f"{what}: {reason_of(cause)}") from error


_KEPT = 4
_subjects: dict[tuple[object, ...], Subject] = {}
"""The last subjects. Plan, programs and walks of one serve all that is done with it, with any profile."""


def subject_of(job: Job, platform: Platform | None = None) -> Subject:
    """The subject of a job, on its own platform or on another one: the same object while it is kept.

    Raises:
        WorkloadError: its workload cannot be loaded, or has no geometry or no specs for the job's shapes.
    """
    workload = workload_of(job)
    soc = (platform or job.platform).soc
    key = (workload, msgspec.json.encode([job.geometry, job.plan_options]), soc)
    if key not in _subjects:
        try:
            geometry = geometry_of(workload, job.geometry)
        except GeometryError as error:  # the matrix accepted it: the file was changed
            raise WorkloadError(f"a geometry of workload {workload.name}: {error}") from error
        workload.definition.specs(geometry)
        if len(_subjects) == _KEPT:
            del _subjects[next(iter(_subjects))]
        _subjects[key] = Subject(workload, geometry, soc, job.plan_options)
    return _subjects[key]


def wanted_golden(job: Job, inputs: Path | None) -> Wanted:
    """The golden that a job, which has a profile, is compared with.

    `inputs` is a file of tensors that replace those of the profile, or None.

    Raises:
        InputsError: the file's tensors do not fit the job's geometry.
        WorkloadError: the job's workload cannot be loaded.
    """
    from golden.cache import Wanted  # imported here, because `list` computes nothing
    from golden.inputs import load_inputs

    subject = subject_of(job)
    definition, geometry = subject.definition, subject.geometry
    source = load_inputs(inputs, definition.specs(geometry)) if inputs is not None else str(job.profile)
    return Wanted(definition, geometry, source, job.platform.variant)
