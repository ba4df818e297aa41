"""What is true of what was said of a mutant."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from benchmarks.mutants.judge import (
    Outcome,
    Said,
    Target,
    golden_of,
    mended,
    outcomes,
    programs_of,
    targets,
    truth_of,
)
from benchmarks.mutants.lines import fed
from benchmarks.mutants.mutant import Case, CatalogueError, Mutant, copied
from benchmarks.mutants.processes import ORIGINAL, in_copy
from emulator.program import Program
from golden.specs import Array


@dataclass(frozen=True)
class Judged:
    """A program of a mutant: what became of it, and what is true of the findings.

    Attributes:
        outcome: what became of it.
        pinned: whether each fault has a finding one of whose lines, or a caller of it, was edited or is fed.
        exact: the same, without counting that a caller was edited: the statement itself has changed.
        misleading: the findings that name lines, none of them that of a fault, and those whose hint is false.
        hints: for each hint, whether it is true.
    """

    outcome: Outcome
    pinned: bool = False
    exact: bool = False
    misleading: tuple[Said, ...] = ()
    hints: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """All programs of a mutant that it changes; `mistakes` are those of the catalogue."""

    name: str
    equivalent: bool
    faults: int
    programs: Mapping[str, Judged] = field(default_factory=dict)
    mistakes: tuple[str, ...] = ()

    @property
    def refuted(self) -> Sequence[Judged]:
        """The programs that were walked and are wrong."""
        return [judged for judged in self.programs.values() if not judged.outcome.refused]

    @property
    def detected(self) -> bool:
        """Whether no program that it changes was proved."""
        return bool(self.programs) and all(judged.outcome.detected for judged in self.programs.values())

    @property
    def refused(self) -> bool:
        """Whether all programs that it makes wrong are refused, not refuted."""
        return not self.refuted

    @property
    def pinned(self) -> bool:
        """Whether the right line is named in each of its programs that can be walked."""
        return all(judged.pinned for judged in self.refuted or self.programs.values())

    @property
    def exact(self) -> bool:
        """Whether the statement itself is named in each of them."""
        return all(judged.exact for judged in self.refuted or self.programs.values())

    @property
    def misleading(self) -> bool:
        """Whether a finding of one of them is wrong."""
        return any(judged.misleading for judged in self.refuted)

    @property
    def word(self) -> str:
        """The verdict in a word."""
        if self.mistakes:
            return "CATALOGUE"
        if any(judged.outcome.detected and not judged.outcome.changed for judged in self.programs.values()):
            return "UNPROVED"
        if self.equivalent:
            return "proved"
        if not self.detected:
            return "UNDETECTED"
        if self.refused:
            return "refused"
        if self.misleading:
            return "misleading"
        return "pinned" if self.pinned else "unpinned"

    @property
    def good(self) -> bool:
        """Whether the catalogue is right, a fault was detected, an equivalent mutant was proved."""
        return not self.word.isupper()


@lru_cache
def _right(case: Case) -> tuple[Mapping[str, Program], Mapping[str, Array]]:
    return in_copy(ORIGINAL, programs_of, case), golden_of(case)


def verdict_of(mutant: Mutant) -> Verdict:
    """Judge a mutant in copies of its own."""
    try:
        return _verdict_of(mutant)
    except (CatalogueError, TimeoutError) as error:
        return Verdict(mutant.name, mutant.equivalent, len(mutant.faults), mistakes=(str(error),))


def _verdict_of(mutant: Mutant) -> Verdict:
    right, arrays = _right(mutant.case)
    with tempfile.TemporaryDirectory(prefix="mutant-") as scratch:
        folder = copied(_new(scratch, "all"), mutant.edits)
        alone = [copied(_new(scratch, str(number)), edits) for number, edits in enumerate(mutant.faults)]
        found = in_copy(folder, outcomes, mutant, right, arrays)
        read = [in_copy(each, programs_of, mutant.case) for each in alone] if len(alone) > 1 else []
        programs = {}
        for name, outcome in found.items():
            if not (outcome.touched if mutant.equivalent else outcome.changed or outcome.detected):
                continue
            changed = [
                frozenset(fed(right[name], each[name])) if name in each else frozenset() for each in read
            ] or [outcome.fed]
            aims = targets(alone, changed)
            if len(aims) > 1:  # a fault of another program is none of this one's
                aims = tuple(aim for aim in aims if aim.fed) or aims
            programs[name] = _judged(Path(scratch), mutant, outcome, aims, right[name], name)
    return Verdict(mutant.name, mutant.equivalent, len(alone), programs, tuple(mistakes_of(mutant, found)))


def _new(scratch: str, name: str) -> Path:
    folder = Path(scratch) / name
    folder.mkdir()
    return folder


def _judged(
    scratch: Path, mutant: Mutant, outcome: Outcome, aims: Sequence[Target], right: Program, name: str
) -> Judged:
    hints = {
        said: _hint_is_true(scratch, mutant, said, right, name)
        for said in outcome.said
        if said.hint is not None
    }
    misleading = tuple(
        said
        for said in outcome.said
        if (said.line and not any(aim.pins(line) for aim in aims for line in (said.line, *said.others)))
        or not hints.get(said, True)
    )
    lines = [line for said in outcome.said for line in (said.line, *said.others)]
    return Judged(
        outcome,
        all(any(aim.pins(line) for line in lines) for aim in aims),
        all(any(aim.exact(line) for line in lines) for aim in aims),
        misleading,
        tuple(hints.values()),
    )


def _hint_is_true(scratch: Path, mutant: Mutant, said: Said, right: Program, name: str) -> bool:
    assert said.hint is not None
    if said.hint.right is None:  # "no single number": nothing to put in its place
        return True
    with tempfile.TemporaryDirectory(dir=scratch) as other:
        folder = copied(Path(other), mutant.edits)
        if not mended(folder, said.hint):
            return False
        program = in_copy(folder, programs_of, mutant.case).get(name)
    return program is not None and truth_of(said.hint, said.line, right, program)


def mistakes_of(mutant: Mutant, found: Mapping[str, Outcome]) -> list[str]:
    """What the catalogue says and the numbers do not, without asking the proof."""
    changed = {name for name, outcome in found.items() if outcome.changed}
    if mutant.equivalent:
        touched = {name for name, outcome in found.items() if outcome.touched}
        said = [f"it is equivalent, but changes the results of {name}" for name in sorted(changed)]
        said += [] if touched else ["it changes no program"]
        wrong = sorted(touched ^ set(mutant.programs))
        return said + [f"whether it changes {name} is declared wrongly" for name in wrong]
    wrong = sorted(changed ^ set(mutant.programs))
    return [
        f"{name} is declared wrong, but its results are right"
        if name in mutant.programs
        else f"{name} is wrong too"
        for name in wrong
    ]
