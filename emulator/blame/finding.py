"""What is found: lines to blame, and numbers that would mend them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from emulator.errors import callers
from emulator.operands import Position


@dataclass(frozen=True)
class Hint:
    """A number of the source that is wrong.

    Attributes:
        operand: the operand of the operator, or `start` or `stop` of a loop.
        text: what the source says for it, such as `band_mid_start`.
        position: where this text stands.
        value: what it is now.
        right: the one value that is right in every round.
        origin: the assignment that gave the name its value, in words with its line; empty if it has none.
    """

    operand: str
    text: str
    position: Position
    value: Any
    right: Any
    origin: str = ""

    def __str__(self) -> str:
        came = f" ({self.origin})" if self.origin else ""
        return (
            f"{self.text}, {self.position}, is {self.value}{came}; {self.right} would be right in every round"
        )


@dataclass(frozen=True)
class Finding:
    """One cause of wrong elements.

    Attributes:
        position: the line, with its callers.
        operator: such as `tile.fixpipe_requant`; `for` where a loop is too short.
        rounds: the first rounds in which it is wrong.
        tensor: the tensor of the definition whose computation it is part of.
        words: what is wrong, without the place and the hint.
        elements: elements that are wrong there.
        others: further lines that would explain it as well.
        hint: the number that would mend it.
    """

    position: Position
    operator: str
    rounds: Mapping[str, int]
    tensor: str
    words: str
    elements: int
    others: tuple[Position, ...] = ()
    hint: Hint | None = None

    def __str__(self) -> str:
        """The finding in one line."""
        where = [self.operator.rpartition(".")[2], chain(self.position)]
        where += [f"{name} {index}" for name, index in self.rounds.items()]
        hint = f"; {self.hint}" if self.hint else ""
        return f"{', '.join(where)}: {self.words}{hint}"


def chain(position: Position) -> str:
    """A line and those that called it, the innermost first."""
    return " < ".join(map(str, (position, *callers(position))))
