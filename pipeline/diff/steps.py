"""Finds the step at fault: from the hypothesis that explains it, or from which stages are wrong and right.

A stage goes through some parts of the convolutions and of what lies between them. The suspects are the parts
that every wrong stage goes through, and no right stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from golden.vreq8 import VARIANTS
from workloads.faults import FAULTS, STEPS
from workloads.form import Convolution, Form, Loading

_DEFAULT = VARIANTS[0]


def step_of(name: str) -> str:
    """The step that a hypothesis blames; two steps if the fault is in both convolutions."""
    if name in FAULTS:
        return FAULTS[name].step
    if name.startswith(f"{_DEFAULT}-"):
        return f"requant{name[-1]}"
    return f"{step_of(f'{name}-1')} and {step_of(f'{name}-2')}"


def words_for(name: str) -> str:
    """What a hypothesis says, in words."""
    if name in FAULTS:
        return FAULTS[name].what
    if name.startswith(_DEFAULT):
        return "requantised as the default says, not as the platform declares"
    return f"in both convolutions: {FAULTS[f'{name}-1'].what.partition(': ')[2]}"


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


_LOADED: Mapping[Loading, Sequence[Part]] = {
    Loading.PLAIN: (Part("plain load", "load"), Part("layout", "layout")),
    Loading.GATHERED: (Part("gather", "load"), Part("layout", "layout"), Part("address", "address")),
}
"""What a load of a workload's input goes through, unless the host packed it."""


def parts_of(form: Form, *, handed_over: bool) -> StageParts:
    """The parts that a program of this form goes through.

    Args:
        form: of the program, or of several of which each reads what the one before gave.
        handed_over: whether the rows that are loaded are another program's output, not the golden's.
    """
    parts = frozenset(part for one in form.convolutions for part in _of_convolution(one, form, handed_over))
    return StageParts(parts, form.last.whole)


def _of_convolution(one: Convolution, form: Form, handed_over: bool) -> Iterator[Part]:
    for own in (f"conv{one.number}", f"requant{one.number}"):
        yield Part(own, own)
    yield from _LOADED.get(one.loading, ())
    if one.loading is Loading.IN_L1 or (one.loading is Loading.ROWS and handed_over):
        yield Part(f"hand-over of {one.source}", "hand-over")
        yield Part(f"{one.source}: {one.loading.value}", "hand-over")
    following = form.convolution(one.number + 1)
    if one.whole and (following is None or following.loading is not Loading.IN_L1):
        yield Part(f"store of {one.layer.output}", "store")


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
