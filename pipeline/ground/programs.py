"""The typed program of a declaration, and whether its `main` takes what the declaration says.

The emulator binds operands by name, PyPTO by place, so a declaration in another order must run on neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import emulator.language
from emulator.errors import KernelError
from emulator.program import Program
from golden.specs import Array
from kernels.plan import PlanError
from pipeline.ground.subject import Subject
from workloads.base import WorkloadError
from workloads.own import blamed


def typed_program(subject: Subject, name: str, plan: object = None) -> Program:
    """A program, read by the emulator for the subject's plan or for another one.

    Raises:
        PlanError: the geometry cannot be tiled.
        KernelError: the emulator refuses the program.
        SyntaxError: its file is not Python.
        WorkloadError: the factory of a user's file raises another error.
    """
    if plan is None or plan is subject.plan:
        return _read(subject, name)
    return _read_for(plan, subject, name)


@lru_cache(maxsize=16)
def _read(subject: Subject, name: str) -> Program:
    """The program for the subject's own plan: a job asks for it several times."""
    return _read_for(subject.plan, subject, name)


def _read_for(plan: object, subject: Subject, name: str) -> Program:
    entry, sources = subject.program(name), subject.definition.sources
    factory = f"factory of program {name!r} of workload {subject.workload.name}"
    try:
        program: Program = entry.build(emulator.language, plan)
    except (KernelError, PlanError, SyntaxError):
        raise
    except Exception as error:
        if not sources:
            raise
        raise blamed(error, factory, str(sources[0])) from error
    if not isinstance(program, Program):
        given = type(program).__name__
        raise WorkloadError(f"{factory} gives a {given}: it must give a class under @pl.program")
    return program


def check_main(
    program: Program, subject: Subject, name: str, inputs: Mapping[str, Array] | None = None
) -> None:
    """Refuse the program of a `name` if its `main` takes other parameters than the declaration says.

    `inputs` are the arrays that it is run on. Only with them is the form of what the host makes known.

    Raises:
        PlanError: the geometry cannot be tiled.
        WorkloadError: the names, their order, the mark `pl.Out`, a shape or a dtype differ.
    """
    mistake = next(_mistakes(program, subject, name, inputs or {}), "")
    if mistake:
        raise WorkloadError(f"program {name!r} of workload {subject.workload.name}: {mistake}")


def _mistakes(program: Program, subject: Subject, name: str, inputs: Mapping[str, Array]) -> Iterator[str]:
    entry, workload, params = subject.program(name), subject.workload, program.main.params
    declared = ", ".join([*entry.inputs, entry.output])
    taken = ", ".join(param.name for param in params)
    if taken != declared:
        yield f"main takes ({taken}), the declaration says ({declared})"
        return
    written = ", ".join(param.name for param in params if param.type.out)
    if written != entry.output:
        yield f"main marks {written or 'nothing'} as pl.Out, the declaration says {entry.output}"
    forms = {
        spec.name: (spec.shape, spec.dtype)
        for spec in workload.definition.specs(subject.device)
        if spec.name not in entry.host
    }
    forms |= {made: (inputs[made].shape, inputs[made].dtype) for made in entry.host if made in inputs}
    forms[entry.output] = subject.output_of(name)
    for param in params:
        if param.name in forms:
            shape, dtype = forms[param.name]
            said = f"{dtype} {list(shape)}"
            main = f"{param.type.dtype.value} {list(param.type.shape)}"
            if main != said:
                yield subject.packing.explained(
                    f"main takes {param.name} as {main}, the declaration says {said}"
                )
