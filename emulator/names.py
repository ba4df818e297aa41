"""What the names of a function hold while its source is read, and which of them are old.

A tile may have several names: a helper's parameter, a helper's result, what a branch or a loop leaves. All of
them may be read. Once the tile is written in place under one of them, the others are old: they seem to hold
what was there before, do not, and must not be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from emulator.operands import Position
from emulator.program import TensorType, TileType
from emulator.sources import Text

Made = frozenset[tuple[Position, int]]
"""The assignments, by line and column, one of which made a tile; several where branches or rounds meet."""


class Change(Enum):
    """What an assignment does: it writes the name's tile in place, or gives the name another tile."""

    WRITTEN = "written"
    REPLACED = "replaced"


@dataclass(frozen=True)
class Renewal:
    """Why a name is old: the line that wrote or replaced its tile, and the name that was used there."""

    name: str
    position: Position
    change: Change = Change.WRITTEN


@dataclass(frozen=True)
class Held:
    """A tile or tensor in scope: the program's name for it, its type, and which parameter a tensor is.

    Names whose `made` meet may hold one tile. A name must not be used if it is `old`. `passed` is the
    argument that a helper's parameter stands for.
    """

    name: str
    type: TileType | TensorType
    parameter: str
    made: Made
    old: Renewal | None = None
    passed: Text | None = field(default=None, compare=False, repr=False)

    def like(self, other: Held) -> bool:
        """Whether both are one variable of the program."""
        return (self.name, self.type, self.parameter) == (other.name, other.type, other.parameter)

    def why_old(self, name: str) -> str:
        """What a refusal says of this name's use; empty if it may be used."""
        if self.old is None:
            return ""
        kind = "tile" if isinstance(self.type, TileType) else "tensor"
        where, now = self.old.position, self.old.name
        if self.old.change is Change.REPLACED:
            return (
                f"{name} is another name of {now}, to which {where} assigns another {kind}: "
                f"assign it to a name of its own there"
            )
        return (
            f"{name} is an old name of the {kind} that {where} writes in place as {now}: "
            f"assign to the same name there, or use {now} here"
        )


def assign(names: dict[str, Held], name: str, value: Held, renewal: Renewal) -> None:
    """Give a name its value; other names of a tile written in place, or of a tile replaced, become old."""
    for other, held in names.items():
        same = held.made & value.made if renewal.change is Change.WRITTEN else held.name == value.name
        if same and other != name and held.old is None:
            names[other] = replace(held, old=renewal)
    names[name] = value


def joined(one: Mapping[str, Held], other: Mapping[str, Held]) -> dict[str, Held]:
    """The names that two ways to one place both leave, each with what it may hold."""
    return {
        name: _either(held, other[name])
        for name, held in one.items()
        if name in other and held.like(other[name])
    }


def _either(one: Held, other: Held) -> Held:
    if one is other:
        return one
    passed = one.passed if one.passed is other.passed else None
    return replace(one, made=one.made | other.made, old=one.old or other.old, passed=passed)


def updated(before: Mapping[str, Held], after: Mapping[str, Held]) -> dict[str, Held]:
    """The names of `before`, as what certainly ran leaves them."""
    return {
        name: after[name] if name in after and held.like(after[name]) else held
        for name, held in before.items()
    }
