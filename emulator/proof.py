"""Proves that a program moves every element to where a definition says, for all inputs alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from emulator.blame import Finding, blame
from emulator.coordinates import Coordinates
from emulator.engine import walk_program
from emulator.flaws import FlawError
from emulator.program import Program
from emulator.soc import Soc
from emulator.terms import FLAWED, NEVER, Ids, Numbering


@dataclass(frozen=True)
class Proof:
    """How many elements of the outputs were checked, how many are not as defined, and the first in words.

    `findings` are the lines to blame, the one that explains most first. `places` has a mask for each output
    that says which of its elements are wrong; it is empty if none is.
    """

    checked: int
    wrong: int = 0
    words: str = ""
    findings: tuple[Finding, ...] = ()
    places: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict, compare=False, repr=False)


def prove(
    program: Program, soc: Soc, numbering: Numbering, given: Mapping[str, Ids], wanted: Mapping[str, Ids]
) -> Proof:
    """Walk a program on coordinates and compare its outputs with the elements that they must be.

    Args:
        program: the typed program, without injected faults.
        soc: the soc whose capacities apply.
        numbering: the ids of the workload's elements.
        given: the ids of the inputs of `main`, by parameter.
        wanted: the ids that the outputs must have, by parameter.

    Raises:
        CapacityError, AccessError: as `emulator.engine.compile_program`.
    """
    outputs = {name: np.full(ids.shape, NEVER, numbering.dtype) for name, ids in wanted.items()}
    walk_program(program, soc, {**given, **outputs}, Coordinates(numbering))
    checked = sum(ids.size for ids in wanted.values())
    masks = {name: outputs[name] != ids for name, ids in wanted.items()}
    wrong = {name: np.flatnonzero(mask) for name, mask in masks.items()}
    count = sum(places.size for places in wrong.values())
    if not count:
        return Proof(checked)
    output = next(name for name, places in wrong.items() if places.size)
    place = wrong[output][0]
    index = ", ".join(map(str, np.unravel_index(place, wanted[output].shape)))
    must, has = (numbering.name(int(ids.reshape(-1)[place])) for ids in (wanted[output], outputs[output]))
    found = int(outputs[output].reshape(-1)[place])
    first = f"{output}[{index}]"
    holds = f" holds {has}," if found > FLAWED else ""
    words = [f"{first}, which{holds} must hold {must}" if holds or must != first else first]
    while found <= FLAWED:
        try:
            walk_program(program, soc, {**given, **outputs}, Coordinates(numbering, found))
            break
        except FlawError as flaw:
            words.append(str(flaw))
            found = flaw.source
    findings: tuple[Finding, ...] = ()
    try:
        findings = blame(program, soc, numbering, given, wanted)
    except Exception as error:  # no failure here may hide that the program is wrong
        words.append(f"no line is blamed, the search failed: {type(error).__name__}: {error}")
    return Proof(checked, count, ": ".join(words), findings, masks)
