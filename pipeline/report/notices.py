"""What a reader must not miss although no red job says it: checks that fell away, or held late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline.ground.jobs import State
from pipeline.ground.results import ATTEMPT, KNOWN_IN, RAN_IN, Result
from pipeline.ground.words import counted
from pipeline.results.performance import NOT_COMPARED, REFERENCE

_SHOWN = 10


@dataclass(frozen=True)
class Notice:
    """What happened, in one line, and details, a line each."""

    what: str
    details: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """The first details, and how many more there are."""
        more = len(self.details) - _SHOWN
        return (*self.details[:_SHOWN], *([f"and {more} more"] if more > 0 else []))


def notices(results: Iterable[Result]) -> Iterator[Notice]:
    """Notices of a run's results, the most urgent first."""
    gone: list[str] = []
    known: list[str] = []
    late: list[str] = []
    foreign = 0
    for result in results:
        if RAN_IN in result.facts:
            gone.append(f"{result.job.id}: ran in run {result.facts[RAN_IN]}")
        if result.state is State.KNOWN_FAILURE:
            known.append(result.facts[KNOWN_IN])
        if result.state is State.PASSED and result.attempts > 1:
            late.append(_late(result))
        foreign += sum(
            name.startswith(REFERENCE) and fact.startswith(NOT_COMPARED)
            for name, fact in result.facts.items()
        )
    if gone:
        yield Notice(f"{counted(len(gone), 'job')} ran before and cannot run now", tuple(gone))
    if known:
        runs = " and ".join(dict.fromkeys(known))
        yield Notice(f"{counted(len(known), 'failure')} not counted: the baseline {runs} has the same")
    if late:
        yield Notice(f"{counted(len(late), 'job')} passed only on a later attempt", tuple(late))
    if foreign:
        what = f"{counted(foreign, 'metric')} not compared: the references are of another device model"
        yield Notice(what)


def _late(result: Result) -> str:
    """A job, at which attempt it passed, and what the earlier ones said."""
    tries = [text for name, text in result.facts.items() if name.startswith(ATTEMPT)]
    return f"{result.job.id}: attempt {result.attempts}; before: {'; '.join(tries)}"
