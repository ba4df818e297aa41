"""An InCore function as it runs: its instructions one after another, each with the bytes that it accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from emulator.memory import MemoryMap
from emulator.operands import evaluate
from emulator.program import Bind, Call, For, Function, If, Statement, TileType
from lowering.instructions import INSTRUCTIONS, Pipe, reference


@dataclass(frozen=True)
class Area:
    """Bytes that belong together: those of a whole tile in an on-chip memory, or of a whole tensor."""

    memory: str
    start: int
    end: int

    def meets(self, other: Area) -> bool:
        """Whether both have a byte in common."""
        return self.memory == other.memory and self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        return f"bytes {self.start} to {self.end} of {self.memory}"


@dataclass(frozen=True)
class Step:
    """One instruction of a run: the call that it is, its pipe, and what it reads and writes."""

    call: Call
    pipe: Pipe
    reads: tuple[Area, ...]
    write: Area

    def __str__(self) -> str:
        return f"{self.call.position} pl.{self.call.operator} on {self.pipe.value}"


def unroll(function: Function, memory: MemoryMap, rounds: int | None = None) -> tuple[Step, ...]:
    """The instructions of a function in the order of the program.

    Args:
        function: an InCore function.
        memory: where its tiles lie.
        rounds: the most rounds of a loop that are taken; None for all.
    """
    return tuple(_Unrolled(function, memory, rounds).steps(function.body))


class _Unrolled:
    def __init__(self, function: Function, memory: MemoryMap, rounds: int | None) -> None:
        self._memory = memory
        self._rounds = rounds
        self._loops: dict[str, int] = {}
        # No tensor is another one: the reader refuses a call in which an output is passed twice.
        self._held = {
            param.name: Area(f"tensor {param.name}", 0, prod(param.type.shape) * param.type.dtype.size)
            for param in function.params
        }

    def steps(self, statements: Sequence[Statement]) -> Iterator[Step]:
        for statement in statements:
            if isinstance(statement, For):
                start, stop = evaluate(statement.start, self._loops), evaluate(statement.stop, self._loops)
                last = stop if self._rounds is None else min(stop, start + self._rounds)
                for index in range(start, last):
                    self._loops[statement.variable] = index
                    yield from self.steps(statement.body)
            elif isinstance(statement, If):
                taken = evaluate(statement.condition, self._loops)
                yield from self.steps(statement.then if taken else statement.orelse)
            elif isinstance(statement, Bind):
                self._held[statement.target] = self._held[statement.source]
            elif isinstance(statement, Call):
                yield from self._call(statement)

    def _call(self, call: Call) -> Iterator[Step]:
        instruction, operands, result = INSTRUCTIONS[call.operator], call.operands, call.result
        held = {name: self._held[reference(operands[name])] for name in instruction.accesses}
        if instruction.writes:
            written = held[instruction.writes]
        else:
            assert isinstance(result, TileType)
            resident = self._memory.at(call)
            written = Area(result.space.value, resident.address, resident.end)
        decides = held[instruction.decides] if instruction.decides else written
        pipe = instruction.pipe_in(decides.memory)
        if pipe is not None:
            yield Step(call, pipe, tuple(held[name] for name in instruction.reads), written)
        self._held[call.target] = written
