"""A sequence whose items are made each time they are asked for, so that thousands need not lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, overload

Item = TypeVar("Item")
Source = TypeVar("Source")


class Computed(Sequence[Item]):
    """`make` applied to each item of `sources`, in their order."""

    def __init__(self, make: Callable[[Source], Item], sources: Sequence[Source]) -> None:
        self._item: Callable[[int], Item] = lambda number: make(sources[number])
        self._numbers = range(len(sources))

    @overload
    def __getitem__(self, where: int) -> Item: ...

    @overload
    def __getitem__(self, where: slice) -> Sequence[Item]: ...

    def __getitem__(self, where: int | slice) -> Item | Sequence[Item]:
        """One item, or those of a slice, which are then kept."""
        found: int | Iterable[int] = self._numbers[where]
        return self._item(found) if isinstance(found, int) else tuple(map(self._item, found))

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._numbers)
