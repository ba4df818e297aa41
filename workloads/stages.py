"""The stages of a comparison: a program is run on given inputs, or two outputs are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class ProgramRun:
    """A program is run, and its output is compared with the golden.

    `given` maps an input that is an output of the workload to the earlier stage that hands it over; all other
    inputs are the golden's.
    """

    name: str
    program: str
    given: Mapping[str, ProgramRun] = field(default_factory=dict)

    @property
    def needs(self) -> tuple[str, ...]:
        """The earlier stages whose outputs it needs."""
        return tuple(run.name for run in self.given.values())


@dataclass(frozen=True)
class OutputsCompared:
    """The outputs of two earlier stages are compared; both are the whole of `tensor`."""

    name: str
    one: str
    other: str
    tensor: str

    @property
    def needs(self) -> tuple[str, ...]:
        """The earlier stages whose outputs it needs."""
        return self.one, self.other


Stage = ProgramRun | OutputsCompared


@dataclass(frozen=True)
class Takes:
    """What the stages need to know of a program: name, inputs, the tensor it computes, and if all of it."""

    name: str
    inputs: tuple[str, ...]
    tensor: str
    whole: bool


def own_runs(programs: Sequence[Takes], lead: str = "") -> list[ProgramRun]:
    """The programs of one kernel, one after the other, each on the outputs of those before it.

    Args:
        programs: the programs of the kernel, in the order in which they run.
        lead: prefix of the stages' names.
    """
    runs: list[ProgramRun] = []
    gave: dict[str, ProgramRun] = {}
    for program in programs:
        run = ProgramRun(lead + program.name, program.name, _given(program, gave))
        runs.append(run)
        if program.whole:
            gave[program.tensor] = run
    return runs


def _given(program: Takes, gave: Mapping[str, ProgramRun]) -> Mapping[str, ProgramRun]:
    """The earlier runs of its kernel whose outputs a program reads, by the name of the input."""
    return {name: gave[name] for name in program.inputs if name in gave}


def comparison(kernels: Mapping[str, Sequence[Takes]]) -> tuple[Stage, ...]:
    """All stages of a workload's compare lane.

    Each program is run on the golden's inputs. A program that reads the output of another of its kernel is
    also run on that output. A run that several kernels share is a single stage. The output of each further
    kernel is then compared with that of the first kernel that computes the same tensor.

    Args:
        kernels: the programs of each kernel, in the order in which they are compared.
    """
    return tuple(_stages(kernels))


def _stages(kernels: Mapping[str, Sequence[Takes]]) -> Iterator[Stage]:
    runs: dict[str, ProgramRun] = {}
    first: dict[str, tuple[str, str]] = {}
    for kernel, programs in kernels.items():
        last = ""
        for run in _runs(kernel, programs, runs):
            last = run.name
            if last not in runs:
                runs[last] = run
                yield run
        tensor, whole = programs[-1].tensor, programs[-1].whole
        earlier, stage = first.setdefault(tensor, (kernel, last)) if whole else ("", last)
        if stage != last:
            yield OutputsCompared(f"{kernel}-vs-{earlier}", last, stage, tensor)


def _runs(kernel: str, programs: Sequence[Takes], others: Mapping[str, ProgramRun]) -> Iterator[ProgramRun]:
    """The runs of a kernel; if `others` has another run of a name, the kernel is added to the name."""
    gave: dict[str, ProgramRun] = {}
    for program in programs:
        run = ProgramRun(program.name, program.name, _given(program, gave))
        if run.given:
            read = next(iter(run.given))
            yield ProgramRun(f"{program.name}-on-golden-{read}", program.name)
            run = replace(run, name=f"{program.name}-on-own-{read}")
            if others.get(run.name, run) != run:
                run = replace(run, name=f"{run.name}-of-{kernel}")
        yield run
        if program.whole:
            gave[program.tensor] = run
