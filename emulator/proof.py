"""Proves that a program moves every element to where a definition says, for all inputs alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from emulator.blame import NOTHING, Finding, Task, blame
from emulator.errors import AccessError
from emulator.terms import FLAWED


@dataclass(frozen=True)
class Proof:
    """Whether a program is right.

    Attributes:
        checked: elements of the outputs that must be something.
        wrong: how many of them are not as defined; all of them if the program is refused.
        words: what the first wrong one must hold, or why the program is refused; empty if it is right.
        findings: the lines to blame, the one that explains most first.
        places: which elements of each output are wrong, a mask in its shape; empty if that is not known.
    """

    checked: int
    wrong: int = 0
    words: str = ""
    findings: tuple[Finding, ...] = ()
    places: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict, compare=False, repr=False)


def prove(task: Task) -> Proof:
    """Walk a program on coordinates and compare its outputs with the elements that they must be.

    A program that reads or writes what it must not, or leaves an output partly unwritten, is refuted too.

    Args:
        task: the program, and what it must do.

    Raises:
        CapacityError: a memory is over its capacity.
    """
    numbering, wanted = task.numbering, task.wanted
    checked = sum(int(np.count_nonzero(ids != NOTHING)) for ids in wanted.values())
    try:
        outputs = task.walked()
    except AccessError as error:
        return _blamed(Proof(checked, checked, str(error)), task)
    places = task.differing(outputs)
    count = sum(int(mask.sum()) for mask in places.values())
    if not count:
        return Proof(checked)
    output = next(name for name, mask in places.items() if mask.any())
    place = int(places[output].argmax())
    must, has = (int(ids.reshape(-1)[place]) for ids in (wanted[output], outputs[output]))
    index = ", ".join(map(str, np.unravel_index(place, wanted[output].shape)))
    first, belongs = f"{output}[{index}]", numbering.name(must)
    holds = f" holds {numbering.name(has)}," if has > FLAWED else ""
    words = f"{first}, which{holds} must hold {belongs}" if holds or belongs != first else first
    return _blamed(Proof(checked, count, words, places=places), task)


def _blamed(proof: Proof, task: Task) -> Proof:
    """The proof with the lines to blame; a search that fails must not hide that the program is wrong."""
    try:
        return replace(proof, findings=blame(task))
    except Exception as error:
        failed = f"the search for the line failed: {type(error).__name__}: {error}"
        return replace(proof, words=f"{proof.words}; {failed}")
