"""What can be wrong with an operator, and an operator that is at fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from emulator.elements import PADDING
from emulator.terms import Ids
from emulator.trace import Event, Leave

NOTHING = np.iinfo(np.int32).max
"""A demand for no element: what stands there does not matter."""


class Fault(Enum):
    """What is wrong with an operator."""

    PLACE = "place"
    """Its sums are all made, but belong elsewhere."""
    SOURCE = "source"
    """It takes other elements than are demanded."""
    PADDING = "padding"
    """Padding stands where an element is needed, or the reverse."""
    READERS = "readers"
    """It reads what is not demanded, at places that others read rightly, or it disagrees with itself."""
    TWICE = "twice"
    """It adds terms a second time."""
    MISSING_TERMS = "missing terms"
    """The sums lack terms after it."""
    DISCARDED = "discarded"
    """It begins sums anew although they were begun before."""
    BIAS = "bias"
    """It begins with a bias where none belongs, or the reverse."""
    TABLE = "table"
    """It requantises what stays as it is, or the reverse."""
    STALE = "stale"
    """It is the last to write in its round, and leaves places as an earlier round wrote them."""
    CUT = "cut"
    """It leaves rows of a tile out that are needed after the others."""
    UNWRITTEN = "unwritten"
    """Nothing writes what is needed after what it writes."""


@dataclass(frozen=True)
class Terms:
    """Terms that are missing or double: how many, and the ids of the first one's left and right element."""

    count: int
    left: int
    right: int


@dataclass(frozen=True, eq=False)
class Suspicion:
    """An operator that is at fault, in one round.

    Attributes:
        fault: what is wrong.
        event: the operator as it ran.
        place: the row and column, in what it wrote or of what it read, where it shows first.
        wanted: the id that belongs there.
        held: the id that is there.
        count: elements of which this is so.
        demand: what its target should hold, ids in the shape of the event; `NOTHING` where that is open.
        also: an event that would be at fault instead: what is seen does not tell them apart.
        right: where its rectangle should be, in its target if its place is wrong, else in its source; if it
            leaves rows out, how many rows and columns should be valid. None if no other number would do, or
            if the fault is none of a number.
        terms: the terms that are missing or double, if the fault is one of terms.
        of: the sum whose bias or table is wrong.
        leave: where sums that lack terms, or of which some rows are left out, leave their accumulator.
        writers: what wrote elsewhere in a buffer in which nothing writes some places.
    """

    fault: Fault
    event: Event
    place: tuple[int, int]
    wanted: int
    held: int
    count: int
    demand: Ids | None = None
    also: Event | None = None
    right: tuple[int, int] | None = None
    terms: Terms | None = None
    of: int = PADDING
    leave: Leave | None = None
    writers: Sequence[Event] = ()
