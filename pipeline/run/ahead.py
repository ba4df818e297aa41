"""The process that computes goldens ahead of their jobs, while it is there; both executors use it."""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Mapping

from pipeline.run.goldens import Goldens, Wanted
from pipeline.run.nursery import Nursery


class GoldensAhead:
    """Nothing is waited for before `compute`, nor after the last golden."""

    def __init__(self) -> None:
        self._goldens: Goldens | None = None

    @property
    def wake_at(self) -> float:
        """When to call `wake` (monotonic, seconds)."""
        return self._goldens.give_up_at if self._goldens is not None else math.inf

    def compute(
        self, missing: Mapping[str, Wanted], nursery: Nursery, selector: selectors.BaseSelector
    ) -> None:
        """Have a process of the nursery compute the goldens that jobs need, by their ids."""
        if missing:
            self._selector = selector
            self._goldens = nursery.new_goldens(missing)
            self._selector.register(self._goldens, selectors.EVENT_READ, self._goldens.receive)

    def awaited_by(self, job_id: str) -> bool:
        """Whether a job has to wait for its golden."""
        return self._goldens is not None and self._goldens.holds(job_id)

    def wake(self) -> None:
        """End the process if all goldens are computed, or the remaining ones will not be."""
        if self._goldens is not None and time.monotonic() >= self._goldens.give_up_at:
            self._selector.unregister(self._goldens)
            self.close()

    def close(self) -> None:
        """End the process."""
        if self._goldens is not None:
            self._goldens.close()
            self._goldens = None
