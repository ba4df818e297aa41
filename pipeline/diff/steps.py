"""Finds the step at fault from the stages that are wrong and those that are right.

A stage goes through some parts of the convolutions and of what lies between them. The suspects are the parts
that every wrong stage goes through, and no right stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pipeline.diff.causes import step_of
from workloads.faults import STEPS
from workloads.form import Convolution, Form, Loading


@dataclass(frozen=True)
class Part:
    """A part of the way from the inputs to an output, and the step that is at fault where it is wrong."""

    name: str
    step: str


@dataclass(frozen=True)
class StageParts:
    """The parts that a stage goes through; `whole` is False if it computes a first tile only."""

    parts: frozenset[Part]
    whole: bool


def parts_of(form: Form, *, handed_over: bool) -> StageParts:
    """The parts that a program of this form goes through.

    Args:
        form: of the program, or of several of which each reads what the one before gave.
        handed_over: whether the rows that are loaded are another program's output, not the golden's.
    """
    parts = [part for one in form.convolutions for part in _of_convolution(one, handed_over)]
    parts += [_store(one) for one in form.convolutions if one.whole and _is_stored(one, form)]
    return StageParts(frozenset(parts), form.last.whole)


def _of_convolution(one: Convolution, handed_over: bool) -> list[Part]:
    number = one.number
    own = [Part(f"conv{number}", f"conv{number}"), Part(f"requant{number}", f"requant{number}")]
    hand_over = Part(f"hand-over of {one.source}", "hand-over")
    if one.loading is Loading.PLAIN:
        return [*own, Part("plain load", "load"), Part("layout", "layout")]
    if one.loading is Loading.GATHERED:
        return [*own, Part("gather", "load"), Part("layout", "layout"), Part("address", "address")]
    if one.loading is Loading.IN_L1:
        return [*own, hand_over, Part(f"{one.source} in L1", "hand-over")]
    if one.loading is Loading.ROWS and handed_over:
        return [*own, hand_over, Part(f"{one.source} in GM", "hand-over")]
    return own  # packed by the host, or the golden's


def _is_stored(one: Convolution, form: Form) -> bool:
    """Whether a convolution's output goes to GM: it does unless the next convolution reads it in L1."""
    following = form.convolution(one.number + 1)
    return following is None or following.loading is not Loading.IN_L1


def _store(one: Convolution) -> Part:
    return Part(f"store of {one.layer.output}", "store")


def wrong_side(clean: Mapping[str, bool], cause: str, stages: Mapping[str, StageParts]) -> str:
    """The step at fault, in a line; empty if no stage is wrong, or if the step cannot be told.

    Args:
        clean: by stage, whether its output is right; stages that gave none are left out.
        cause: the hypothesis that explains the first wrong stage; if empty, the stages are compared.
        stages: what each stage goes through, in the order in which they ran.
    """
    wrong = [stage for stage in stages if clean.get(stage) is False]
    right = [stage for stage in stages if clean.get(stage) is True]
    if not wrong:
        return ""
    if cause:
        return f"{step_of(cause)} (as the diagnosis says)"
    if len(wrong + right) == 1:
        return ""  # with one stage only, no part can be ruled out
    told = f"wrong: {', '.join(wrong)}; right: {', '.join(right) or 'none'}"
    suspects = _suspects([stages[stage] for stage in wrong], [stages[stage] for stage in right])
    return f"{' or '.join(suspects)} ({told})"


def _suspects(wrong: Sequence[StageParts], right: Sequence[StageParts]) -> list[str]:
    common = reduce(frozenset.intersection, (stage.parts for stage in wrong))
    # A right first tile clears its parts in this tile only: if nothing is left, they are in doubt again.
    whole = [stage for stage in right if stage.whole]
    for clearing in (right, whole, []):
        if parts := common.difference(*(stage.parts for stage in clearing)):
            break
    steps = {part.step for part in parts}
    return [step for step in STEPS if step in steps]
