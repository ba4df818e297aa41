"""Whether a program is proved: it moves every element to where the definition of its workload says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emulator.errors import AccessError, CapacityError
from emulator.program import Program
from emulator.proof import Proof, prove
from emulator.soc import SOCS
from emulator.terms import Ids, Numbering, UndecidedError
from pipeline.engines.base import Request
from pipeline.engines.registry import takes_tiles
from pipeline.ground.jobs import YES, State
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from workloads.base import WorkloadError
from workloads.own import blamed, reason_of


def decided(request: Request) -> tuple[State, str, str]:
    """The state and the message of a stage whose program an engine has compiled, and its fact `PROVED`.

    Raises:
        WorkloadError: the terms of a user's definition raise an error.
    """
    subject, name = request.subject, request.program
    if not takes_tiles(request.platform.backend):
        return State.PASSED, "", "no: it is a tensor-level program, and only tile programs are walked"
    try:
        program = typed_program(subject, name)
    except Exception as error:  # the engine has compiled it: what the emulator refuses PyPTO may take
        return State.PASSED, "", f"no: the emulator does not read it: {reason_of(error)}"
    try:
        proof = proof_of(subject, name, program)
    except AccessError as error:
        return State.REFUTED, str(error), f"no: {error}"
    except (UndecidedError, CapacityError) as error:
        return State.PASSED, "", f"no: {error}"
    except WorkloadError:
        raise
    except Exception as error:
        if not subject.definition.sources:
            raise
        what = f"terms of workload {subject.workload.name}"
        raise blamed(error, what, str(subject.definition.sources[0])) from error
    if not proof.wrong:
        return State.PASSED, "", YES
    count = f"{proof.wrong} of {proof.checked} elements are wrong"
    return State.REFUTED, f"{count}; the first is {proof.words}", f"no: {count}"


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
    """The ids in what the host makes. On numbers it must give the elements that it gives on ids.

    Raises:
        UndecidedError: the host computes with elements.
    """
    make, draw = subject.program(name).host[tensor], np.random.default_rng(0)
    values = {}
    for spec in subject.definition.specs(subject.geometry):
        drawn = draw.integers(0, 256, (*spec.shape, spec.dtype.itemsize), np.uint8)
        values[spec.name] = drawn.view(spec.dtype)[..., 0]
    by_id = np.zeros(1 + max(int(array.max()) for array in ids.values()), np.int64)
    for key, array in ids.items():
        by_id[array] = values[key].astype(np.int64)
    try:
        made, computed = (
            np.asarray(make(subject.geometry, subject.plan, arrays)).astype(np.int64)
            for arrays in (ids, values)
        )
    except Exception as error:  # the function may be a user's own, and expect numbers
        raise UndecidedError(f"the host cannot make {tensor} of coordinates: {reason_of(error)}") from error
    if not np.array_equal(by_id.take(made, mode="clip"), computed):
        raise UndecidedError(f"the host computes {tensor}, it does not only move elements")
    return made
