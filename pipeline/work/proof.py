"""Whether a program is proved: it moves every element to where the definition of its workload says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emulator.program import Program
from emulator.proof import Proof, prove
from emulator.soc import SOCS
from emulator.terms import Ids, Numbering, UndecidedError
from pipeline.ground.subject import Subject
from workloads.own import reason_of


def proof_of(subject: Subject, name: str, program: Program) -> Proof:
    """Walk a program of a subject on coordinates.

    Args:
        subject: the workload in a geometry on a soc.
        name: the program's name in the declaration.
        program: the typed program, whose `main` takes what is declared.

    Raises:
        UndecidedError: the definition, or what the host makes, does not let the program be proved.
        PlanError: the geometry cannot be tiled.
        KernelError: the emulator refuses the program.
    """
    definition, entry = subject.definition, subject.program(name)
    if definition.terms is None:
        raise UndecidedError("its definition does not say the terms")
    shapes = {spec.name: spec.shape for spec in definition.specs(subject.geometry)}
    numbering = Numbering(shapes, definition.terms(subject.geometry))
    ids = {tensor: numbering.ids(tensor) for tensor in shapes}
    given = {
        tensor: _made(subject, name, tensor, ids) if tensor in entry.host else ids[tensor]
        for tensor in entry.inputs
    }
    wanted = ids[entry.tensor]
    if entry.shape is not None:
        wanted = wanted[: entry.shape(subject.plan)[0]]
    for param in program.main.params:
        if param.name in entry.host and given[param.name].shape != param.type.shape:
            made, taken = list(given[param.name].shape), list(param.type.shape)
            raise UndecidedError(f"the host makes {param.name} as {made}, main takes {taken}")
    return prove(program, SOCS[subject.soc], numbering, given, {entry.output: wanted})


def _made(subject: Subject, name: str, tensor: str, ids: Mapping[str, Ids]) -> Ids:
    """The ids in what the host makes, which must hold the same elements whatever their ids are.

    Raises:
        UndecidedError: the host computes with elements.
    """
    make, end = subject.program(name).host[tensor], 1 + max(int(array.max()) for array in ids.values())
    try:
        made, mirrored = (
            np.asarray(make(subject.geometry, subject.plan, arrays))
            for arrays in (ids, {key: end - array for key, array in ids.items()})
        )
    except Exception as error:  # the function may be a user's own, and expects numbers
        raise UndecidedError(f"the host cannot make {tensor} of coordinates: {reason_of(error)}") from error
    if not np.array_equal(mirrored, np.where(made == 0, 0, end - made)):
        raise UndecidedError(f"the host computes {tensor}, it does not only move elements")
    return made
