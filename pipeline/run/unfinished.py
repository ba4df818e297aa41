"""The jobs of a run that have not ended, and the processes that run for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pipeline.ground.jobs import Job, State
from pipeline.ground.results import ATTEMPT, Attempt, Result
from pipeline.run.executor import Process
from pipeline.run.tries import Try


@dataclass
class Task:
    """A job of the plan that has not ended. `place` is where its last process ran; empty: at no place.

    `anywhere`: if it is tried again, then also where it was tried before.
    """

    job: Job
    place: str = ""
    state: State = State.PLANNED
    attempt: int = 1
    starts: int = 0
    tries: list[Try] = field(default_factory=list)
    repeats: list[Result] = field(default_factory=list)
    anywhere: bool = False

    @property
    def examined(self) -> bool:
        """Whether it has failed, so that only its end is looked for: the job's fault or the device's?"""
        return any(one.failed for one in self.tries)

    def with_tries(self, result: Result) -> Result:
        """The result of this job, with what became of its tries."""
        failures = [one for one in self.tries if one.result.state is not State.PASSED]
        if len(self.tries) > 1 or any(one.result.state is State.INFRASTRUCTURE for one in failures):
            told = (
                f"{one.device or 'no device'}: {one.result.message or one.result.state.value}"
                for one in failures
            )
            facts = {f"{ATTEMPT}{number}": text for number, text in enumerate(told, 1)}
            result = replace(result, facts={**result.facts, **facts})
        tries = tuple(
            Attempt(one.device, one.result.state, one.result.message, one.result.seconds)
            for one in self.tries
        )
        return replace(result, attempts=self.attempt, tries=tries)


@dataclass
class Running:
    """One process of a task, or a probe (no task)."""

    task: Task | None
    process: Process
    started: str
