"""The errors of the emulator: each says where, which operator, and the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from emulator.operands import Position


class KernelError(Exception):
    """A kernel was refused.

    Attributes:
        position: file and line of the kernel source.
        operator: the operator or construct at fault, such as `pl.tile.img2col`.
        problem: what is wrong, with the numbers.
    """

    def __init__(self, position: Position, operator: str, problem: str) -> None:
        self.position = position
        self.operator = operator
        self.problem = problem
        around = "".join(f" (called from {caller})" for caller in callers(position))
        super().__init__(f"{position}: {operator}: {problem}{around}")


def callers(position: Position) -> Iterator[Position]:
    """The lines that called the inline helpers around a position, the innermost first."""
    while position.caller is not None:
        position = position.caller
        yield position


class SourceError(KernelError):
    """The source is not in the language; PyPTO refuses it too, or would compile something else."""


class TypeMismatchError(KernelError):
    """A shape, dtype, alignment or memory space does not fit the operator."""


class CapacityError(KernelError):
    """A memory is over its capacity; the message lists what is resident."""


class AccessError(KernelError):
    """A read or write is outside its bounds or off its fractal, or what is read was never written.

    Attributes:
        rounds: the rounds of the loops around it, where they are known.
    """

    rounds: Mapping[str, int] = MappingProxyType({})
