"""What a run brings, in short: what is new, fixed, sick and slower, as Markdown of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.ground.results import NEW, OUTCOMES, SINCE, Outcome, Result
from pipeline.ground.words import counted
from pipeline.report.overview import Group, overview
from pipeline.report.results import RunResults
from pipeline.report.text import likely, quoted

if TYPE_CHECKING:  # it imports SQLAlchemy
    from pipeline.history.answers import Moved

LIMIT = 16_384
"""Bytes of the Markdown, in UTF-8."""

_SHOWN = 10
_LINE = 200


@dataclass(frozen=True)
class Moves:
    """What the history says of a run; `unknown` is why it does not say it, if so.

    `fixed` gives, for each job that passes again, the run in which it failed last.
    """

    fixed: Mapping[str, str] = field(default_factory=dict)
    slower: Sequence[Moved] = ()
    unknown: str = ""


def markdown(results: RunResults, moves: Moves) -> str:
    """Tell a run.

    What does not fit into `LIMIT` bytes is left out, the least urgent first, and a line says so.
    """
    lines = list(_lines(results, moves))
    left_out = "\n*More is left out.*"
    text = "\n".join(lines)
    if len(text.encode()) < LIMIT:
        return text + "\n"
    while len("\n".join([*lines, left_out]).encode()) >= LIMIT:
        lines.pop()
    return "\n".join([*lines, left_out]) + "\n"


def new_ones(results: Sequence[Result]) -> list[Result]:
    """The red results that the last run of their job did not have in this way."""
    return [one for one in results if _red(one) and one.facts.get(SINCE) == NEW]


def _lines(results: RunResults, moves: Moves) -> Iterator[str]:
    new = new_ones(results.jobs)
    old = [one for one in results.jobs if _red(one) and one not in new]
    sick = {
        **{device: f"was set aside: {why}" for device, why in results.set_aside.items()},
        **{device: f"is in doubt: {why}" for device, why in results.undecided.items()},
    }
    yield f"## {overview(results.jobs).title(results.exit_code)}"
    yield ""
    yield f"run {quoted(results.run)}, commit {quoted(results.commit)}, host {quoted(results.host)}"
    for problem in results.problems:
        yield f"\n**The pipeline itself failed:** {quoted(problem, _LINE)}"
    yield from _section("New", _broken(new))
    again = [f"- {quoted(job)}: failed in run {quoted(run)}" for job, run in moves.fixed.items()]
    yield from _section("Fixed", again)
    devices = [f"- device {quoted(device)} {quoted(why, _LINE)}" for device, why in sick.items()]
    yield from _section("Sick devices", devices)
    yield from _section("Slower", [_slower(one) for one in moves.slower])
    yield from _section("Still red", _broken(old))
    if moves.unknown:
        yield f"\nWhat is fixed, and what is slower, is not known: {quoted(moves.unknown, _LINE)}"
    elif not (new or moves.fixed or sick or moves.slower or old or results.problems):
        yield "\nNothing is new."


def _section(heading: str, entries: Sequence[str]) -> Iterator[str]:
    if entries:
        yield f"\n### {heading}\n"
        yield from entries[:_SHOWN]
    if more := len(entries[_SHOWN:]):
        yield f"- and {more} more"


def _slower(one: Moved) -> str:
    usual = f"{one.percent:+.1f} % of the median {one.median:g} of {counted(one.values, 'run')}"
    return f"- {quoted(one.job)}: {quoted(one.metric)} is {one.value:g}, {usual}"


def _broken(results: Sequence[Result]) -> list[str]:
    """An entry for each cause, the most urgent first."""
    return [_entry(group) for group in overview(results).broken]


def _entry(group: Group) -> str:
    jobs = ", ".join(quoted(one.job.id) for one in group.results[:3])
    more = f" and {counted(len(group.results) - 3, 'more job')}" if len(group.results) > 3 else ""
    why = likely(group.why, lambda text: quoted(text, _LINE))
    since = "" if group.since.startswith(NEW) else f"; since {quoted(group.since)}"
    return f"- {group.heading(quoted)}: {quoted(group.message, _LINE)}; {why}; {jobs}{more}{since}"


def _red(result: Result) -> bool:
    return OUTCOMES[result.state].outcome in (Outcome.FAILURE, Outcome.ERROR)
