"""Which line of a program is to blame if its proof failed, and what is wrong there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from emulator.coordinates import Coordinates
from emulator.engine import walk_program
from emulator.errors import callers
from emulator.flaws import FlawError
from emulator.program import Position, Program
from emulator.soc import Soc
from emulator.sums import Step
from emulator.terms import FLAWED, NEVER, Ids, Numbering

_SUM = re.compile(r"the sum of (\w+)\[")


@dataclass(frozen=True)
class Hint:
    """A number that would mend it: an operand's text in the source, its value, and the right one if any."""

    operand: str
    text: str
    position: Position
    value: object
    right: object


@dataclass(frozen=True)
class Finding:
    """A line that is wrong.

    Attributes:
        position: the line, with the lines that called the helper it stands in.
        operator: such as `tile.fixpipe_requant`; `for` where work is missing.
        rounds: the first rounds of the loops around it in which it is wrong.
        tensor: the tensor of the definition whose stage it is in.
        words: what is wrong, in one line that begins with operator, line and rounds.
        elements: wrong elements of outputs that it explains.
        others: further lines that would explain it as well.
        hint: what would mend it, if that is known.
    """

    position: Position
    operator: str
    rounds: Mapping[str, int]
    tensor: str
    words: str
    elements: int
    others: tuple[Position, ...] = ()
    hint: Hint | None = None


def chain(position: Position) -> str:
    """A line and the lines that called the helpers around it, the innermost first."""
    return " < ".join(map(str, (position, *callers(position))))


def blame(
    program: Program, soc: Soc, numbering: Numbering, given: Mapping[str, Ids], wanted: Mapping[str, Ids]
) -> tuple[Finding, ...]:
    """The lines that are to blame; arguments as of `emulator.proof.prove`, which has failed.

    So far it is the first cause of the first wrong element, if that element is a wrong value.
    """
    outputs = {name: np.full(ids.shape, NEVER, numbering.dtype) for name, ids in wanted.items()}
    walk_program(program, soc, {**given, **outputs}, Coordinates(numbering))
    wrong = {name: np.flatnonzero(outputs[name] != ids) for name, ids in wanted.items()}
    output = next(name for name, places in wrong.items() if places.size)
    place = wrong[output][0]
    found = int(outputs[output].reshape(-1)[place])
    tensor = numbering.name(int(wanted[output].reshape(-1)[place])).partition("[")[0]
    cause: FlawError | None = None
    while found <= FLAWED:
        try:
            walk_program(program, soc, {**given, **outputs}, Coordinates(numbering, found))
            break
        except FlawError as flaw:
            cause, found = flaw, flaw.source
    if cause is None:
        return ()
    said = _SUM.search(cause.words)
    tensor = said[1] if said else tensor
    position, operator = cause.step.call.position, cause.step.call.operator
    words = f"{_place(cause.step)}: {cause.words}"
    elements = sum(places.size for places in wrong.values())
    return (Finding(position, operator, cause.step.rounds, tensor, words, elements),)


def _place(step: Step) -> str:
    rounds = [f"{name} {index}" for name, index in step.rounds.items()]
    operator = step.call.operator.rpartition(".")[2]
    return ", ".join([operator, chain(step.call.position), *rounds])
