"""What reports tell of each job, and which telling counts: the worst, or that of the newest run."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.ground.jobs import Lane, State
from pipeline.ground.results import OUTCOMES, Outcome
from pipeline.ground.settings import DECLARED
from pipeline.ground.words import counted
from pipeline.report.cases import RUN_SUITE
from pipeline.report.document import name_of, outcome, properties_of
from pipeline.report.parts import USUAL, Part, in_words, runs_of
from pipeline.report.reread import state_of

PROBLEMS = f"{RUN_SUITE} problems"
"""The name of the case that reports faults of the pipeline itself."""

_WORST_LAST = (Outcome.PASSED, Outcome.SKIPPED, Outcome.ERROR, Outcome.FAILURE)


@dataclass(frozen=True)
class Telling:
    """A job as one report tells it: its own case, then those of its stages.

    `runs` are the ids of the runs that it can be of, the oldest first; none if one of them is unknown.
    `settings` are the values that each setting can have had.
    """

    cases: tuple[ET.Element, ...]
    runs: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]
    report: Part

    @property
    def judges(self) -> bool:
        """Whether it says something about the job, not only about the host or the run."""
        state = state_of(self.cases[0])
        return state is not State.SKIPPED and OUTCOMES[state].exit_code in (0, 1)

    @property
    def badness(self) -> list[tuple[int, bool]]:
        """A wrong kernel is worse than a job that was not judged, and of these exit code 1 than 6."""
        return sorted(map(_badness, self.cases), reverse=True)

    def newer(self, other: Telling) -> bool:
        """Whether it is certainly of a newer run."""
        return bool(self.runs and other.runs) and self.runs[0] > other.runs[-1]

    def lacks(self, other: Telling) -> str:
        """By which settings it may check less than the other; empty if it checks at least the same."""
        mine, others = self.settings, other.settings
        return ", ".join(
            f"{each.option} was {in_words(others[each.name])}, is {in_words(mine[each.name])}"
            for each in DECLARED
            if not all(each.covers(now, then) for now in mine[each.name] for then in others[each.name])
        )

    def outdates(self, other: Telling) -> bool:
        """Whether it is certainly of a newer run, judges the job, and checks at least the same."""
        return self.judges and self.newer(other) and not self.lacks(other)

    def __str__(self) -> str:
        return f"{state_of(self.cases[0]).value} in run {self.runs[-1] if self.runs else 'unknown'}"


@dataclass(frozen=True)
class Chosen:
    """A job as the merged report tells it: the telling that counts, and all `tellings`.

    `outdated` is the number of tellings that a newer run outdates. `kept` says why a better telling does not
    count that may be newer; empty if there is none.
    """

    counts: Telling
    tellings: Sequence[Telling]
    outdated: int
    kept: str

    @property
    def doubled(self) -> int:
        """How many cases stood in other reports too."""
        names = [name_of(case) for each in self.tellings for case in each.cases]
        return len(names) - len(set(names))

    @property
    def name(self) -> str:
        """The name of the job's own case."""
        return self.counts.cases[0].get("name", "")

    @property
    def line(self) -> str:
        """What a newer run changed; empty if it changed nothing for the better."""
        worst = max(self.tellings, key=lambda each: each.badness)
        if self.kept or max(worst.badness) <= max(self.counts.badness):
            return ""
        return f"{self.name}: {worst}, {self.counts}, which counts"


def tellings_of(reports: Sequence[Part]) -> dict[str, list[Telling]]:
    """All tellings of each job, by the name of its own case."""
    names = {name_of(case) for report in reports for case in report.root.iter("testcase")}
    told: dict[str, list[Telling]] = {}
    for report in reports:
        for suite in report.root:
            jobs: dict[str, list[ET.Element]] = {}
            for case in suite.findall("testcase"):
                jobs.setdefault(_job_of(case, names), []).append(case)
            runs, settings = runs_of(suite), _settings_of(suite)
            for name, cases in jobs.items():
                cases.sort(key=lambda case: name_of(case) != name)
                told.setdefault(name, []).append(Telling(tuple(cases), runs, settings, report))
    return told


def _job_of(case: ET.Element, names: Collection[str]) -> str:
    """The name of the case of the job that a case belongs to: in the lane `compare` stages have their own."""
    name = name_of(case)
    if not name.startswith(f"{Lane.COMPARE.value}."):
        return name
    above = itertools.accumulate(name.split("/"), "{}/{}".format)
    return next(each for each in above if each in names)


def _settings_of(suite: ET.Element) -> dict[str, tuple[str, ...]]:
    """The values of each setting: of a merged suite those of all parts, of a resumed run both."""
    facts = properties_of(suite)
    told = {name: [facts.get(name, usual), facts.get(f"resumed.{name}")] for name, usual in USUAL.items()}
    return {
        name: tuple(value for text in texts if text is not None for value in text.split("; "))
        for name, texts in told.items()
    }


def without_past_problems(told: Mapping[str, list[Telling]]) -> dict[str, list[Telling]]:
    """All tellings but those of problems of a run whose jobs have all been run anew."""
    jobs = {name: tellings for name, tellings in told.items() if name != PROBLEMS}
    valid = {
        id(each.report)
        for tellings in jobs.values()
        for each in tellings
        if not any(other.outdates(each) for other in tellings)
    }
    problems = [each for each in told.get(PROBLEMS, ()) if id(each.report) in valid]
    return {**jobs, **({PROBLEMS: problems} if problems else {})}


def choose(tellings: Sequence[Telling], *, newest: bool) -> Chosen:
    """Which telling of a job counts: the worst; with `newest`, of those that no newer one outdates."""
    valid = [each for each in tellings if not (newest and any(other.outdates(each) for other in tellings))]
    counts = max(valid, key=lambda each: each.badness)
    kept = ""
    if newest:
        better = (each for each in valid if each.judges and max(each.badness) < max(counts.badness))
        kept = next((why for each in better if (why := _why_kept(counts, each))), "")
    return Chosen(counts, tellings, len(tellings) - len(valid), kept)


def _why_kept(counts: Telling, better: Telling) -> str:
    """Why the worse telling counts; empty if it is the newer one."""
    if counts.newer(better):
        return ""
    if not better.newer(counts):
        why = "the reports do not say which run is newer"
    else:
        why = f"the newer run may check less: {better.lacks(counts)}"
    return f"{counts} counts, not {better}: {why}"


def kept_lines(chosen: Iterable[Chosen]) -> Iterator[str]:
    """One line for each reason for which a telling counts that may be older."""
    names: dict[str, list[str]] = {}
    for each in chosen:
        if each.kept:
            names.setdefault(each.kept, []).append(each.name)
    for why, (first, *more) in names.items():
        others = f" and {counted(len(more), 'more job')}" if more else ""
        yield f"{first}{others}: {why}"


def _badness(case: ET.Element) -> tuple[int, bool]:
    return _WORST_LAST.index(outcome(case)), OUTCOMES[state_of(case)].exit_code == 1
