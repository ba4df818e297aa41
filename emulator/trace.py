"""A walk on coordinates that records what each operator read and wrote, so that blame can go back.

A flawed sum keeps its identity here: it goes on as the sum that it is meant to be, and the flaw is found
where it was made. So a second fault further on is a second finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from emulator.coordinates import Coordinates
from emulator.image import groups, window_in
from emulator.meant import meant
from emulator.operands import Ref, valued
from emulator.program import Call
from emulator.soc import FRACTAL_DEPTH
from emulator.sums import Accumulator, Found, Mask, middle, split
from emulator.terms import FLAWED, NEVER, ZERO, Block, Ids, Index, Numbering
from emulator.tile import Array, Tensor, Tile

_FEW = 0.25
"""Share of an accumulator's sums below which flawed ones need not be known."""


@dataclass(frozen=True)
class Step:
    """An operator as it ran: the call, and the rounds of the loops around it."""

    call: Call
    rounds: Mapping[str, int]


Line = tuple[str, int, str]
"""A file, a line, and the operator there."""


def line_of(call: Call) -> Line:
    """The line of a call."""
    return call.position.file, call.position.line, call.operator


@dataclass(eq=False)
class Buffer:
    """One life of a tile, or a tensor. `versions` are what it held when it was read, ids [rows, columns].

    Attributes:
        name: the name of the tile or tensor in the program.
        shape: rows and columns.
        given: whether it is an input of the program, which nothing writes.
    """

    name: str
    shape: tuple[int, int]
    given: bool = False
    versions: list[Ids] = field(default_factory=list)
    changed: bool = True

    @property
    def size(self) -> int:
        """Elements."""
        return self.shape[0] * self.shape[1]


@dataclass(eq=False)
class Event:
    """An operator as it ran.

    Attributes:
        step: the call and its rounds.
        number: which event of the walk it is.
        numbers: the values of its operands that are offsets or positions.
        target, at, shape: the rectangle that it wrote.
    """

    step: Step
    number: int
    numbers: Mapping[str, Any]
    target: Buffer
    at: tuple[int, int]
    shape: tuple[int, int]

    @property
    def call(self) -> int:
        """The same number for every round of one call."""
        return id(self.step.call)

    @property
    def line(self) -> Line:
        """Its file, its line, and its operator: the same wherever a helper is expanded."""
        return line_of(self.step.call)

    @property
    def cells(self) -> tuple[slice, slice]:
        """The rectangle as an index of the target."""
        (row, column), (rows, columns) = self.at, self.shape
        return slice(row, row + rows), slice(column, column + columns)


@dataclass(eq=False)
class Copy(Event):
    """An operator that moves elements. `held` is what its source held."""

    source: Buffer
    held: Ids

    @property
    def index(self) -> Index:
        """Which element of the source, counted row by row, went to each of the target's; -1 is padding."""
        call, columns = self.step.call, self.source.shape[1]
        if call.operator == "tile.img2col":
            return self._unfolded(call.operands)
        row, column = self.numbers["from"]
        rows = row + np.arange(self.shape[0], dtype=np.int32)
        cols = column + np.arange(self.shape[1], dtype=np.int32)
        index: Index = rows[:, None] * columns + cols
        return index

    def _unfolded(self, operands: Mapping[str, Any]) -> Index:
        (count, depth), at = self.shape, (self.numbers["pos_m"], self.numbers["pos_k"])
        index = np.empty((count, depth // FRACTAL_DEPTH, FRACTAL_DEPTH), np.int32)
        parts = groups(window_in(operands), at[0], count, at[1], depth)
        for number, (plane, _, rows, outside) in enumerate(parts):
            columns = plane * FRACTAL_DEPTH + np.arange(FRACTAL_DEPTH)
            index[:, number] = rows[:, None] * self.source.shape[1] + columns
            if outside is not None:
                index[outside, number] = -1
        return index.reshape(self.shape)


@dataclass(eq=False)
class Multiply(Event):
    """A product that begins sums or is added to them. `left` and `right` are its operands' ids."""

    a: Buffer
    b: Buffer
    bias: Buffer | None
    left: Ids
    right: Ids


@dataclass(eq=False)
class Leave(Event):
    """Sums that leave their accumulator, requantised if there is a `scale`.

    Attributes:
        products: what they were made of.
        bias: the bias row that they began with, ids [n], if any.
        entries: the table, ids [n], if any.
        ids: what they are meant to be, [m, n]; `FLAWED` where that cannot be said.
        good: which of them are so, with all their terms, their bias and their entry.
        cut: the operator that said how many rows leave; None if all do.
    """

    products: tuple[Multiply, ...]
    bias: Ids | None
    scale: Buffer | None
    entries: Ids | None
    ids: Ids
    good: Mask
    cut: Event | None


class Recorder(Coordinates):
    """Elements are ids; `finish` gives what was recorded."""

    strict = False
    by_steps = True

    def __init__(self, numbering: Numbering) -> None:
        super().__init__(numbering)
        self.events: list[Event] = []
        self._buffers: dict[int, tuple[Tile | Tensor, Buffer]] = {}
        self._added: dict[int, list[Multiply]] = {}
        self._meant: dict[int, tuple[Block, Index, Index] | None] = {}
        self._rights: dict[bytes, Ids] = {}
        self._cuts: dict[Buffer, Event] = {}
        self._open: tuple[Call, Mapping[str, Tile | Tensor], dict[str, Any]] | None = None

    def reach(self, call: Call, loops: Mapping[str, int], held: Mapping[str, Tile | Tensor]) -> None:
        """Record the operator before, whose result now has its name, and note what this one reads."""
        self.finish()
        noted: dict[str, Any] = {"step": Step(call, dict(loops))}
        for name, operand in call.operands.items():
            noted[name] = held.get(operand.name) if isinstance(operand, Ref) else valued(operand, loops)
        if (source := noted.get(_SOURCE.get(call.operator, ""))) is not None:
            noted["held"] = self._contents(source)
        self._open = call, held, noted

    def finish(self) -> None:
        """Record the last operator."""
        if self._open is None:
            return
        (call, held, noted), self._open = self._open, None
        result = held[call.target]
        target = self.buffer(result)
        common = (noted["step"], len(self.events), noted, target)
        kind = call.operator.rpartition(".")[2]
        if kind in ("matmul", "matmul_bias", "matmul_acc"):
            product = noted["product"]
            a, b, bias, left, right = product
            event: Event = Multiply(*common, (0, 0), target.shape, a, b, bias, left, right)
            self._added[noted["accumulator"]].append(event)  # type: ignore[arg-type]
        elif "leaves" in noted:
            cut = self._cuts.get(self.buffer(noted.get("acc") or noted["tile"]))
            products, bias, scale, entries, ids, good = noted["leaves"]
            made = (products, bias, scale, entries, ids, good)
            event = Leave(*common, noted["offsets"], good.shape, *made, cut)
        elif kind in ("load", "move", "extract", "img2col"):
            noted["from"] = noted.get("offsets") or (noted.get("row", 0), noted.get("col", 0))
            source = self.buffer(noted[_SOURCE[call.operator]])
            event = Copy(*common, (0, 0), target.shape, source, noted["held"])
        elif kind == "gather_row":
            noted["from"] = noted["src_offset"]
            source = self.buffer(noted["tensor"])
            event = Copy(*common, noted["dst_offset"], noted["shapes"], source, noted["held"])
        elif kind == "store":
            noted["from"] = (0, 0)
            source = self.buffer(noted["tile"])
            shape = (noted["tile"].valid, source.shape[1])
            event = Copy(*common, noted["offsets"], shape, source, noted["held"])
        elif kind == "set_validshape":
            self._cuts[target] = Event(*common, (0, 0), (noted["valid_rows"], target.shape[1]))
            return
        else:  # no elements came from elsewhere
            target.changed |= kind == "fillpad_inplace"
            return
        target.changed = True
        self.events.append(event)

    def buffer(self, of: Tile | Tensor) -> Buffer:
        """What is known of a tile's life or a tensor."""
        if id(of) not in self._buffers:
            if isinstance(of, Tile):
                new = Buffer(of.resident.name, of.resident.type.shape)
            else:
                rows, columns = of.type.shape
                new = Buffer(of.name, (rows, columns), given=of.written is None)
            self._buffers[id(of)] = of, new
        return self._buffers[id(of)][1]

    def output(self, name: str) -> Buffer:
        """The output of a name that the program has written."""
        return next(known for _, known in self._buffers.values() if known.name == name and not known.given)

    @property
    def rounds(self) -> Mapping[str, int]:
        """The rounds of the loops around the last operator."""
        return self._open[2]["step"].rounds if self._open else {}

    def contents(self, buffer: Buffer) -> Ids:
        """What a buffer holds at the end of the walk."""
        return next(self._contents(of) for of, known in self._buffers.values() if known is buffer)

    def multiply(self, acc: Tile, a: Tile, b: Tile, bias: Tile | None) -> None:
        """As on coordinates."""
        super().multiply(acc, a, b, bias)
        self._note(acc, a, b, bias)

    def accumulate(self, acc: Tile, a: Tile, b: Tile) -> None:
        """As on coordinates."""
        super().accumulate(acc, a, b)
        self._note(acc, a, b, None)

    def _settled(self, acc: Tile, rows: int) -> tuple[Accumulator, Ids]:
        """As on coordinates; sums that are flawed are those that they are meant to be."""
        accumulator, ids = super()._settled(acc, rows)
        if id(accumulator) not in self._meant:
            flawed = ids == FLAWED
            known = meant(self._numbering, accumulator) if flawed.mean() > _FEW else None
            self._meant[id(accumulator)] = known
            if known is not None:
                block, positions, columns = known
                ids[flawed] = block.sum_ids(positions, columns)[flawed]
        return accumulator, ids

    def settle(self, acc: Tile, rows: int) -> None:
        """As on coordinates; the sums leave."""
        super().settle(acc, rows)
        accumulator, ids = self._settled(acc, rows)
        self._leave(accumulator, None, None, ids, self._good(accumulator, ids))

    def requantise(self, acc: Tile, rows: int, scale: Tile) -> Array:
        """The ids that the sums are meant to be, whatever their entries."""
        entries = scale.data[0].copy()
        accumulator, ids = self._settled(acc, rows)
        result = np.full_like(ids, FLAWED)
        good = self._good(accumulator, ids)
        for found in accumulator.found:
            becomes = found.block.result(np.maximum(found.positions, 0), found.columns)
            result[:, found.at] = np.where(self._which(found, accumulator), becomes, FLAWED)
            own = found.block.table
            good[:, found.at] &= False if own is None else own[found.columns] == entries[found.at]
        if (known := self._meant[id(accumulator)]) is not None:
            block, positions, columns = known
            result = np.where(result == FLAWED, block.result(positions, columns), result)
        self._leave(accumulator, self.buffer(scale), entries, result, good)
        return result

    def _which(self, found: Found, accumulator: Accumulator) -> Mask:
        """Those that most terms belong to: of a sum with fewer it cannot be said which it is meant to be."""
        if found.good.all():
            return found.good
        right = self._numbering.codes(accumulator.right[:, found.at])
        depth, _, own = split(found.block, right)
        depths = middle(depth, own, 1)
        left = accumulator.left[:, depths >= 0]
        same = left == found.block.left(np.maximum(found.positions, 0), depths[depths >= 0])
        met = int((right != ZERO).any(axis=1).sum())  # what is multiplied by 0 is no term
        most = same.sum(axis=1) * 2 > met
        which: Mask = found.good | (most & (found.positions >= 0))[:, None]
        return which

    def _good(self, accumulator: Accumulator, ids: Ids) -> Mask:
        good = np.zeros(ids.shape, bool)
        for found in accumulator.found:
            good[:, found.at] = found.good
        return good

    def _note(self, acc: Tile, a: Tile, b: Tile, bias: Tile | None) -> None:
        assert self._open is not None
        accumulator = self._accumulators[acc.resident.address]
        if bias is not None or self._open[0].operator != "tile.matmul_acc":
            self._added[id(accumulator)] = []
        product = accumulator.products[-1]
        right = self._rights.setdefault(product.right.tobytes(), product.right)  # many are the same
        product = accumulator.products[-1] = replace(product, right=right)
        noted = self._open[2]
        noted["accumulator"] = id(accumulator)
        noted["product"] = (
            self.buffer(a),
            self.buffer(b),
            None if bias is None else self.buffer(bias),
            product.left,
            product.right,
        )

    def _leave(
        self, accumulator: Accumulator, scale: Buffer | None, entries: Ids | None, ids: Ids, good: Mask
    ) -> None:
        assert self._open is not None
        products = tuple(self._added[id(accumulator)])
        self._open[2]["leaves"] = (products, accumulator.bias, scale, entries, ids, good)

    def _contents(self, of: Tile | Tensor) -> Ids:
        """What a tile or tensor holds, `NEVER` where nothing was written; kept until it changes."""
        buffer = self.buffer(of)
        if buffer.changed:
            assert of.data is not None
            if isinstance(of, Tile):
                ids = np.array(of.get(0, 0, of.resident.type.shape))
                if of.written is not None:
                    ids[~of.written] = NEVER
            else:
                ids = np.array(of.data)
            buffer.versions.append(ids)
            buffer.changed = False
        return buffer.versions[-1]


_SOURCE = {
    "load": "tensor",
    "tile.gather_row": "tensor",
    "store": "tile",
    "move": "tile",
    "tile.extract": "tile",
    "tile.img2col": "tile",
}
"""The operand that an operator moves elements from."""
