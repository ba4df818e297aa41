"""A run in one minute: how many of what, what broke and where, what it usually comes from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.diff import render
from pipeline.jobs import DIAGNOSIS, OUTCOMES, Outcome, Result, State
from pipeline.report.cases import headline, wrong_diffs
from pipeline.report.text import one_line

REPRODUCE = "reproduce"
"""The fact that holds the command line which reruns a job."""

MEANING: Mapping[State, str] = {
    State.MISMATCH: "the output differs from the golden",
    State.COMPILE_ERROR: "the engine refuses the program",
    State.UNEXPECTED_PASS: "a known fault is gone: take its entry out of the matrix",
    State.NONDETERMINISTIC: "one input, different outputs: a race, or memory read before it is written",
    State.PERFORMANCE: "right, but slower than its limit",
    State.CRASHED: "the job's process died or raised; its output is with the case",
    State.TIMED_OUT: "it hung; the stacks of all its threads are with the case",
    State.KILLED: "somebody else ended the job's process, often for want of memory",
    State.NO_RESULT: "its process ended as if all were well, and gave no result",
    State.INTERRUPTED: "the run was stopped before it ended; resume it",
    State.INFRASTRUCTURE: "the device or its host; it says nothing about the kernel",
}
"""What each red state means where nothing more is known."""

_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")


@dataclass(frozen=True)
class Group:
    """Results that ended alike: one state, one diagnosis or message but for its numbers. Never empty."""

    results: tuple[Result, ...]

    @property
    def state(self) -> State:
        """The state all of them ended in."""
        return self.results[0].state

    @property
    def message(self) -> str:
        """The first one's message, for all."""
        return headline(self.results[0])

    @property
    def where(self) -> str:
        """Lanes, platforms, geometries, kernels and profiles that are hit."""
        jobs = [result.job for result in self.results]
        hit = {
            "lane": [job.lane.value for job in jobs],
            "platform": [job.platform.name for job in jobs],
            "geometry": [job.geometry_name for job in jobs],
            "kernel": [job.kernel for job in jobs],
            "profile": [job.profile for job in jobs if job.profile],
        }
        return "; ".join(f"{what} {', '.join(dict.fromkeys(names))}" for what, names in hit.items() if names)

    @property
    def why(self) -> str:
        """The diagnosis, else what such a difference usually comes from, else what the state means."""
        first = self.results[0]
        hints = (render.hint(diff) for diff in wrong_diffs(first))
        return one_line(first.facts.get(DIAGNOSIS, "")) or next(filter(None, hints), MEANING[self.state])

    @property
    def again(self) -> str:
        """The command line that reruns the first of them; empty where none was recorded."""
        return one_line(self.results[0].facts.get(REPRODUCE, ""))


@dataclass(frozen=True)
class Overview:
    """A run's results, counted and grouped; the largest groups first."""

    states: Mapping[State, int]
    broken: tuple[Group, ...]
    skipped: tuple[Group, ...]

    @property
    def line(self) -> str:
        """The run in one line."""
        counted = ", ".join(f"{count} {state.value}" for state, count in self.states.items())
        red = sum(len(group.results) for group in self.broken)
        total = sum(self.states.values())
        return (
            f"{red} of {total} jobs are red: {counted}" if red else f"no job is red: {counted or 'no jobs'}"
        )


def overview(results: Sequence[Result]) -> Overview:
    """Count and group the results of a run."""
    counts = Counter(result.state for result in results)
    by_outcome: dict[Outcome, list[Result]] = {}
    for result in results:
        by_outcome.setdefault(OUTCOMES[result.state].outcome, []).append(result)
    red = [*by_outcome.get(Outcome.FAILURE, ()), *by_outcome.get(Outcome.ERROR, ())]
    return Overview(
        states={state: counts[state] for state in State if counts[state]},
        broken=_grouped(red),
        skipped=_grouped(by_outcome.get(Outcome.SKIPPED, ())),
    )


def _grouped(results: Iterable[Result]) -> tuple[Group, ...]:
    groups: dict[tuple[State, str], list[Result]] = {}
    for result in results:
        cause = one_line(result.facts.get(DIAGNOSIS, "")) or _VARYING.sub("#", headline(result))
        groups.setdefault((result.state, cause), []).append(result)
    return tuple(sorted((Group(tuple(group)) for group in groups.values()), key=lambda g: -len(g.results)))
