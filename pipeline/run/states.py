"""The state machine of a job, and the exit code of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from pipeline.ground.jobs import OUTCOMES, Result, State

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

INTERNAL_ERROR = 3
NOTHING_EXECUTED = 5


class IllegalTransitionError(RuntimeError):
    """A job was about to make a change of state that is not in `LEGAL`: a fault of the pipeline."""


def advance(job_id: str, old: State, new: State) -> State:
    """Return `new`. Raises `IllegalTransitionError` if `new` may not follow `old`."""
    if new not in LEGAL[old]:
        raise IllegalTransitionError(f"{job_id}: {old.value} -> {new.value}")
    return new


def is_end(state: State) -> bool:
    """True for a state that no other state follows."""
    return state in _ENDS


def exit_code(results: Sequence[Result]) -> int:
    """Exit code of a run whose jobs have these results; see `exit_code_of`."""
    return exit_code_of({result.state for result in results})


def exit_code_of(ends: Set[State]) -> int:
    """Exit code of a run: 2 interrupted, else 1 failed, else 6 infrastructure, else 5 nothing executed.

    `OUTCOMES` gives the exit code of each state. Interruption comes first because the other results are then
    incomplete.
    """
    asked = {OUTCOMES[state].exit_code for state in ends}
    for code in (2, 1, 6):
        if code in asked:
            return code
    return 0 if ends - {State.SKIPPED} else NOTHING_EXECUTED
