"""Tries changes of a program: which single number mends what a line is under suspicion of."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from emulator.backward import Suspicion
from emulator.blame.task import Task
from emulator.errors import AccessError
from emulator.operands import Position
from emulator.repair import Change, candidates, numbers
from emulator.trace import Line

_SECONDS = 3.0
"""Seconds of processor time after which no further number is tried; at MC62 one can take three."""


class Trials:
    """Proves changed programs, until time is out. `mended` is the change that left nothing wrong.

    Args:
        task: the program that is wrong.
        groups: the suspicions of each cause.
    """

    def __init__(self, task: Task, groups: Sequence[Sequence[Suspicion]]) -> None:
        self._task = task
        self._lines = [group[0].event.line for group in groups]
        self._asked = [[*numbers(group)] for group in groups]
        self._until = time.process_time() + _SECONDS
        self._wrong = task.wrong()
        self.mended: Change | None = None
        self._groups = groups

    def change(self, group: Sequence[Suspicion]) -> Change | None:
        """A number that mends what the line of a group is under suspicion of; None if there is none.

        Either nothing is wrong with the program any more, or less is, and of all lines under suspicion this
        one no longer is, and no other has come.
        """
        proposed = candidates(self._task.program, group)
        for change in sorted(proposed, key=lambda each: -self._shared(each)):
            if time.process_time() > self._until:
                break
            changed = replace(self._task, program=change.applied(self._task.program))
            wrong = changed.wrong()
            several = len(self._lines) > 1 and wrong < self._wrong and not change.parts
            if wrong == 0 or (several and self._better(changed, group[0].event.line)):
                self.mended = change if wrong == 0 else None
                return change
        return None

    def sharing(self, change: Change) -> list[Position]:
        """The lines under suspicion that the same value would be right for."""
        return [
            group[0].event.step.call.position
            for group, asked in zip(self._groups, self._asked, strict=True)
            if any(change.alike(other) for other in asked)
        ]

    def _shared(self, change: Change) -> int:
        """How many lines under suspicion the same value would be right for; 0 if it is one."""
        count = len(self.sharing(change))
        return count if count > 1 else 0

    def _better(self, changed: Task, line: Line) -> bool:
        """Whether a line is no longer under suspicion, and no other has come."""
        try:
            found = changed.suspicions()
        except AccessError:
            return False
        left = {suspicion.event.line for suspicion in found}
        return line not in left and left <= set(self._lines)
