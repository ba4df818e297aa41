"""An overview of a run: the counts, what broke and where, and the most likely cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pipeline.diff import render
from pipeline.ground.jobs import ExpectedFailure, State
from pipeline.ground.results import BLAMED, DIAGNOSIS, NEW, OUTCOMES, REPRODUCE, SINCE, Outcome, Result
from pipeline.ground.words import counted
from pipeline.report.cases import headline, wrong_diffs
from pipeline.report.text import alternatives, one_line
from pipeline.results.fingerprint import without_numbers

MEANING: Mapping[State, str] = {
    State.MISMATCH: "the output differs from the golden",
    State.REFUTED: "the program moves an element to where its definition does not say",
    State.COMPILE_ERROR: "the program, or the file that declares it, is refused",
    State.UNEXPECTED_PASS: "a known fault is gone: remove its entry from the matrix",
    State.NONDETERMINISTIC: "one input, different outputs: a race, or memory read before it is written",
    State.PERFORMANCE: "the output is right, but a metric is outside its limits, or was not measured",
    State.DEVICE_DEPENDENT: "it fails on one device and not on another: that device, or a race in the kernel",
    State.PROVOKED: "the kernel makes healthy devices fail, often by an address out of range",
    State.CRASHED: "the job's process died or raised; its output is with the case",
    State.TIMED_OUT: "it hung; the stacks of all its threads are with the case",
    State.KILLED: "something outside the pipeline ended the job's process, often because memory ran out",
    State.NO_RESULT: "the job's process ended without an error, but gave no result",
    State.INTERRUPTED: "the run was stopped before it ended: --resume RUN finishes it",
    State.INFRASTRUCTURE: "the device or its host failed; this says nothing about the kernel",
}
"""What each red state means if nothing more is known."""


@dataclass(frozen=True)
class Group:
    """Results of the same state, and of the same cause or message (apart from numbers). Never empty."""

    results: tuple[Result, ...]

    @property
    def state(self) -> State:
        """The state all of them ended in."""
        return self.results[0].state

    @property
    def cause(self) -> str:
        """The hypotheses that explain all of them, the likeliest first, or what of a program is to blame.

        Empty where nothing is known.
        """
        first, *others = self.results
        known = [cause for cause in first.causes if all(cause in one.causes for one in others)]
        return alternatives(known) or one_line(first.facts.get(BLAMED, ""))

    def heading(self, quote: Callable[[str], str] = one_line) -> str:
        """The number of results and their state, or their cause and platforms. `quote` quotes names."""
        if not self.cause:
            return f"{len(self.results)} {self.state.value}"
        platforms = ", ".join(dict.fromkeys(quote(result.job.platform_name) for result in self.results))
        jobs = counted(len(self.results), "job")
        return f"{jobs}, one cause: {quote(self.cause)}, platform {platforms}"

    @property
    def judged(self) -> bool:
        """Whether this is a judgement on the kernel (`failure`); else it was not judged (`error`)."""
        return OUTCOMES[self.state].outcome is Outcome.FAILURE

    @property
    def urgency(self) -> tuple[bool, bool, int]:
        """A key to sort by: wrong kernels before what was not judged, then what is new, then large groups."""
        new = any(result.facts.get(SINCE) == NEW for result in self.results)
        return not self.judged, not new, -len(self.results)

    @property
    def since(self) -> str:
        """The first run with these failures, and how many are new in this one; empty where not known."""
        known = [since for result in self.results if (since := result.facts.get(SINCE))]
        new = known.count(NEW)
        if new == len(known):
            return "new in this run" if known else ""
        first = one_line(min(since for since in known if since != NEW))
        return f"run {first}" + (f"; {new} of {len(self.results)} jobs new in this run" if new else "")

    @property
    def message(self) -> str:
        """The first one's message, for all."""
        return headline(self.results[0])

    @property
    def where(self) -> str:
        """Lanes, platforms, devices, geometries, kernels and profiles that are hit."""
        jobs = [result.job for result in self.results]
        hit = {
            "lane": [job.lane.value for job in jobs],
            "platform": [job.platform_name for job in jobs],
            "device": [str(one.device) for one in self.results if one.device is not None],
            "geometry": [job.geometry_name for job in jobs],
            "kernel": [job.kernel for job in jobs],
            "profile": [job.profile for job in jobs if job.profile],
        }
        return "; ".join(f"{what} {', '.join(dict.fromkeys(names))}" for what, names in hit.items() if names)

    @property
    def why(self) -> str:
        """The first one's diagnosis if it explains the difference.

        Else what such a difference usually comes from, else why no fault explains it, else what the state
        means.
        """
        first = self.results[0]
        unexplained = (one_line(stage.facts.get(DIAGNOSIS, "")) for stage in first.stages)
        hints = (render.hint(diff) for diff in wrong_diffs(first))
        known = (one_line(first.facts.get(DIAGNOSIS, "")), *hints, *unexplained)
        return next(filter(None, known), MEANING[self.state])

    @property
    def again(self) -> str:
        """The command line that reruns the first of them; empty where none was recorded."""
        return one_line(self.results[0].facts.get(REPRODUCE, ""))


@dataclass(frozen=True)
class Overview:
    """A run's results, counted and grouped; the most urgent groups first."""

    states: Mapping[State, int]
    broken: tuple[Group, ...]
    skipped: tuple[Group, ...]

    def verdict(self, seconds: float, exit_code: int) -> str:
        """The run in one line, with how long it took and how it ended."""
        return f"{self.line}; {seconds:.1f} s, exit code {exit_code}"

    def title(self, exit_code: int) -> str:
        """The run in one line, as a heading."""
        return f"{'Passed' if exit_code == 0 else f'Failed (exit code {exit_code})'}: {self.line}"

    @property
    def line(self) -> str:
        """The run's states in one line."""
        states = ", ".join(f"{count} {state.value}" for state, count in self.states.items())
        red = sum(len(group.results) for group in self.broken)
        if red:
            jobs = counted(sum(self.states.values()), "job")
            return f"{red} of {jobs} {'is' if red == 1 else 'are'} red: {states}"
        executed = any(state is not State.SKIPPED for state in self.states)
        return f"{'no job is red' if executed else 'nothing was executed'}: {states or 'no jobs'}"


def overview(results: Iterable[Result]) -> Overview:
    """Count and group the results of a run."""
    counts: Counter[State] = Counter()
    ended: dict[Outcome, list[Result]] = {outcome: [] for outcome in Outcome}
    for result in results:
        counts[result.state] += 1
        if (outcome := OUTCOMES[result.state].outcome) is not Outcome.PASSED:
            ended[outcome].append(result)
    return Overview(
        states={state: counts[state] for state in State if counts[state]},
        broken=_grouped([*ended[Outcome.FAILURE], *ended[Outcome.ERROR]]),
        skipped=_grouped(ended[Outcome.SKIPPED]),
    )


def _grouped(results: Iterable[Result]) -> tuple[Group, ...]:
    groups: dict[tuple[State, ExpectedFailure | None, str], list[Result]] = {}
    # Results with a single cause come first; a result with several then joins a group that has one of them.
    for result in sorted(results, key=lambda result: len(result.causes)):
        told = one_line(result.facts.get(BLAMED, "")) or without_numbers(headline(result))
        alike = result.causes or (told,)
        # What is excused by different entries has different messages.
        entry = result.job.expected_failure if result.state is State.EXPECTED_FAILURE else None
        cause = next((cause for cause in alike if (result.state, entry, cause) in groups), alike[0])
        groups.setdefault((result.state, entry, cause), []).append(result)
    return tuple(sorted((Group(tuple(group)) for group in groups.values()), key=lambda group: group.urgency))
