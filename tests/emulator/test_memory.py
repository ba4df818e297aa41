"""Lifetimes and addresses, against a second reading: the program is run by hand and every use is noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.engine import compile_program, run_program
from emulator.errors import AccessError, CapacityError
from emulator.memory import MemoryMap
from emulator.program import Program
from emulator.soc import SOCS, Space

Read = Callable[..., Program]
A2A3 = SOCS["a2a3"]

# -- small programs: what a body holds, how it is written, and what it does


@dataclass(frozen=True)
class Load:
    """Load the rows of x from `row`."""

    name: str
    row: int


@dataclass(frozen=True)
class Refill:
    """Write other rows of x into the tile that is there."""

    name: str
    row: int


@dataclass(frozen=True)
class Same:
    """A second name for a tile, by a helper that gives its argument back."""

    name: str
    source: str


@dataclass(frozen=True)
class Use:
    """Store the tile to its own place in y."""

    name: str
    slot: int


@dataclass(frozen=True)
class Loop:
    """Run the body some times."""

    trips: int
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Branch:
    """Take one side in the given round of the loop around, the other in the rest."""

    taken_in: int
    then: tuple[Any, ...]
    orelse: tuple[Any, ...]


SIZES = {"a": 16, "b": 16, "c": 32, "d": 32}
"""Rows of the tile that each name holds."""

X_ROWS, SLOTS = 128, 12
TENSORS = {
    "x": f"pl.Tensor[[{X_ROWS}, 32], pl.INT8]",
    "y": f"pl.Out[pl.Tensor[[{SLOTS * 32}, 32], pl.INT8]]",
}
SAME = """
@pl.inline
def same(same_t):
    return same_t
"""


def written(statements: Sequence[Any], depth: int = 0) -> Iterator[str]:
    pad = "    " * depth
    for statement in statements:
        if isinstance(statement, Load):
            rows = SIZES[statement.name]
            yield f"{pad}{statement.name} = pl.load(x, [{statement.row}, 0], [{rows}, 32], @Mat)"
        elif isinstance(statement, Refill):
            rows, name = SIZES[statement.name], statement.name
            offsets = f"dst_offset=[0, 0], src_offset=[{statement.row}, 0], shapes=[{rows}, 32]"
            yield f"{pad}{name} = pl.tile.gather_row({name}, x, {offsets})"
        elif isinstance(statement, Same):
            yield f"{pad}{statement.name} = same({statement.source})"
        elif isinstance(statement, Use):
            yield f"{pad}y = pl.store({statement.name}, [{statement.slot * 32}, 0], y)"
        elif isinstance(statement, Loop):
            yield f"{pad}for i{depth} in pl.range({statement.trips}):"
            yield from written(statement.body, depth + 1)
        else:
            yield f"{pad}if i{depth - 1} == {statement.taken_in}:"
            yield from written(statement.then, depth + 1)
            yield f"{pad}else:"
            yield from written(statement.orelse, depth + 1)


@dataclass
class Life:
    """One tile of the run by hand: the line that made it, when, until when, and its data."""

    line: int
    first: int
    last: int
    data: npt.NDArray[np.int8] = field(repr=False)


class ByHand:
    """Runs a program with one array a tile, so that nothing can overlap."""

    def __init__(self, x: npt.NDArray[np.int8]) -> None:
        self.x = x
        self.y = np.zeros((SLOTS * 32, 32), np.int8)
        self.names: dict[str, Life] = {}
        self.lives: list[Life] = []
        self.reuses_address = False
        self._clock = 0

    def run(self, statements: Sequence[Any], line: int, rounds: tuple[int, ...] = ()) -> int:
        """Run statements that begin at a line; gives the line after them."""
        for statement in statements:
            self._clock += 1
            if isinstance(statement, Load):
                rows = self.x[statement.row :][: SIZES[statement.name]]
                self.names[statement.name] = Life(line, self._clock, self._clock, rows.copy())
                self.lives.append(self.names[statement.name])
            elif isinstance(statement, Refill):
                life = self._used(statement.name)
                life.data[:] = self.x[statement.row :][: SIZES[statement.name]]
            elif isinstance(statement, Same):
                self.names[statement.name] = self.names[statement.source]
            elif isinstance(statement, Use):
                data = self._used(statement.name).data
                self.y[statement.slot * 32 :][: len(data)] = data
            elif isinstance(statement, Loop):
                after = line + lines(statement.body) + 1
                for trip in range(statement.trips):
                    self.run(statement.body, line + 1, (*rounds, trip))
                line = after - 1
            else:
                middle = line + 1 + lines(statement.then)
                if rounds[-1] == statement.taken_in:
                    self.run(statement.then, line + 1, rounds)
                else:
                    self.run(statement.orelse, middle + 1, rounds)
                line = middle + lines(statement.orelse)
            line += 1
        return line

    def _used(self, name: str) -> Life:
        life = self.names[name]
        life.last = self._clock
        # A tile lies at one address: an older one of the same line is gone once a newer one was made.
        self.reuses_address |= any(
            later.line == life.line and later.first > life.first for later in self.lives
        )
        return life


def lines(statements: Sequence[Any]) -> int:
    return len(list(written(statements, 1)))


# -- which programs: names are used where they are known


@st.composite
def bodies(
    draw: st.DrawFn, known: frozenset[str], carried: frozenset[str], depth: int, slots: list[int]
) -> tuple[Any, ...]:
    """Statements where `known` names are bound; `carried` ones may be so since before the loop around."""
    statements: list[Any] = []
    names, maybe = set(known), set(carried)
    for _ in range(draw(st.integers(1, 5 if depth == 0 else 3))):
        kinds = ["load"] + ["use", "use", "refill", "same"] * bool(names)
        kinds += ["loop", "loop"] * (depth < 3) + ["branch"] * (0 < depth < 3)
        kind = draw(st.sampled_from(kinds))
        rows = st.integers(0, X_ROWS - 32)
        if kind == "load":
            name = draw(st.sampled_from(sorted(SIZES)))
            statements.append(Load(name, draw(rows)))
            names.add(name)
        elif kind == "refill":
            statements.append(Refill(draw(st.sampled_from(sorted(names))), draw(rows)))
        elif kind == "same":
            source = draw(st.sampled_from(sorted(names)))
            target = draw(st.sampled_from([name for name in SIZES if SIZES[name] == SIZES[source]]))
            if (
                not {source, target} <= carried
            ):  # two names of one tile are not carried: the reader refuses it
                statements.append(Same(target, source))
                names.add(target)
        elif kind == "use":
            slots.append(len(slots))
            statements.append(Use(draw(st.sampled_from(sorted(names))), slots[-1] % SLOTS))
        elif kind == "loop":
            body = draw(bodies(frozenset(names), frozenset(names | maybe), depth + 1, slots))
            statements.append(Loop(draw(st.integers(0, 3)), body))
        else:
            then = draw(bodies(frozenset(names), carried, depth + 1, slots))
            orelse = draw(bodies(frozenset(names), carried, depth + 1, slots))
            if not any(isinstance(statement, Branch) for statement in then + orelse):
                statements.append(Branch(draw(st.integers(0, 2)), then, orelse))
                maybe |= SIZES.keys()  # what both sides bind outlives them
    return tuple(statements) or (Load("a", 0),)


PROGRAMS = bodies(frozenset(), frozenset(), 0, [])
"""Bodies of up to three nested loops."""


def check(read: Read, statements: tuple[Any, ...]) -> ByHand:
    """Place and run the program; compare with the run by hand."""
    whole = [f"y = pl.store(w, [{row}, 0], y)" for row in range(0, SLOTS * 32, 32)]
    body = ["w = pl.load(x, [0, 0], [32, 32], @Vec)", *whole, *written(statements)]
    program = read("\n".join(body), SAME, **TENSORS)
    x = np.random.default_rng(1).integers(-128, 128, (X_ROWS, 32)).astype(np.int8)
    first = program.functions["kernel"].body[0]
    hand = ByHand(x)
    hand.y[:] = np.tile(x[:32], (SLOTS, 1))
    hand.run(statements, first.position.line + 1 + len(whole))
    y = np.zeros_like(hand.y)
    if hand.reuses_address:
        with pytest.raises(AccessError, match="in an earlier round"):
            run_program(program, A2A3, {"x": x, "y": y})
        return hand
    report = run_program(program, A2A3, {"x": x, "y": y})
    np.testing.assert_array_equal(y, hand.y)
    check_apart(report.memory["kernel"], hand.lives)
    return hand


def check_apart(memory: MemoryMap, lives: Sequence[Life]) -> None:
    """No two tiles that were alive at once share a byte."""
    by_line = {tile.position.line: tile for tile in memory.residents}
    for one, other in combinations(lives, 2):
        if one.line != other.line and one.first <= other.last and other.first <= one.last:
            a, b = by_line[one.line], by_line[other.line]
            assert a.end <= b.address or b.end <= a.address, (a, b)


@settings(max_examples=150, deadline=None)
@given(statements=PROGRAMS)
def test_tiles_alive_at_once_never_overlap(read: Read, statements: tuple[Any, ...]) -> None:
    check(read, statements)


A, B, C, D = (Load(name, 32 * number) for number, name in enumerate("abcd"))
TRICKY = {
    "read in the next round, past a tile made meanwhile": (
        A,
        Loop(3, (Use("a", 0), Load("b", 32), Use("b", 1), Load("a", 64))),
    ),
    "handed on under another name": (
        A,
        Loop(3, (Same("b", "a"), C, Use("b", 0), Use("c", 1), Load("a", 7), D, Use("d", 2))),
    ),
    "made in a branch of one round, used in another": (
        C,
        Loop(3, (Branch(0, (Load("c", 5),), (Load("d", 64), Use("d", 0))), Use("c", 1))),
    ),
    "made before a loop that does not run, and again in it": (
        A,
        Loop(0, (C, Load("a", 64), Use("c", 1))),
        B,
        Use("a", 0),
    ),
    "made in a loop, used after it": (
        A,
        Loop(2, (Load("b", 32), Use("b", 0), Load("a", 64))),
        C,
        Use("a", 1),
    ),
    "made before two loops, used in the inner": (A, Loop(2, (C, Loop(2, (B, Use("a", 0))), Use("c", 1))), D),
    "carried by the outer loop, used in the inner": (
        A,
        Loop(2, (Loop(2, (Use("a", 0), B, Use("b", 1))), C, Load("a", 9), Use("c", 2))),
    ),
    "refilled in a loop": (A, Loop(2, (B, Use("b", 0), Refill("a", 33))), Use("a", 1)),
    "two names, one rebound": (A, Same("b", "a"), Load("a", 50), C, Use("b", 0), Use("a", 1)),
}


@pytest.mark.parametrize("statements", TRICKY.values(), ids=TRICKY.keys())
def test_tricky_lives(read: Read, statements: tuple[Any, ...]) -> None:
    assert not check(read, statements).reuses_address


def test_a_tile_of_an_earlier_round_has_lost_its_memory(read: Read) -> None:
    older = (A, Loop(3, (Same("b", "a"), Load("a", 64), Use("b", 0))))
    assert check(read, older).reuses_address


# -- exact addresses


def placed(read: Read, body: str, **tensors: str) -> dict[str, tuple[int, int]]:
    """Address and bytes of every tile, by name (a later tile of a name wins)."""
    report = compile_program(
        read(body, **(tensors or TENSORS | {"y": "pl.Out[pl.Tensor[[16, 32], pl.INT8]]"})), A2A3
    )
    return {tile.name: (tile.address, tile.type.size) for tile in report.memory["kernel"].residents}


def test_each_tile_gets_the_lowest_free_address_in_order_of_creation(read: Read) -> None:
    body = """
    a = pl.load(x, [0, 0], [32, 32], @Mat)
    b = pl.load(x, [0, 0], [64, 32], @Mat)
    a = pl.tile.gather_row(a, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[16, 32])
    c = pl.load(x, [0, 0], [48, 32], @Mat)
    d = pl.load(x, [0, 0], [32, 32], @Mat)
    e = pl.load(x, [0, 0], [16, 32], @Mat)
    y = pl.store(e, [0, 0], y)
    b = pl.tile.gather_row(b, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[16, 32])
    v = pl.load(x, [0, 0], [16, 32], @Vec)
    y = pl.store(v, [0, 0], y)
    """
    # c is too large for the gap that a left before b; d, never used, fills it to the byte, then e half of it.
    assert placed(read, body) == {
        "a": (0, 1024),
        "b": (1024, 2048),
        "c": (3072, 1536),
        "d": (0, 1024),
        "e": (0, 512),
        "v": (0, 512),
    }


def test_addresses_are_aligned_to_32_bytes(read: Read) -> None:
    body = """
    a = pl.load(p, [0, 0], [1, 5], @Mat)
    b = pl.load(p, [0, 0], [1, 5], @Mat)
    y = pl.store(a, [0, 0], y)
    y = pl.store(b, [0, 0], y)
    """
    tensors = {"p": "pl.Tensor[[1, 5], pl.INT32]", "y": "pl.Out[pl.Tensor[[1, 5], pl.INT32]]"}
    assert placed(read, body, **tensors) == {"a": (0, 20), "b": (32, 20)}


def test_lives_are_told_by_their_lines(read: Read) -> None:
    program = read(
        """
        a = pl.load(x, [0, 0], [16, 32], @Mat)
        for i in pl.range(2):
            y = pl.store(a, [0, 0], y)
            b = pl.load(x, [0, 0], [16, 32], @Mat)
        """,
        **TENSORS | {"y": "pl.Out[pl.Tensor[[16, 32], pl.INT8]]"},
    )
    start = program.functions["kernel"].body[0].position.line
    a, b = compile_program(program, A2A3).memory["kernel"].residents
    assert (a.position.line, a.last_position.line) == (start, start + 3)
    assert (b.position.line, b.last_position.line) == (start + 3, start + 3)


def test_a_memory_over_capacity_lists_what_is_resident(read: Read) -> None:
    program = read(
        """
        kept = pl.tile.create([8192, 32], pl.INT8, @Mat)
        big = pl.tile.create([8208, 32], pl.INT8, @Mat)
        y = pl.store(kept, [0, 0], y)
        """,
        y="pl.Out[pl.Tensor[[8192, 32], pl.INT8]]",
    )
    with pytest.raises(CapacityError) as caught:
        compile_program(program, A2A3)
    error = caught.value
    assert error.operator == "pl.tile.create"
    assert error.position.line == program.functions["kernel"].body[1].position.line
    assert error.problem == (
        "big [8208, 32] of 262656 B does not fit in Mat (L1): it would end at byte 524800 of 524288; "
        "resident: kept [8192, 32] 262144 B at 0"
    )


def test_a_memory_may_be_full_to_the_last_byte(read: Read) -> None:
    body = """
    t = pl.tile.create([16384, 32], pl.INT8, @Mat)
    u = pl.load(x, [0, 0], [16, 32], @Vec)
    y = pl.store(u, [0, 0], y)
    """
    program = read(body, **TENSORS | {"y": "pl.Out[pl.Tensor[[16, 32], pl.INT8]]"})
    memory = compile_program(program, A2A3).memory["kernel"]
    assert memory.peak(Space.Mat) == 512 * 1024
    assert memory.peak(Space.Acc) == 0
