"""The stages of a comparison: a program run on given inputs, and two outputs held against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProgramRun:
    """A program is run, and its output is compared with the golden.

    `given` has, for inputs that are outputs of the workload, the earlier stage whose output is handed over;
    an input that is not in it is the golden's.
    """

    name: str
    program: str
    given: Mapping[str, ProgramRun] = field(default_factory=dict)


@dataclass(frozen=True)
class OutputsCompared:
    """The outputs of two earlier stages are held against each other; both are the whole of `tensor`."""

    name: str
    one: str
    other: str
    tensor: str


Stage = ProgramRun | OutputsCompared


@dataclass(frozen=True)
class Takes:
    """What the stages need to know of a program: its name, its inputs, the tensor that it gives rows of."""

    name: str
    inputs: tuple[str, ...]
    tensor: str
    whole: bool


def own_runs(programs: Sequence[Takes], lead: str = "") -> list[ProgramRun]:
    """The programs of one kernel, one after the other, each on what the ones before it gave.

    Args:
        programs: of the kernel, in the order in which they run.
        lead: stands before the name of each stage.
    """
    runs: dict[str, ProgramRun] = {}
    for program in programs:
        given = {name: runs[name] for name in program.inputs if name in runs}
        runs[program.tensor] = ProgramRun(lead + program.name, program.name, given)
    return list(runs.values())


def comparison(kernels: Mapping[str, Sequence[Takes]]) -> tuple[Stage, ...]:
    """All stages of a workload's compare lane.

    Each program is run on the golden's inputs; one that reads what another of its kernel gives is run on
    that as well. The output of each further kernel is then held against that of the first that gives it.

    Args:
        kernels: the programs of each kernel, in the order in which they are compared.
    """
    return tuple(_stages(kernels))


def _stages(kernels: Mapping[str, Sequence[Takes]]) -> Iterator[Stage]:
    first: dict[str, tuple[str, str]] = {}
    for kernel, programs in kernels.items():
        last = ""
        for run in own_runs(programs):
            if not run.given:
                yield run
                last = run.name
                continue
            read = next(iter(run.given))
            last = f"{run.program}-on-own-{read}"
            yield ProgramRun(f"{run.program}-on-golden-{read}", run.program)
            yield ProgramRun(last, run.program, run.given)
        tensor, whole = programs[-1].tensor, programs[-1].whole
        if whole and tensor in first:
            earlier, stage = first[tensor]
            yield OutputsCompared(f"{kernel}-vs-{earlier}", last, stage, tensor)
        elif whole:
            first[tensor] = kernel, last
