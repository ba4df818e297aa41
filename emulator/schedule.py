"""The actions of a walked program, to be done on data any number of times; the steps of a K loop are one.

What is cut from L1 into L0A or L0B is not copied until a product reads it, and products are not computed
until something else is done than to cut and to multiply. So the steps of a K loop end as one product of one
block. Its sums are the same, because they are exact, and no operator reads other bytes than step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.actions import Accumulate, Action, Cut, Multiply, Unfold
from emulator.elements import Elements
from emulator.image import Table, Window
from emulator.soc import Space
from emulator.tile import Array, Tile

Piece = Cut | Unfold

_KEPT = 8
"""Right operands that a workspace keeps at a time."""


@dataclass(frozen=True, eq=False)
class Right:
    """A right operand, pieces one under the other: the same object as long as the same bytes are meant."""

    pieces: Sequence[Piece]


class Workspace:
    """Operands in one dtype, in memory that is used again and again: to get new memory takes longer."""

    def __init__(self, tables: Mapping[tuple[object, ...], Table] = {}) -> None:
        """Begin with these tables, by what they are for."""
        self._left: Array = np.empty(0)
        self._rights: dict[Right, Array] = {}
        self._tables = dict(tables)

    @property
    def tables(self) -> Mapping[tuple[object, ...], Table]:
        """The tables of img2col that were made, by what they are for."""
        return self._tables

    def begin(self, dtype: npt.DTypeLike) -> None:
        """Keep no operand of the run before. The tables of img2col depend on no data and serve all runs."""
        self._left = np.empty(0, dtype)
        self._rights.clear()

    def left(self, pieces: Sequence[Piece]) -> Array:
        """The pieces side by side [rows, columns], until the next call."""
        rows, columns = pieces[0].rows, sum(piece.columns for piece in pieces)
        if self._left.size < rows * columns:
            self._left = np.empty(rows * columns, self._left.dtype)
        operand = self._left[: rows * columns].reshape(rows, columns)
        column = 0
        for piece in pieces:
            operand[:, column : column + piece.columns] = self._block(piece)
            column += piece.columns
        return operand

    def right(self, right: Right) -> Array:
        """The pieces one under the other."""
        known = self._rights.get(right)
        if known is None:
            if len(self._rights) == _KEPT:
                self._rights.clear()
            known = np.concatenate([self._block(piece) for piece in right.pieces]).astype(self._left.dtype)
            self._rights[right] = known
        return known

    def _block(self, piece: Piece) -> Array:
        return piece.block() if isinstance(piece, Cut) else piece.block(self.table(piece))

    def table(self, piece: Unfold) -> Table:
        """The table of a piece, which is made once."""
        key = (piece.source.resident.type.shape, *piece.positions)
        if key not in self._tables:
            self._tables[key] = piece.table()
        return self._tables[key]


class Products(NamedTuple):
    """Products that are added up, as one. `begins` says whether it begins the sums."""

    result: Tile
    begins: bool
    bias: Tile | None
    left: Sequence[Piece]
    right: Right
    workspace: Workspace

    def do(self, elements: Elements) -> None:
        """As elements do."""
        left, right = self.workspace.left(self.left), self.workspace.right(self.right)
        elements.add_up(self.result, left, right, self.bias, begins=self.begins)


@dataclass
class _Sums:
    """Products that are not computed yet."""

    begins: bool
    bias: Tile | None
    left: list[Piece] = field(default_factory=list)
    right: list[Piece] = field(default_factory=list)


class Schedule:
    """Actions in order."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._workspace = Workspace()
        self._cuts: dict[Tile, Piece] = {}
        self._sums: dict[Tile, _Sums] = {}
        self._meant: dict[tuple[object, ...], Right] = {}

    @property
    def content(self) -> tuple[list[Action], Workspace]:
        """All that doing it needs, once there is nothing to add, with the tables of img2col."""
        for action in self._actions:
            for piece in action.left if isinstance(action, Products) else ():
                if isinstance(piece, Unfold):
                    self._workspace.table(piece)
        return self._actions, self._workspace

    @classmethod
    def of(cls, actions: list[Action], workspace: Workspace) -> Schedule:
        """The schedule with this content."""
        schedule = cls()
        schedule._actions, schedule._workspace = actions, workspace
        return schedule

    def do(self, elements: Elements) -> None:
        """Do everything."""
        self._workspace.begin(elements.dtype)
        try:
            for action in self._actions:
                action.do(elements)
        finally:
            self._workspace.begin(elements.dtype)

    def add(self, action: Action) -> None:
        """Take an action in."""
        if isinstance(action, (Cut, Unfold)) and action.result.resident.type.space in _OPERANDS:
            self._cut(action)
        elif isinstance(action, Multiply):
            self._step(_Sums(True, action.bias), action)
        elif isinstance(action, Accumulate):
            self._step(self._sums.get(action.result) or _Sums(False, None), action)
        else:
            self._compute()
            if isinstance(action.result, Tile):
                self._before_writing(action.result)
            self._actions.append(action)

    def _compute(self) -> None:
        """Let the products that were taken in be computed before what follows."""
        for acc, sums in self._sums.items():
            left = _joined(sums.left, _beside, "columns")
            right = self._shared(_joined(sums.right, _below, "rows"))
            self._actions.append(Products(acc, sums.begins, sums.bias, left, right, self._workspace))
        self._sums.clear()

    def _cut(self, cut: Piece) -> None:
        if (cut.rows, cut.columns) != cut.result.resident.type.shape:  # a changed program may be so
            raise ValueError(f"{cut.rows} x {cut.columns} do not fit a {cut.result.resident.type}")
        for other in [other for other in self._cuts if _overlap(other, cut.result)]:
            del self._cuts[other]  # nothing reads it any more
        self._cuts[cut.result] = cut

    def _step(self, sums: _Sums, action: Multiply | Accumulate) -> None:
        sums.left.append(self._cuts.get(action.a) or _whole(action.a))
        sums.right.append(self._cuts.get(action.b) or _whole(action.b))
        self._sums[action.result] = sums

    def _before_writing(self, tile: Tile) -> None:
        """Copy now what was cut from where a tile lies."""
        for result, cut in [*self._cuts.items()]:
            if _overlap(cut.source, tile):
                self._actions.append(self._cuts.pop(result))
        for key, right in [*self._meant.items()]:
            if any(_overlap(piece.source, tile) for piece in right.pieces):
                del self._meant[key]

    def _shared(self, pieces: Sequence[Piece]) -> Right:
        """The right operand of these pieces."""
        key = tuple(piece.read for piece in pieces)
        return self._meant.setdefault(key, Right(pieces))


_OPERANDS = (Space.Left, Space.Right)


def _whole(tile: Tile) -> Cut:
    """A tile that was copied, as a piece."""
    return Cut(tile, tile, 0, 0, *tile.resident.type.shape)


def _joined(pieces: Sequence[Piece], follows: Callable[[Piece, Piece], bool], size: str) -> Sequence[Piece]:
    """The pieces; those that follow one another are one, of the sum of their sizes."""
    after = [number for number, pair in enumerate(pairwise(pieces), 1) if not follows(*pair)]
    runs = [pieces[start:end] for start, end in pairwise([0, *after, len(pieces)])]
    return [run[0]._replace(**{size: sum(getattr(piece, size) for piece in run)}) for run in runs]


def _beside(left: Piece, right: Piece) -> bool:
    """Whether a piece goes on in K where another ends, in the same rows."""
    alike = left.source is right.source and left.row == right.row and left.rows == right.rows
    return alike and _window(left) is _window(right) and left.column + left.columns == right.column


def _window(piece: Piece) -> Window | None:
    """The window by which a piece unfolds its image; None if it is cut as it is."""
    return piece.window if isinstance(piece, Unfold) else None


def _below(upper: Piece, lower: Piece) -> bool:
    """Whether a piece goes on in K where another ends, in the same columns."""
    alike = upper.source is lower.source and upper.column == lower.column and upper.columns == lower.columns
    return alike and upper.row + upper.rows == lower.row


def _overlap(one: Tile, other: Tile) -> bool:
    """Whether two tiles have bytes in common."""
    first, second = one.resident, other.resident
    same = first.type.space is second.type.space
    return same and first.address < second.end and second.address < first.end
