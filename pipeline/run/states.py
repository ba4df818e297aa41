"""The state machine of a job, and the exit code of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES

_ENDS = frozenset(OUTCOMES)

LEGAL: Mapping[State, frozenset[State]] = {
    # If a required platform is not available, its jobs end as infrastructure without running.
    State.PLANNED: frozenset({State.WAITING, State.SKIPPED, State.INFRASTRUCTURE, State.INTERRUPTED}),
    # Infrastructure: no device of the pool is left.
    State.WAITING: frozenset({State.RUNNING, State.INFRASTRUCTURE, State.INTERRUPTED}),
    # Back to waiting: another try after an infrastructure error, or the next of several repeats.
    State.RUNNING: _ENDS | {State.WAITING},
    **{end: frozenset() for end in _ENDS},
}
"""The states that may follow each state; docs/states.md shows the same table."""

NOTHING_EXECUTED = 5


def advance(job_id: str, old: State, new: State) -> State:
    """Return `new`. Raises `RuntimeError` if it may not follow `old`, which is a fault of the pipeline."""
    if new not in LEGAL[old]:
        raise RuntimeError(f"{job_id}: {old.value} -> {new.value}")
    return new


def exit_code(ends: Iterable[State]) -> int:
    """Exit code of a run: 2 interrupted, else 1 failed, else 6 infrastructure, else 5 nothing executed.

    `OUTCOMES` gives the exit code of each job's end. Interruption comes first because the other results are
    then incomplete.
    """
    ended = set(ends)
    asked = {OUTCOMES[state].exit_code for state in ended}
    usual = 0 if ended - {State.SKIPPED} else NOTHING_EXECUTED
    return next((code for code in (2, 1, 6) if code in asked), usual)
