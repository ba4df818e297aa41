"""Finds the cause of a mismatch: the known faults that predict the actual output.

Each hypothesis predicts the whole output from the inputs. All of them are tried at a few positions, the best
at more, and the few that are left on every element. Only these last are reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from golden.specs import Int8
from pipeline.diff.evidence import Evidence
from pipeline.diff.hypotheses.base import RIGHT, Hypothesis, View
from pipeline.diff.hypotheses.layers import Ints
from pipeline.diff.hypotheses.model import model_of
from pipeline.diff.hypotheses.registry import hypotheses
from pipeline.diff.steps import of_program, step_of, unnumbered, words_for
from pipeline.ground.results import PROGRAM_RIGHT, UNEXPLAINED
from pipeline.ground.words import counted

EXPLAINS = 0.9
"""Least score of a hypothesis that is reported. A score is the share of elements wrong exactly as predicted
among those that are wrong or predicted wrong; 1 means that the prediction is the output, byte for byte."""

_SCREENS = ((24, 24), (128, 8))
"""Positions of a screening, and how many hypotheses stay: cheap ones for all, more for the rest."""

_GOLDEN_RATIO = 0.6180339887

_PLAUSIBLE = 0.5
"""Least score at a few positions of a hypothesis that is tried further."""

_SECONDS = 30.0
"""Seconds after which no further hypothesis is tried, so that the job has time left. They are processor time:
the answer must not depend on how busy the machine is."""

_PREDICTED = "the plan itself predicts this output, without a fault of the kernel"


@dataclass(frozen=True)
class Finding:
    """Hypotheses that predict one and the same output, and how well it matches the actual output.

    Attributes:
        hypotheses: their names, each once; the likeliest first.
        words: what each of them says.
        spelt: all of them with what a name leaves open, such as the K step.
        explained: wrong elements that are wrong exactly as predicted.
        mismatches: wrong elements.
        false_alarms: elements that are right and predicted wrong.
        numbered: whether the workload's convolutions have numbers, as there are several.
    """

    hypotheses: tuple[str, ...]
    words: tuple[str, ...]
    spelt: tuple[str, ...]
    explained: int
    mismatches: int
    false_alarms: int
    numbered: bool

    @property
    def step(self) -> str:
        """The step that the likeliest hypothesis blames."""
        step = step_of(self.hypotheses[0])
        return step if self.numbered else unnumbered(step)

    @property
    def score(self) -> float:
        """See `EXPLAINS`."""
        return self.explained / max(1, self.mismatches + self.false_alarms)

    @property
    def line(self) -> str:
        """The cause in one line, the same for every output that has it."""
        return f"{' or '.join(self.hypotheses)}: {self.words[0]}; step {self.step}"

    @property
    def account(self) -> str:
        """What the finding explains, in one line."""
        mismatches = counted(self.mismatches, "mismatch", "mismatches")
        alarms = f", but predicts {self.false_alarms} more where all is right" if self.false_alarms else ""
        return f"{' or '.join(self.spelt)}: explains {self.explained} of {mismatches}{alarms}"


@dataclass(frozen=True)
class Diagnosis:
    """What explains a mismatch.

    Attributes:
        findings: the best first; empty where no known fault is the cause, or nothing is wrong.
        line: the cause in a line, or that it is unknown; empty where nothing is wrong.
        text: the whole account, a finding a line; empty where nothing is wrong.
        blamed: what of a program is to blame (see `BLAMED`), if that is the cause.
    """

    findings: tuple[Finding, ...] = ()
    line: str = ""
    text: str = ""
    blamed: str = ""

    @property
    def tells(self) -> tuple[bool, bool, bool]:
        """Whether it blames a program, knows a fault, says that the programs are right; the surest first."""
        return bool(self.blamed), bool(self.findings), self.line.startswith(PROGRAM_RIGHT)


def diagnose(
    evidence: Evidence,
    *,
    elsewhere: str = "",
    seconds: float = _SECONDS,
    clock: Callable[[], float] = time.process_time,
) -> Diagnosis:
    """Find the known faults that explain an output.

    Args:
        evidence: the output and what it was made from.
        elsewhere: if the program is proved, what is said to be wrong in its place. A fault of the program is
            then no cause, only what the output looks like.
        seconds: after so many, hypotheses not yet tried are left out, and the text says so.
        clock: seconds that pass; by default those that this process computes.

    Returns:
        The findings, each confirmed on every element. An output that is right, or that cannot be compared
        (another shape), has none.
    """
    actual, expected = evidence.actual, evidence.expected
    unknown = elsewhere or UNEXPLAINED
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return _only(f"{unknown}the output does not have the shape and dtype of the golden")
    wrong = evidence.wrong
    if not wrong.any():
        return Diagnosis()
    if evidence.form is None:
        why = "this program has no form (docs/workloads.md), so that no known fault was tried"
        return _only(f"{unknown}{why}")
    model = model_of(evidence, evidence.form)
    known = hypotheses(model)
    trials = _Trials(clock, clock() + seconds)
    # In every convolution: what a wrong plan makes of the first is what the second reads.
    no_fault = replace(RIGHT, layers=tuple(layer.number for layer in model.layers))
    left: Sequence[Hypothesis] = (no_fault, *known)
    for count, keep in _SCREENS:
        tried = trials.at(View(model, _sample(wrong, count)), left)
        # All that predict everything here stay, and beside them only those that nearly do.
        least = EXPLAINS if tried and tried[0].alone.score == 1 else _PLAUSIBLE
        left = [
            trial.hypothesis
            for rank, trial in enumerate(tried)
            if trial.alone.score == 1 or (rank < keep and trial.alone.score >= least)
        ]
    everywhere = trials.at(View(model, np.arange(len(wrong))), left)
    explaining = [trial for trial in everywhere if trial.alone.score >= EXPLAINS]
    if not explaining:
        return _only(unknown + (trials.late or f"none of {len(known)} known faults predicts this output"))
    if any(trial.hypothesis is no_fault for trial in explaining):
        if elsewhere:
            return _only(f"{PROGRAM_RIGHT}{_PREDICTED}: the golden or the form is wrong")
        return _only(f"{UNEXPLAINED}{_PREDICTED}: the plan, the form or the golden is wrong")
    findings = _findings(explaining)
    told = (f"  {rank}. {finding.account}" for rank, finding in enumerate(findings, 1))
    heading = f"diagnosis, compared with all {actual.size} elements{trials.late and '; '}{trials.late}:"
    text = "\n".join([heading, *told])
    if not elsewhere:
        return Diagnosis(findings, _line(findings, trials.late), text)
    claimed = tuple(filter(None, map(_claimed, findings)))
    if not _claimed(findings[0]):
        return Diagnosis((), f"{elsewhere}the output looks like {_line(findings, trials.late)}", text)
    return Diagnosis(claimed, _line(claimed, trials.late), text)


def _claimed(finding: Finding) -> Finding | None:
    """The finding without faults of the program; None if nothing is left of it."""
    left = [number for number, name in enumerate(finding.hypotheses) if not of_program(name)]
    names, words = ([each[number] for number in left] for each in (finding.hypotheses, finding.words))
    return replace(finding, hypotheses=tuple(names), words=tuple(words)) if left else None


def _line(findings: Sequence[Finding], late: str) -> str:
    """The cause in a line; certain only if it gives the whole output and all known faults were tried."""
    first, *others = findings
    if first.score == 1:
        return f"most likely {first.line}" if late else first.line
    near = [name for finding in others for name in finding.hypotheses]
    return f"most likely {first.line}" + (f"; nearly as likely: {', '.join(near)}" if near else "")


def _only(line: str) -> Diagnosis:
    """A diagnosis without a finding."""
    return Diagnosis(line=line, text=line)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A hypothesis compared with the output at some positions, and what it would be as a finding alone."""

    hypothesis: Hypothesis
    predicted: Int8
    alone: Finding


@dataclass
class _Trials:
    """Compares predictions with the output until time is up."""

    clock: Callable[[], float]
    until: float
    late: str = ""

    def at(self, view: View, candidates: Sequence[Hypothesis]) -> list[_Trial]:
        """Try hypotheses at a view's positions, the best first; equally good ones stay in order."""
        trials = []
        for number, hypothesis in enumerate(candidates):
            if self.clock() > self.until:
                left = counted(len(candidates) - number, "known fault")
                self.late = f"time ran out with {left} not tried to the end"
                break
            trials.append(_trial(hypothesis, view))
        return sorted(trials, key=lambda trial: -trial.alone.score)


def _trial(hypothesis: Hypothesis, view: View) -> _Trial:
    evidence, predicted = view.model.evidence, hypothesis.predict(view)
    words, numbered = hypothesis.what or words_for(hypothesis.name), view.model.form.chain[0].suffix != ""
    actual, expected = evidence.actual[view.positions], evidence.expected[view.positions]
    wrong = actual != expected
    alone = Finding(
        hypotheses=(hypothesis.name,),
        words=(words if numbered else unnumbered(words),),
        spelt=(hypothesis.spelt,),
        explained=int(np.count_nonzero(wrong & (predicted == actual))),
        mismatches=int(np.count_nonzero(wrong)),
        false_alarms=int(np.count_nonzero(~wrong & (predicted != expected))),
        numbered=numbered,
    )
    return _Trial(hypothesis, predicted, alone)


def _findings(trials: Sequence[_Trial]) -> tuple[Finding, ...]:
    """One finding for all hypotheses that predict the same output."""
    classes: dict[bytes, list[_Trial]] = {}
    for trial in trials:
        classes.setdefault(trial.predicted.tobytes(), []).append(trial)
    return tuple(map(_together, classes.values()))


def _together(alike: Sequence[_Trial]) -> Finding:
    names = dict.fromkeys(trial.hypothesis.name for trial in alike)
    # A fault that predicts the same in one convolution as in both is named for that one only.
    own = tuple(name for name in names if f"{name}-1" not in names and f"{name}-2" not in names)
    spelt = tuple(trial.hypothesis.spelt for trial in alike if trial.hypothesis.name in own)
    words = {trial.hypothesis.name: trial.alone.words[0] for trial in reversed(alike)}
    return replace(alike[0].alone, hypotheses=own, words=tuple(map(words.__getitem__, own)), spelt=spelt)


def _sample(wrong: npt.NDArray[np.bool_], count: int) -> Ints:
    """Positions to try hypotheses at: three in four with mismatches, the others without, both spread out."""
    with_mismatch = wrong.any(axis=1)
    bad, good = np.flatnonzero(with_mismatch), np.flatnonzero(~with_mismatch)
    return np.sort(np.concatenate([_spread(bad, count * 3 // 4), _spread(good, count // 4)]))


def _spread(positions: Ints, count: int) -> Ints:
    """`count` of the positions, evenly but not in step with rows or tiles; all if there are fewer."""
    if len(positions) <= count:
        return positions
    number = np.arange(count)
    within = number * _GOLDEN_RATIO % 1
    return positions[((number + within) * len(positions) / count).astype(np.int64)]
