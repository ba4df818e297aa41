"""Where tiles lie: their lifetimes in a function, and the addresses that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from emulator.errors import CapacityError
from emulator.operands import Position, Ref
from emulator.operators import OPERATORS
from emulator.program import Bind, Call, For, Function, If, Statement, TileType, flat
from emulator.soc import Space

_ALIGNMENT = 32


@dataclass(frozen=True)
class Resident:
    """A tile of one creating operator: where it lies (bytes) and how long it lives (statement order)."""

    name: str
    type: TileType
    operator: str
    position: Position
    first: int
    last: int
    last_position: Position
    address: int = 0

    @property
    def end(self) -> int:
        """First byte after it."""
        return self.address + self.type.size


@dataclass(frozen=True)
class MemoryMap:
    """All tiles of a function, placed. `at` finds a tile by the call that creates it.

    `by_call` has them by the identities of these calls.
    """

    residents: tuple[Resident, ...]
    by_call: Mapping[int, Resident]

    def at(self, call: Call) -> Resident:
        """The tile that this call creates."""
        return self.by_call[id(call)]

    def peak(self, space: Space) -> int:
        """The most bytes of a memory in use: one more than the highest used address."""
        return max((tile.end for tile in self.residents if tile.type.space is space), default=0)


@dataclass(frozen=True)
class _Loop:
    """A loop's span in statement order."""

    first: int
    last: int
    last_position: Position


@dataclass(frozen=True)
class _Value:
    """A tile that a name may hold: the call that created it, and the loops that carried it to a new round."""

    call: int
    carried: frozenset[_Loop] = frozenset()


_Names = dict[str, frozenset[_Value]]


class _Lifetimes:
    """Walks a function's statements in order, noting for each creating call its first and last use."""

    def __init__(self) -> None:
        self.found: dict[int, Resident] = {}
        self._created: dict[int, int] = {}
        self._order = 0
        self._loops: list[_Loop] = []

    def walk(self, statements: Sequence[Statement], names: _Names) -> None:
        for statement in statements:
            self._order += 1
            if isinstance(statement, Call):
                self._call(statement, names)
            elif isinstance(statement, Bind):
                names[statement.target] = names.get(statement.source, frozenset())
            elif isinstance(statement, If):
                other = dict(names)
                self.walk(statement.then, names)
                self.walk(statement.orelse, other)
                _merge(names, other)
            elif isinstance(statement, For):
                self._loop(statement, names)

    def _loop(self, loop: For, names: _Names) -> None:
        """Walk the body again with the values that reach its end, until no new ones do."""
        start = self._order
        span = _Loop(start, start + len([*flat(loop.body)]), _last_position(loop))
        entering = dict(names)
        self._loops.append(span)
        while True:
            self._order = start
            leaving = dict(entering)
            self.walk(loop.body, leaving)
            again = dict(entering)
            _merge(again, {name: self._carried(values, span) for name, values in leaving.items()})
            if again == entering:
                break
            entering = again
        self._loops.pop()
        if not _runs(loop):
            _merge(leaving, names)
        names.update(leaving)

    def _carried(self, values: frozenset[_Value], loop: _Loop) -> frozenset[_Value]:
        return frozenset(
            replace(value, carried=value.carried | {loop}) if self._created_in(value, loop) else value
            for value in values
        )

    def _created_in(self, value: _Value, loop: _Loop) -> bool:
        return loop.first < self._created[value.call] <= loop.last

    def _call(self, call: Call, names: _Names) -> None:
        for operand in call.operands.values():
            if isinstance(operand, Ref):
                for value in names.get(operand.name, ()):
                    self._use(value, call.position)
        destination = OPERATORS[call.operator].destination
        if destination:
            source = call.operands[destination]
            assert isinstance(source, Ref)
            names[call.target] = names.get(source.name, frozenset())
        elif isinstance(call.result, TileType):
            if id(call) not in self.found:
                self._created[id(call)] = self._order
                self.found[id(call)] = Resident(
                    name=call.target,
                    type=call.result,
                    operator=f"pl.{call.operator}",
                    position=call.position,
                    first=self._order,
                    last=self._order,
                    last_position=call.position,
                )
            names[call.target] = frozenset({_Value(id(call))})

    def _use(self, value: _Value, position: Position) -> None:
        tile = self.found[value.call]
        first, last, last_position = tile.first, self._order, position
        for loop in self._loops:
            if not self._created_in(value, loop):  # made before the loop: every further round needs it
                last, last_position = loop.last, loop.last_position
                break
        for loop in value.carried:
            first = min(first, loop.first)
            if loop.last > last:
                last, last_position = loop.last, loop.last_position
        if last <= tile.last:
            last, last_position = tile.last, tile.last_position
        self.found[value.call] = replace(tile, first=first, last=last, last_position=last_position)


def _merge(names: _Names, other: Mapping[str, frozenset[_Value]]) -> None:
    for name, values in other.items():
        names[name] = names.get(name, frozenset()) | values


def _runs(loop: For) -> bool:
    """Whether the loop is known to run at least once."""
    return isinstance(loop.start, int) and isinstance(loop.stop, int) and loop.start < loop.stop


def _last_position(loop: For) -> Position:
    last = loop.body[-1] if loop.body else loop
    return _last_position(last) if isinstance(last, For) and last is not loop else last.position


def place(function: Function, capacity: Mapping[Space, int]) -> MemoryMap:
    """Give every tile of a function its address.

    A tile lives from its creation to its last use. If a loop uses it but did not create it, or carries it
    into the next round, it lives to the end of that loop. In order of creation, each tile gets the lowest
    free 32-byte-aligned address.

    Args:
        function: an InCore function.
        capacity: bytes by memory.

    Raises:
        CapacityError: a memory is over its capacity.
    """
    lifetimes = _Lifetimes()
    lifetimes.walk(function.body, {})
    placed: list[Resident] = []
    by_call: dict[int, Resident] = {}
    for call, tile in sorted(lifetimes.found.items(), key=lambda item: item[1].first):
        alive = [
            other
            for other in placed
            if other.type.space is tile.type.space and other.first <= tile.last and tile.first <= other.last
        ]
        address = 0
        for other in sorted(alive, key=lambda other: other.address):
            if other.address - address >= tile.type.size:
                break
            address = max(address, -(-other.end // _ALIGNMENT) * _ALIGNMENT)
        resident = replace(tile, address=address)
        if resident.end > capacity[tile.type.space]:
            raise _over(resident, alive, capacity[tile.type.space])
        placed.append(resident)
        by_call[call] = resident
    return MemoryMap(tuple(placed), by_call)


def _over(tile: Resident, alive: Sequence[Resident], capacity: int) -> CapacityError:
    resident = ", ".join(
        f"{other.name} {list(other.type.shape)} {other.type.size} B at {other.address}" for other in alive
    )
    problem = (
        f"{tile.name} {list(tile.type.shape)} of {tile.type.size} B does not fit in {tile.type.space.name} "
        f"({tile.type.space.value}): it would end at byte {tile.end} of {capacity}; "
        f"resident: {resident or 'nothing else'}"
    )
    return CapacityError(tile.position, tile.operator, problem)
