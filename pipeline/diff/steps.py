"""What a hypothesis says, and which step it blames."""

from __future__ import annotations

import re

from golden.vreq8 import VARIANTS
from workloads.faults import FAULTS, OF_PROGRAM

_DEFAULT = VARIANTS[0]

_NUMBER = re.compile(r"\b(conv|requant|requantisation) ?1\b")
"""The number of the first convolution, as steps and words have it."""


def unnumbered(text: str) -> str:
    """A step, or words, of a workload whose only convolution has no number."""
    return _NUMBER.sub(r"\1", text)


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


def of_program(name: str) -> bool:
    """Whether what a hypothesis says would be a mistake of the program, which a proof of it rules out."""
    return name in FAULTS and not OF_PROGRAM.isdisjoint((name, FAULTS[name].family))
