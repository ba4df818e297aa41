"""Whether a program is proved: it moves every element to where the definition of its workload says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from emulator.blame import NOTHING, Finding, Task, chain
from emulator.elements import PADDING
from emulator.errors import CapacityError
from emulator.program import Program
from emulator.proof import Proof, prove
from emulator.soc import SOCS
from emulator.terms import Ids, Numbering, UndecidedError
from pipeline.engines.registry import takes_tiles
from pipeline.ground.jobs import State
from pipeline.ground.programs import typed_program
from pipeline.ground.results import BLAMED, DIAGNOSIS, PROGRAM_WRONG, YES
from pipeline.ground.subject import Subject
from workloads.base import WorkloadError
from workloads.own import blamed, reason_of


@dataclass(frozen=True)
class Verdict:
    """What the walk of a program on coordinates says of it.

    Attributes:
        proved: the fact `PROVED`.
        state: `refuted`, or `passed` if it is proved or not decided.
        message: what is wrong with a program that is refuted, in a line.
        findings: the lines to blame for it, the one that explains most first.
        short: what is to blame for it, if there are no findings.
        places: the elements of its output that are wrong, a mask in the output's shape; None if not known.
    """

    proved: str
    state: State = State.PASSED
    message: str = ""
    findings: tuple[Finding, ...] = ()
    short: str = "the program"
    places: npt.NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)

    @property
    def refuted(self) -> bool:
        """Whether the program is wrong, whatever the data."""
        return self.state is State.REFUTED

    @property
    def why(self) -> str:
        """What is wrong with a program that is refuted, in a line that begins with the line to blame."""
        return str(self.findings[0]) if self.findings else self.message

    @property
    def blamed(self) -> str:
        """The fact `BLAMED`: what is to blame, in words that are the same in all geometries."""
        if not self.findings:
            return self.short if self.refuted else ""
        first = self.findings[0]
        of = f" of {first.tensor}" if first.tensor else ""
        return f"{first.operator}{of} at {chain(first.position)}"

    @property
    def facts(self) -> Mapping[str, str]:
        """The facts of a stage whose program is refuted."""
        return {DIAGNOSIS: PROGRAM_WRONG + self.why, BLAMED: self.blamed}

    @property
    def account(self) -> str:
        """All that is known, the first line about the program as a whole, then each line to blame."""
        told = [line for finding in self.findings for line in _told(finding)]
        return "\n".join([self.message if self.refuted else f"proved: {self.proved}", *told])


def _told(finding: Finding) -> Iterator[str]:
    """A finding, and the further lines that would explain it."""
    yield f"  {finding}" + (f" (explains {finding.elements} elements)" if finding.elements else "")
    if finding.others:
        yield f"    or {'; or '.join(map(chain, finding.others))}"


_VERDICTS: dict[tuple[object, ...], Verdict] = {}
"""The verdicts of this process: a program is walked once, however many of its stages are judged."""


def verdict_on(subject: Subject, name: str, backend: str) -> Verdict:
    """Whether a program that an engine of a backend has compiled is proved, or why not.

    Raises:
        WorkloadError: the terms of a user's definition raise an error.
    """
    if not takes_tiles(backend):
        return Verdict("no: it is a tensor-level program, and only tile programs are walked")
    options = tuple(sorted(subject.plan_options.items()))
    key = (subject.workload, msgspec.json.encode(subject.geometry), subject.soc, options, name)
    if key not in _VERDICTS:
        _VERDICTS[key] = _decided(subject, name)
    return _VERDICTS[key]


def walked(subject: Subject, name: str, backend: str) -> Verdict:
    """As `verdict_on`, for a program with which something is wrong already: a proof that fails is none."""
    try:
        return verdict_on(subject, name, backend)
    except Exception as error:
        return Verdict(f"no: the proof failed: {type(error).__name__}: {reason_of(error)}")


def _decided(subject: Subject, name: str) -> Verdict:
    try:
        program = typed_program(subject, name)
    except Exception as error:  # the engine has compiled it: what the emulator refuses PyPTO may take
        return Verdict(f"no: the emulator does not read it: {reason_of(error)}")
    try:
        proof = proof_of(subject, name, program)
    except (UndecidedError, CapacityError) as error:
        return Verdict(f"no: {error}")
    except (WorkloadError, MemoryError):
        raise
    except Exception as error:
        if not subject.definition.sources:
            raise
        what = f"terms of workload {subject.workload.name}"
        raise blamed(error, what, str(subject.definition.sources[0])) from error
    if not proof.wrong:
        return Verdict(YES)
    entry = subject.program(name)
    places = proof.places.get(entry.output)
    if places is None:
        return Verdict(f"no: {proof.words}", State.REFUTED, proof.words, proof.findings)
    count = f"{proof.wrong} of {proof.checked} elements are wrong"
    message = ": ".join([f"{count}; the first is {proof.words}", *map(str, proof.findings[:1])])
    cut = subject.packing.cut(entry.tensor, places)
    return Verdict(f"no: {count}", State.REFUTED, message, proof.findings, places=cut)


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
    packed = subject.packing.packed(ids, PADDING)
    given = {
        tensor: _made(subject, name, tensor, ids) if tensor in entry.host else packed[tensor]
        for tensor in entry.inputs
    }
    wanted = subject.packing.packed({entry.tensor: ids[entry.tensor]}, NOTHING)[entry.tensor]
    if entry.shape is not None:
        wanted = wanted[: entry.shape(subject.plan)[0]]
    for param in program.main.params:
        if param.name in entry.host and given[param.name].shape != param.type.shape:
            made, taken = list(given[param.name].shape), list(param.type.shape)
            raise UndecidedError(f"the host makes {param.name} as {made}, main takes {taken}")
    return prove(Task(program, SOCS[subject.soc], numbering, given, {entry.output: wanted}))


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
            np.asarray(make(subject.device, subject.plan, subject.packing.packed(arrays))).astype(np.int64)
            for arrays in (ids, values)
        )
    except Exception as error:  # the function may be a user's own, and expect numbers
        raise UndecidedError(f"the host cannot make {tensor} of coordinates: {reason_of(error)}") from error
    if not np.array_equal(by_id.take(made, mode="clip"), computed):
        raise UndecidedError(f"the host computes {tensor}, it does not only move elements")
    return made
