"""Proves that a program moves every element to where a definition says, for all inputs alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from emulator.coordinates import Coordinates
from emulator.engine import walk_program
from emulator.flaws import FlawError
from emulator.program import Program
from emulator.soc import Soc
from emulator.terms import FLAWED, NEVER, Ids, Numbering


@dataclass(frozen=True)
class Proof:
    """How many elements of the outputs were checked, how many are not as defined, and the first in words."""

    checked: int
    wrong: int = 0
    words: str = ""


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
    wrong = {name: np.flatnonzero(outputs[name] != ids) for name, ids in wanted.items()}
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
    return Proof(checked, count, ": ".join(words))
