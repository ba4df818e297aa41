"""The types with which a workload is declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from golden.definition import Definition
from golden.errors import UserError
from golden.specs import Array, Role, TensorSpec
from kernels.choice import Account
from kernels.plan import Limits
from kernels.windows import Window
from workloads.packing import Packing
from workloads.stages import ProgramRun, Stage, Takes, comparison, own_runs

if TYPE_CHECKING:
    from workloads.form import Form
    from workloads.tensor_level import TensorLevel, TensorProgram


DECLARATION = "WORKLOAD"
"""The name to which a module assigns its declaration."""


class WorkloadError(UserError):
    """A workload cannot be loaded: its name is unknown, or its declaration or file is broken; one line."""


@dataclass(frozen=True)
class Frame:
    """How an output [positions, channels] is laid out for the diff.

    `columns` positions make an image row, and `band_rows` image rows make a band.
    """

    columns: int
    band_rows: int


@dataclass(frozen=True)
class TileProgram:
    """One tile program.

    Attributes:
        name: its name in reports.
        factory: a function of the DSL and a plan that returns the program. Written as `module:function` it is
            imported when it is called, so that a broken kernel file does not block other kernels.
        inputs: the parameters of its `main` that it reads, in their order.
        output: the parameter that it writes, the last one.
        tensor: the output of the workload that it computes; only its first rows if `shape` is given.
        shape: returns the output's shape from a plan, if that is not the shape of the whole tensor.
        host: the inputs that the host makes, each with a function of a geometry, a plan and the workload's
            arrays that returns it.
        form: returns what the program is made of, from a geometry and a plan or None.
    """

    name: str
    factory: str | Callable[[Any, Any], Any]
    inputs: tuple[str, ...]
    output: str
    tensor: str
    shape: Callable[[Any], tuple[int, int]] | None = None
    host: Mapping[str, Callable[[Any, Any, Mapping[str, Array]], Array]] = field(default_factory=dict)
    form: Callable[[Any, Any], Form] | None = None

    def build(self, pl: Any, plan: Any) -> Any:
        """The program that the factory makes from the DSL and a plan.

        Errors of the engine's reader pass through.

        Raises:
            SyntaxError: the factory's file is not Python.
        """
        if not isinstance(self.factory, str):
            return self.factory(pl, plan)
        return _imported(self.factory)(pl, plan)

    @property
    def takes(self) -> Takes:
        """What the stages of a comparison need to know of it."""
        return Takes(self.name, self.inputs, self.tensor, self.shape is None)


def _imported(written: str) -> Any:
    """What is written as `module:name`."""
    module, _, name = written.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Kernel:
    """What a job runs: one program, or several, each of which reads the output of the one before."""

    name: str
    programs: tuple[str, ...]


MoveWindows = Callable[[Sequence[Window], int], Sequence[Window]]
"""Returns moved windows, from the x windows of bands, in image order, and the number of rows of x."""


def _as_it_is(plan: Any, move: MoveWindows) -> Any:
    """The plan unchanged: it has no windows that could move."""
    return plan


@dataclass(frozen=True)
class FaultModel:
    """The fault model of convolutions that follow each other (`workloads.faults`).

    `moved` returns a plan in which the x windows of each list of bands are replaced. It may be left out if a
    plan has no such windows; the faults that move them then have no place.
    """

    moved: Callable[[Any, MoveWindows], Any] = _as_it_is


def _untiled(geometry: Any, limits: Limits, options: Mapping[str, int]) -> Any:
    """The geometry itself, for programs that are not tiled."""
    return geometry


@dataclass(frozen=True, eq=False)
class Workload:
    """The declaration of what is under test.

    Attributes:
        definition: what is computed: geometry, tensors, data profiles, golden.
        programs: the tile programs.
        kernels: what jobs run, in the order in which the compare lane takes them.
        example: a small geometry; programs are read for it to see which operators they call.
        plan: how a geometry is tiled within the limits of a soc; options are those of `plan_options`. Raises
            `kernels.plan.PlanError`. If it is left out, programs get the geometry itself as their plan.
        frame: how an output is laid out for the diff, from its name, a geometry and a plan or None. If it is
            left out, an output is a matrix: each row is one position, and all rows are one band.
        plan_options: integers that a geometry of the matrix may set for the plan, each with a description.
        faults: what can be injected; None if there is no fault model.
        tensor_level: the programs for CANN's compiler; None if there are none. Written as `module:name` they
            are imported when they are asked for.
        account: the plan in words and numbers; arguments and errors as of `plan`. None if it has none.
        packing: from a geometry, how the host packs its tensors for the programs. Plan, forms, `account` and
            what the host makes for a program are of the geometry that the packing gives as `device`. If it is
            left out, nothing is packed.

    Raises:
        WorkloadError: a name is used twice, or refers to nothing that is declared.
    """

    definition: Definition
    programs: tuple[TileProgram, ...]
    kernels: tuple[Kernel, ...]
    example: Any
    plan: Callable[[Any, Limits, Mapping[str, int]], Any] = _untiled
    frame: Callable[[str, Any, Any], Frame] | None = None
    plan_options: Mapping[str, str] = field(default_factory=dict)
    faults: FaultModel | None = None
    tensor_level: TensorLevel | str | None = None
    account: Callable[[Any, Limits, Mapping[str, int]], Account] | None = None
    packing: Callable[[Any], Packing] = Packing

    def __post_init__(self) -> None:
        mistake = next(_mistakes(self), "")
        if mistake:
            raise WorkloadError(f"workload {self.name}: {mistake}")

    @property
    def name(self) -> str:
        """Its name, as the matrix writes it."""
        return self.definition.name

    @cached_property
    def level(self) -> TensorLevel | None:
        """The programs for CANN's compiler, if there are any."""
        if not isinstance(self.tensor_level, str):
            return self.tensor_level
        found: TensorLevel = _imported(self.tensor_level)
        return found

    @property
    def tensor_programs(self) -> Mapping[str, TensorProgram]:
        """The tensor-level programs by name; there may be none."""
        return {} if self.level is None else self.level.programs

    def program(self, name: str) -> TileProgram:
        """The tile program of a name."""
        return self._programs[name]

    def programs_of(self, kernel: str) -> tuple[str, ...]:
        """The names of a kernel's programs, in the order in which they run."""
        return self._kernels[kernel].programs

    @cached_property
    def kernel_names(self) -> tuple[str, ...]:
        """The names of all kernels."""
        return tuple(self._kernels)

    @cached_property
    def comparison(self) -> tuple[Stage, ...]:
        """The stages of the compare lane, made from the kernels, so that they include every new kernel."""
        return comparison({kernel.name: self._takes(kernel.name) for kernel in self.kernels})

    @cached_property
    def tile_stages(self) -> tuple[Stage, ...]:
        """The stages up to the last one that computes a first tile only; empty if no kernel does so."""
        partial = {program.name for program in self.programs if program.shape is not None}
        ends = [
            place + 1
            for place, stage in enumerate(self.comparison)
            if isinstance(stage, ProgramRun) and stage.program in partial
        ]
        return self.comparison[: max(ends, default=0)]

    def runs_of(self, kernel: str, lead: str = "") -> list[ProgramRun]:
        """The stages of a kernel alone; `lead` is the prefix of their names."""
        return own_runs(self._takes(kernel), lead)

    def spec(self, tensor: str, geometry: Any) -> TensorSpec:
        """The spec of a tensor in a geometry."""
        return next(spec for spec in self.definition.specs(geometry) if spec.name == tensor)

    def frame_of(self, tensor: str, geometry: Any, plan: Any) -> Frame:
        """How an output is laid out for the diff; `plan` is None if the geometry has no plan."""
        if self.frame is not None:
            return self.frame(tensor, geometry, plan)
        return Frame(1, self.spec(tensor, geometry).shape[0])

    def output_of(self, program: str, geometry: Any, plan: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and dtype of the output parameter of a program; the geometry is that of the device."""
        entry = self.program(program)
        spec = self.spec(entry.tensor, geometry)
        return entry.shape(plan) if entry.shape is not None else spec.shape, spec.dtype

    @cached_property
    def handed_over(self) -> tuple[str, ...]:
        """Intermediate outputs, which another program reads back, such as mid."""
        read = {name for program in self.programs for name in program.inputs}
        specs = self.definition.specs(self.example)
        return tuple(spec.name for spec in specs if spec.role is Role.OUTPUT and spec.name in read)

    @cached_property
    def _programs(self) -> Mapping[str, TileProgram]:
        return {program.name: program for program in self.programs}

    @cached_property
    def _kernels(self) -> Mapping[str, Kernel]:
        return {kernel.name: kernel for kernel in self.kernels}

    def _takes(self, kernel: str) -> list[Takes]:
        return [self.program(name).takes for name in self.programs_of(kernel)]


def _mistakes(workload: Workload) -> Iterator[str]:
    """The mistakes in the names of a declaration, one line each."""
    programs = [program.name for program in workload.programs]
    declared = ", ".join(programs)
    yield from (f"two programs are called {name!r}" for name in _doubled(programs))
    yield from (f"two kernels are called {name!r}" for name in _doubled(one.name for one in workload.kernels))
    for kernel in workload.kernels:
        who = f"kernel {kernel.name!r}"
        if not kernel.programs:
            yield f"{who} runs no program"
        for name in kernel.programs:
            if name not in programs:
                yield f"{who} runs program {name!r}, which is not declared: declared are {declared}"
        yield from (f"{who} runs program {name!r} twice" for name in _doubled(kernel.programs))
    specs = {spec.name: spec for spec in workload.definition.specs(workload.example)}
    outputs = [name for name, spec in specs.items() if spec.role is Role.OUTPUT]
    for program in workload.programs:
        who = f"program {program.name!r}"
        for name in program.inputs:
            if name not in specs and name not in program.host:
                tensors = ", ".join(specs)
                yield f"{who} reads {name!r}, which is neither made by `host` nor one of {tensors}"
        if program.tensor not in outputs:
            yield f"{who} gives {program.tensor!r}, which is no output: outputs are {', '.join(outputs)}"


def _doubled(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
