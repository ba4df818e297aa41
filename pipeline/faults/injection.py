"""Whether a fault is committed in a run of a program, and why not: no job passes because it had no fault."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emulator.errors import KernelError
from emulator.program import Program
from golden.specs import Array, Tensors
from kernels.plan import PlanError
from pipeline.faults.host import in_output, spoiled_inputs
from pipeline.faults.kernel import faulty_plan, faulty_program
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from workloads.faults import Fault, can_show, no_place
from workloads.form import Form, FormError, Loading
from workloads.stages import ProgramRun


def program_with(fault: Fault, subject: Subject, program: str, variant: str) -> Program:
    """The typed program of a workload's program with a fault; the right one where it has no place for it.

    Raises:
        PlanError: the geometry cannot be tiled.
        KernelError: the emulator refuses the program.
        SyntaxError: its file is not Python.
        WorkloadError: the factory of a user's file raises another error.
        FormError: its form is not that of the program.
    """
    form, model = subject.form(program), subject.workload.faults
    if form is None or model is None:
        return typed_program(subject, program)
    built = typed_program(subject, program, faulty_plan(fault, subject.plan, model))
    return faulty_program(fault, built, form, variant)


def changes_program(fault: Fault, subject: Subject, program: str, variant: str) -> bool:
    """Whether a program with a fault is another one; raises as `program_with`."""
    return program_with(fault, subject, program, variant) != typed_program(subject, program)


def inputs_with(
    fault: Fault | None,
    subject: Subject,
    program: str,
    tensors: Tensors,
    variant: str,
    given: Mapping[str, Array],
) -> dict[str, Array]:
    """The inputs of a program by name, as a fault (if any) hands them over.

    Args:
        fault: the fault.
        subject: what the program is of.
        program: its name.
        tensors: the inputs of programs, as the host packs the workload's.
        variant: for which the tables are packed.
        given: outputs of the workload that the program reads, as programs give them.

    Raises:
        PlanError: the host packs by the plan, and the geometry cannot be tiled.
    """
    entry, form = subject.program(program), subject.form(program)
    right = {**tensors.arrays(variant), **given}
    # The host packs the right x: a program that it packs x for has no fault in the layout of x.
    arrays = {**right, **subject.host_made(program, right)}
    if fault is not None and form is not None:
        arrays = spoiled_inputs(fault, form, tensors, variant, arrays)
    return {name: array for name, array in arrays.items() if name in entry.inputs}


def why_not(fault: Fault, subject: Subject, run: ProgramRun, tensors: Tensors, variant: str) -> str:
    """Why a fault is not committed in a run of a program; empty where it is.

    It is committed if it changes how the output is stored, or the program, or its inputs.
    """
    form = subject.form(run.program)
    if subject.workload.faults is None:
        return f"workload {subject.workload.name} has no fault model"
    if form is None:
        return "this program has no form (docs/workloads.md), so that no fault has a place in it"
    reason = _not_handed_over(fault, form, run) or no_place(fault, form) or can_show(fault, form)
    if reason or in_output(fault):
        return reason
    try:
        if changes_program(fault, subject, run.program, variant):
            return ""
    except (KernelError, PlanError, SyntaxError):
        return ""  # the run itself says what is wrong with it
    except FormError as error:
        return f"the form of this program does not fit: {error}"
    right, wrong = (inputs_with(each, subject, run.program, tensors, variant, {}) for each in (None, fault))
    if right.keys() != wrong.keys() or any(not np.array_equal(right[name], wrong[name]) for name in right):
        return ""
    return "the program and its inputs are the same with the fault as without it"


def _not_handed_over(fault: Fault, form: Form, run: ProgramRun) -> str:
    """A program that is run on the golden's mid has no hand-over that could be wrong."""
    second = form.convolution(2)
    if fault.step != "hand-over" or second is None or second.loading is Loading.IN_L1 or run.given:
        return ""
    return f"this program is run on the golden's {second.source}"
