"""What sums that are demanded demand of their products, their bias and their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.backward.depths import depths_of
from emulator.backward.lookup import Results, first
from emulator.backward.readers import Reading, whole
from emulator.backward.suspicion import NOTHING, Fault, Suspicion, Terms
from emulator.elements import PADDING
from emulator.sums import Mask
from emulator.terms import Block, Ids, Index, Numbering
from emulator.trace import Buffer, Event, Leave, Multiply

Demands = Iterator[tuple[Buffer, Reading] | Suspicion]
"""What sums demand of buffers, and what is at fault with their operators themselves."""


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums that are demanded as they leave.

    `demand` are their ids [m, n], `columns` [n] the columns of the block. `rows` are the positions of all
    rows of the products, -1 for those that nothing is demanded of or that do not leave.
    """

    leave: Leave
    demand: Ids
    block: Block
    rows: Index
    columns: Index

    @property
    def first(self) -> tuple[int, int]:
        """The row and column of the first one."""
        return first(self.demand != NOTHING)

    def term(self, depth: int, count: int) -> Terms:
        """Terms, and of the first, at a depth, elements that are not padding if there are any."""
        left = self.block.left(self.rows[self.rows >= 0], np.array([depth]))[:, 0]
        right = self.block.right(np.array([depth]), self.columns[self.columns >= 0][:1])
        return Terms(count, int(left[(left != PADDING).argmax()]), int(right[0, 0]))

    def suspected(
        self, fault: Fault, event: Event, *, terms: Terms | None = None, also: Event | None = None
    ) -> Suspicion:
        """Suspect an operator of all the sums, for their terms."""
        count, must = int((self.demand != NOTHING).sum()), int(self.demand[self.first])
        leave = None if fault is Fault.TWICE else self.leave
        return Suspicion(fault, event, self.first, must, NOTHING, count, also=also, terms=terms, leave=leave)

    def begun(self, fault: Fault, event: Event, wanted: int, held: int) -> Suspicion:
        """Suspect an operator of all the sums, for their bias or table."""
        count, of = int((self.demand != NOTHING).sum()), int(self.demand[self.first])
        return Suspicion(fault, event, self.first, wanted, held, count, of=of)


def demands(
    leave: Leave, demand: Ids, numbering: Numbering, results: Results, events: Sequence[Event]
) -> Demands:
    """What sums demand of what they are made of.

    Args:
        leave: the sums as they leave their accumulator.
        demand: what they must be, ids [m, n]; `NOTHING` where it does not matter.
        numbering: the ids.
        results: what sums become.
        events: all events of the walk.
    """
    wanted = demand != NOTHING
    good: Mask = leave.good & np.equal(leave.ids, demand)
    if (good | ~wanted).all():
        yield from _as_held(leave, wanted)
        return
    block = results.block(demand[wanted])
    if block is None:
        return
    rows, of_columns = results.rows_and_columns(block, demand)
    sums = _Sums(leave, demand, block, _of_all_rows(leave, rows, -1), of_columns)
    columns, at = sums.columns, sums.first[1]
    some = max(int(columns[at]), 0)
    if (leave.entries is None) != (block.table is None):
        entry = NOTHING if block.table is None else int(block.table[some])
        yield sums.begun(Fault.TABLE, leave, entry, NOTHING)
        return
    if leave.scale is not None and leave.entries is not None and block.table is not None:
        yield _row(leave, leave.scale, _of_columns(block.table, columns), leave.entries)
    begin = leave.products[0]
    if (leave.bias is None) != (block.bias is None):
        starts = NOTHING if block.bias is None else int(block.bias[some])
        has = NOTHING if leave.bias is None else int(leave.bias[at])
        yield sums.begun(Fault.BIAS, begin, starts, has)
    elif begin.bias is not None and leave.bias is not None and block.bias is not None:
        yield _row(begin, begin.bias, _of_columns(block.bias, columns), leave.bias)
    yield from _of_products(sums, numbering, events)


def _as_held(leave: Leave, wanted: Mask) -> Demands:
    """The sums are right: their operands are demanded as they are."""
    rows, columns = _of_all_rows(leave, np.asarray(wanted.any(axis=1)), 0), wanted.any(axis=0)
    for product in leave.products:
        left = np.where(rows[:, None] > 0, product.left, NOTHING)
        yield product.a, whole(product, product.a, left, product.left)
        right = np.where(columns, product.right, NOTHING)
        yield product.b, whole(product, product.b, right, product.right)
    begin = leave.products[0]
    if begin.bias is not None and leave.bias is not None:
        yield _row(begin, begin.bias, np.where(columns, leave.bias, NOTHING), leave.bias)
    if leave.scale is not None and leave.entries is not None:
        yield _row(leave, leave.scale, np.where(columns, leave.entries, NOTHING), leave.entries)


def _of_all_rows(leave: Leave, rows: Index | Mask, rest: int) -> Index:
    """A number of each row [m] of sums, then `rest` for the rows of their products that do not leave."""
    return np.pad(
        rows.astype(np.int64), (0, leave.products[0].left.shape[0] - rows.size), constant_values=rest
    )


def _row(event: Event, buffer: Buffer, wanted: Ids, held: Ids) -> tuple[Buffer, Reading]:
    """A demand of a bias row or a table, ids [n]."""
    return buffer, whole(event, buffer, wanted[None], held[None])


def _of_columns(ids: Ids, columns: Index) -> Ids:
    """What the columns [n] of sums have of a row of ids; `NOTHING` where no column is demanded."""
    return np.where(columns >= 0, ids[np.maximum(columns, 0)], NOTHING)


def _of_products(sums: _Sums, numbering: Numbering, events: Sequence[Event]) -> Demands:
    block, products = sums.block, sums.leave.products
    left = np.concatenate([product.left for product in products], axis=1)
    right = np.concatenate([product.right for product in products])
    sizes = [product.left.shape[1] for product in products]
    of = np.repeat(np.arange(len(products)), sizes)
    demanded = right[:, sums.columns >= 0]
    depths = depths_of(numbering, block, sums.rows, left, demanded)
    # What is multiplied by 0 does not matter.
    zeros = (demanded == PADDING).all(axis=1)
    yield from _double(sums, depths, of)
    if (depths[~zeros] >= 0).all():
        yield from _missing(sums, depths, of, events)
    known, asked = depths >= 0, np.maximum(depths, 0)
    rows, columns = np.maximum(sums.rows, 0), np.maximum(sums.columns, 0)
    must_left = np.where((sums.rows >= 0)[:, None] & known, block.left(rows, asked), NOTHING)
    must_right = np.where((sums.columns >= 0) & known[:, None], block.right(asked, columns), NOTHING)
    must_left[:, zeros] = NOTHING
    for number, product in enumerate(products):
        mine = of == number
        of_left, of_right = (
            must_left[:, mine].astype(left.dtype),
            must_right[mine].astype(left.dtype),
        )
        yield product.a, whole(product, product.a, of_left, product.left)
        yield product.b, whole(product, product.b, of_right, product.right)


def _double(sums: _Sums, depths: Index, of: Index) -> Iterator[Suspicion]:
    """Suspect the first product that adds terms a second time; `of` [k] is the product of each depth."""
    seen: set[int] = set()
    for number, depth in zip(of.tolist(), depths.tolist(), strict=True):
        if depth in seen:
            yield sums.suspected(Fault.TWICE, sums.leave.products[number], terms=sums.term(depth, 1))
            return
        if depth >= 0:
            seen.add(depth)


def _missing(sums: _Sums, depths: Index, of: Index, events: Sequence[Event]) -> Iterator[Suspicion]:
    """Suspect what leaves terms out, if all terms that are there are known."""
    missing = np.setdiff1d(np.arange(sums.block.depth), depths)
    if not missing.size:
        return
    needed = sums.block.left(sums.rows[sums.rows >= 0], missing)
    missing = missing[(needed != PADDING).any(axis=0)]
    if not missing.size:
        return
    products, terms = sums.leave.products, sums.term(int(missing[0]), int(missing.size))
    if (discarded := _discarded(sums, missing, events)) is not None:
        yield sums.suspected(Fault.DISCARDED, products[0], terms=terms, also=discarded)
        return
    beside = [of[depths == depth] for depth in (missing[0] - 1, missing[-1] + 1)]
    near = [products[int(numbers[0])] for numbers in beside if numbers.size] or [products[-1]]
    yield sums.suspected(Fault.MISSING_TERMS, near[0], terms=terms, also=next(iter(near[1:]), None))


def _discarded(sums: _Sums, missing: Index, events: Sequence[Event]) -> Event | None:
    """A product, of sums that were given up before, that has the first missing term of a row."""
    row = int(np.flatnonzero(sums.rows >= 0)[0])
    elements = sums.block.left(sums.rows[[row]], missing)[0]
    used = {product for leave in events if isinstance(leave, Leave) for product in leave.products}
    for product in reversed(events[: sums.leave.number]):
        if not isinstance(product, Multiply) or product in used or product.left.shape[0] <= row:
            continue
        if np.isin(elements[elements > PADDING], product.left[row]).any():
            return product
    return None
