"""What numbers and proof say of one edited copy of `kernels/`, and whether it is true.

Runs in a process of its own, whose `kernels` is the copy: `pipeline` and `workloads` are imported there only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mutants.lines import Chain, Line, chain_of, edited, fed, pairs, same
from benchmarks.mutants.mutant import Case, Mutant
from emulator.blame import Finding
from emulator.engine import run_program
from emulator.errors import KernelError
from emulator.program import Block, Call, For, If, Invoke, Program, Statement, each_block
from emulator.soc import SOCS
from emulator.terms import UndecidedError
from golden import conv, conv_pair, gemm
from golden.errors import UserError
from golden.specs import Array

SOC = "a2a3"
DEFINITIONS = {
    "conv-pair": conv_pair.DEFINITION,
    "conv": conv.DEFINITION,
    "gemm": gemm.DEFINITION,
}
"""The definitions do not depend on `kernels`: the golden is computed once, before any copy is imported."""


@dataclass(frozen=True)
class HintSaid:
    """A number that is said to be wrong: a text in a line of the source, and the value that is right."""

    operand: str
    text: str
    file: str
    line: int
    right: Any


@dataclass(frozen=True)
class Said:
    """One finding: its line with its callers, and further lines that would explain it as well."""

    line: Chain
    operator: str
    words: str
    others: tuple[Chain, ...] = ()
    hint: HintSaid | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one program of a mutant.

    Attributes:
        touched: whether its typed program differs from the right one.
        numbers: wrong elements of its output on data that fill the range of int8; None if it was not run.
        refused: why it was refused, and so neither proved nor refuted; empty if it was not.
        wrong: elements that the proof found wrong.
        said: the findings.
        fed: the statements with other operands than in the right program.
    """

    touched: bool
    numbers: int | None = None
    refused: str = ""
    wrong: int = 0
    said: tuple[Said, ...] = ()
    fed: frozenset[Chain] = frozenset()

    @property
    def changed(self) -> bool:
        """Whether its results differ, or there are none."""
        return self.numbers != 0

    @property
    def detected(self) -> bool:
        """Whether it was found without data."""
        return self.refused != "" or self.wrong > 0


def golden_of(case: Case) -> Mapping[str, Array]:
    """The inputs of a case, which fill the range of int8, and its right outputs."""
    definition = DEFINITIONS[case.workload]
    tensors = definition.make("full-range@7", case.geometry)
    return {**tensors.arrays("vreq8"), **definition.computed(case.geometry, tensors, "vreq8")}


def programs_of(case: Case) -> dict[str, Program]:
    """The typed programs of a case, by name, without those that are refused."""
    from pipeline.ground.programs import typed_program

    programs, subject = {}, _subject(case)
    for program in subject.workload.programs:
        try:
            programs[program.name] = _bare(typed_program(subject, program.name))
        except Exception:  # an edit can raise anything; the judge says what
            continue
    return programs


def _bare(program: Program) -> Program:
    """A program without what its source says, which cannot leave its process."""

    def bare(block: Block) -> Block:
        return tuple(map(one, block))

    def one(statement: Statement) -> Statement:
        if isinstance(statement, Call):
            return replace(statement, written={})
        return replace(statement, written=()) if isinstance(statement, For | If | Invoke) else statement

    functions = {
        name: replace(each, body=each_block(each.body, bare), decided=())
        for name, each in program.functions.items()
    }
    return replace(program, functions=functions)


def outcomes(mutant: Mutant, right: Mapping[str, Program], arrays: Mapping[str, Array]) -> dict[str, Outcome]:
    """What becomes of each program of a mutant, with the copy imported as `kernels`.

    Args:
        mutant: the mutant.
        right: the typed programs of its case without the edits.
        arrays: the case's inputs and right outputs.
    """
    subject = _subject(mutant.case)
    return {
        program.name: _outcome(subject, program.name, right[program.name], arrays)
        for program in subject.workload.programs
        if program.name in right
    }


def _subject(case: Case) -> Any:
    from pipeline.ground.memory import limits_of
    from pipeline.ground.subject import Subject
    from workloads.registry import workload_named

    subject = Subject(workload_named(case.workload), case.geometry, SOC, case.options)
    if case.l1 is not None:
        limits = replace(limits_of(SOC), l1=case.l1)
        vars(subject)["plan"] = subject.workload.plan(subject.device, limits, subject.plan_options)
    return subject


def _outcome(subject: Any, name: str, right: Program, arrays: Mapping[str, Array]) -> Outcome:
    from pipeline.ground.programs import check_main, typed_program
    from pipeline.work.proof import proof_of

    try:
        program = typed_program(subject, name)
        check_main(program, subject, name)
    except (KernelError, UserError, SyntaxError, ArithmeticError, LookupError, TypeError) as error:
        return _refusal(error, frozenset())
    if same(right, program) and not subject.program(name).host:
        return Outcome(touched=False, numbers=0)
    changed = frozenset(fed(right, program))
    numbers = None
    with suppress(KernelError, ValueError):  # the proof must say so too
        numbers = _wrong_numbers(subject, name, program, arrays)
    try:
        proof = proof_of(subject, name, program)
    except (KernelError, UserError, UndecidedError) as error:
        return _refusal(error, changed, numbers)
    said = tuple(map(_said, proof.findings)) or ((Said((), "", proof.words),) if proof.wrong else ())
    return Outcome(not same(right, program), numbers, "", proof.wrong, said, changed)


def _wrong_numbers(subject: Any, name: str, program: Program, arrays: Mapping[str, Array]) -> int:
    from pipeline.ground.memory import untouched_output

    entry = subject.program(name)
    packed = subject.packing.packed(arrays)
    output = untouched_output(*subject.output_of(name))
    inputs = {**packed, **subject.host_made(name, packed)}
    given = {key: np.ascontiguousarray(inputs[key]) for key in entry.inputs}
    run_program(program, SOCS[SOC], {**given, entry.output: output})
    whole = arrays[entry.tensor]
    return int((subject.packing.cut(entry.tensor, output) != whole[: output.shape[0]]).sum())


def _refusal(error: Exception, changed: frozenset[Chain], numbers: int | None = None) -> Outcome:
    words = f"{type(error).__name__}: {error}"
    line = chain_of(error.position) if isinstance(error, KernelError) else ()
    said = (Said(line, getattr(error, "operator", ""), words),) if line else ()
    return Outcome(True, numbers, words, said=said, fed=changed)


def _said(finding: Finding) -> Said:
    hint = finding.hint
    told = hint and HintSaid(
        hint.operand, hint.text, Path(hint.position.file).name, hint.position.line, hint.right
    )
    others = tuple(map(chain_of, finding.others))
    # Of what the host packs no line of a program is at fault.
    line = () if finding.operator == "host" else chain_of(finding.position)
    return Said(line, finding.operator, str(finding), others, told)


@dataclass(frozen=True)
class Target:
    """What a true finding of one fault names."""

    edited: frozenset[Line]
    fed: frozenset[Chain]

    def exact(self, line: Chain) -> bool:
        """Whether a line is one of the statements that the fault changes, or called the helper of one."""
        return any(line == chain[-len(line) :] for chain in self.fed) if line else False

    def pins(self, line: Chain) -> bool:
        """Whether a line, or one that called it, was edited; or it is `exact`."""
        return bool(self.edited & set(line)) or self.exact(line)


def targets(folders: Sequence[Path], changed: Sequence[frozenset[Chain]]) -> tuple[Target, ...]:
    """What a true finding names, for each fault: from the copy that has it alone, and what it feeds there."""
    return tuple(
        Target(frozenset(edited(folder)), chains) for folder, chains in zip(folders, changed, strict=True)
    )


def truth_of(hint: HintSaid, line: Chain, right: Program, mended: Program) -> bool:
    """Whether a hint is true: with its value in place, the operand is as in the right program in every round.

    Args:
        hint: the hint.
        line: the line of its finding.
        right: the program without the edits.
        mended: the program of the copy in which the text is replaced by the right value.
    """
    compared, places = False, (line[0], (hint.file, hint.line))  # a hint may be in the loop around the line
    for old, new in pairs(right, mended):
        if old is None or new is None:
            continue
        if chain_of(new.statement.position)[0] in places and hint.operand in new.operands:
            before, after = old.values(hint.operand), new.values(hint.operand)
            if any(before[rounds] != after[rounds] for rounds in before.keys() & after.keys()):
                return False
            compared = True
    return compared


def mended(folder: Path, hint: HintSaid) -> bool:
    """Write a hint's value into a copy in place of its text; False if the text is not in that line."""
    path = folder / "kernels" / hint.file
    lines = path.read_text().splitlines(keepends=True)
    value = hint.right if isinstance(hint.right, str) else repr(hint.right)
    where = re.compile(rf"(?<![\w.]){re.escape(hint.text)}(?!\w)")
    lines[hint.line - 1], count = where.subn(value, lines[hint.line - 1], count=1)
    path.write_text("".join(lines))
    return count == 1
