"""A user's declaration with its functions guarded: what they raise names the place in the user's file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from golden.definition import Definition
from golden.reference import TorchError
from golden.specs import TensorSpec
from golden.term_check import checked_terms
from golden.terms import Sums
from kernels.plan import PlanError
from kernels.tensor.plan import TilingError
from workloads.base import FaultModel, TileProgram, Workload, WorkloadError
from workloads.form import FormError
from workloads.own import blamed
from workloads.tensor_level import TensorLevel


def guarded(workload: Workload, file: str, sources: tuple[Path, ...]) -> Workload:
    """The declaration of a user's file, whose functions raise `WorkloadError` in place of what is unexpected.

    What a function may raise by its contract (a plan `PlanError`, for example) is raised as it is. Factories
    are left as they are: what they raise is told apart where a program is read.
    """
    definition, frame, level = workload.definition, workload.frame, workload.level

    def guard(what: str, function: Callable[..., Any], *expected: type[Exception]) -> Callable[..., Any]:
        return _guard(f"{what} of workload {workload.name}", function, file, expected)

    return replace(
        workload,
        definition=_definition(definition, guard, file, sources),
        programs=tuple(_program(program, guard) for program in workload.programs),
        plan=guard("plan", workload.plan, PlanError),
        frame=frame and guard("frame", frame),
        account=workload.account and guard("account", workload.account, PlanError),
        faults=workload.faults and FaultModel(guard("moved", workload.faults.moved)),
        tensor_level=level and _level(level, guard),
    )


_Guard = Callable[..., Callable[..., Any]]
"""Of what a function is, the function, and what it may raise."""


def _definition(definition: Definition, guard: _Guard, file: str, sources: tuple[Path, ...]) -> Definition:
    specs = _checked_specs(f"specs of workload {definition.name}", guard("specs", definition.specs), file)
    terms = definition.terms

    def checked(geometry: Any) -> Sequence[Sums]:
        return checked_terms(terms(geometry), specs(geometry)) if terms else ()

    return replace(
        definition,
        specs=specs,
        profiles={
            name: replace(profile, build=guard(f"profile {name}", profile.build))
            for name, profile in definition.profiles.items()
        },
        compute=guard("golden", definition.compute, TorchError),
        sources=sources,
        terms=terms and guard("terms", checked),
    )


def _program(program: TileProgram, guard: _Guard) -> TileProgram:
    of = f"of program {program.name!r}"
    return replace(
        program,
        shape=program.shape and guard(f"shape {of}", program.shape),
        host={name: guard(f"host's {name} {of}", make) for name, make in program.host.items()},
        form=program.form and guard(f"form {of}", program.form, FormError),
    )


def _level(level: TensorLevel, guard: _Guard) -> TensorLevel:
    return replace(
        level,
        programs={
            name: replace(program, launch=guard(f"launch of program {name!r}", program.launch))
            for name, program in level.programs.items()
        },
        tiling=guard("tiling", level.tiling, TilingError),
    )


def _guard(
    what: str, function: Callable[..., Any], file: str, expected: tuple[type[Exception], ...]
) -> Callable[..., Any]:
    passed: tuple[type[Exception], ...] = (WorkloadError, MemoryError, *expected)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except passed:
            raise
        except KeyboardInterrupt:
            raise  # the user's
        except BaseException as error:
            raise blamed(error, what, file) from error

    return call


def _checked_specs(
    what: str, function: Callable[[Any], Any], file: str
) -> Callable[[Any], tuple[TensorSpec, ...]]:
    """The function, which raises `WorkloadError` if it returns no specs."""

    @wraps(function)
    def call(geometry: Any) -> tuple[TensorSpec, ...]:
        found = function(geometry)
        if not isinstance(found, list | tuple) or not all(isinstance(spec, TensorSpec) for spec in found):
            kind = type(found).__name__
            raise WorkloadError(f"{file}: {what}: returns {kind}: must be a tuple of TensorSpec")
        return tuple(found)

    return call
