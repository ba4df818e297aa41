"""The jobs that wait, in order, sorted by kind: of jobs that wait for the same, only the first is looked at.

At each event of a run, some job may be able to begin. A plan of thousands of jobs has a few kinds of them,
and whether the first of a kind can begin says it for all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Queue(Generic[T]):
    """Tasks in order, each of a kind. Tasks are told apart by identity."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, list[tuple[int, T]]] = {}
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
        heapq.heappush(self._kinds.setdefault(kind, []), (self._front if first else self._back, task))

    def offered(self, late: Callable[[T], bool]) -> Iterator[tuple[Hashable, T]]:
        """The first task of each kind with its kind, in order; those for which `late` holds come last.

        If a task is taken before the next is asked for, the one behind it in its kind is offered too.
        """
        order = [
            (late(line[0][1]), line[0][0], number, kind)
            for number, (kind, line) in enumerate(self._kinds.items())
        ]
        heapq.heapify(order)
        while order:
            *_, number, kind = heapq.heappop(order)
            line = self._kinds[kind]
            _, task = line[0]
            yield kind, task
            if line and line[0][1] is not task:
                heapq.heappush(order, (late(line[0][1]), line[0][0], number, kind))

    def take(self, kind: Hashable) -> T:
        """Take the first task of a kind out."""
        line = self._kinds[kind]
        _, task = heapq.heappop(line)
        if not line:
            del self._kinds[kind]
        return task

    def drain(self) -> Iterator[T]:
        """Take all tasks out, in order."""
        tasks = sorted((entry for line in self._kinds.values() for entry in line), key=lambda entry: entry[0])
        self._kinds.clear()
        return (task for _, task in tasks)
