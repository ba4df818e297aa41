"""The jobs that wait, in order, sorted by kind: of jobs that wait for the same, only the first is looked at.

At each event of a run, some job may be able to begin. A plan of thousands of jobs has a few kinds of them,
and whether the first of a kind can begin says it for all.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterator
from operator import itemgetter
from typing import Generic, TypeVar

T = TypeVar("T")
_PLACE = itemgetter(0)


class Queue(Generic[T]):
    """Tasks in order, each of a kind. Tasks are told apart by identity."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, list[tuple[int, T]]] = {}
        # The place of the first task of each kind, and the kind, in order: if each job waits for a golden of
        # its own, there are hundreds of kinds, and few of them are looked at.
        self._heads: list[tuple[int, Hashable]] = []
        self._front, self._back = 0, 0

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def __iter__(self) -> Iterator[T]:
        """All tasks, in no particular order."""
        return (task for line in self._kinds.values() for _, task in line)

    def add(self, task: T, kind: Hashable, *, first: bool = False) -> None:
        """Add a task behind all others, or before all others."""
        if first:
            self._front -= 1
        else:
            self._back += 1
        place, line = self._front if first else self._back, self._kinds.setdefault(kind, [])
        if not line or place < line[0][0]:
            self._forget_head(line)
            insort(self._heads, (place, kind), key=_PLACE)
        heapq.heappush(line, (place, task))

    def offered(self, late: Callable[[T], bool]) -> Iterator[tuple[Hashable, T]]:
        """The first task of each kind with its kind, in order; those for which `late` holds come last.

        If a task is taken before the next is asked for, the one behind it in its kind is offered too.
        """
        behind: list[tuple[int, Hashable]] = []
        place: float = -math.inf
        while (at := bisect_right(self._heads, place, key=_PLACE)) < len(self._heads):
            place, kind = self._heads[at]
            task = self._kinds[kind][0][1]
            if late(task):
                behind.append(self._heads[at])
            else:
                yield kind, task
        while behind:
            _, kind = heapq.heappop(behind)
            line = self._kinds[kind]
            _, task = line[0]
            yield kind, task
            if line and line[0][1] is not task:
                heapq.heappush(behind, (line[0][0], kind))

    def take(self, kind: Hashable) -> T:
        """Take the first task of a kind out."""
        line = self._kinds[kind]
        self._forget_head(line)
        _, task = heapq.heappop(line)
        if line:
            insort(self._heads, (line[0][0], kind), key=_PLACE)
        else:
            del self._kinds[kind]
        return task

    def _forget_head(self, line: list[tuple[int, T]]) -> None:
        if line:
            del self._heads[bisect_left(self._heads, line[0][0], key=_PLACE)]

    def drain(self) -> Iterator[T]:
        """Take all tasks out, in order."""
        tasks = sorted((entry for line in self._kinds.values() for entry in line), key=lambda entry: entry[0])
        self._kinds.clear()
        self._heads.clear()
        return (task for _, task in tasks)
