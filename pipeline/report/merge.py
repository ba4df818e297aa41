"""Merges several reports into one: totals are kept, and what is missing becomes an error."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pipeline.commands.options import WITHIN
from pipeline.ground.jobs import Outcome, State
from pipeline.ground.words import counted
from pipeline.report.cases import RUN_SUITE
from pipeline.report.document import (
    OUTCOME_TAGS,
    ReportError,
    Totals,
    check,
    document_of,
    fit,
    name_of,
    outcome,
    properties_of,
    publish,
    read,
    set_property,
    with_message,
)
from pipeline.report.text import one_line, safe
from pipeline.run.folders import began, is_run_id
from pipeline.run.states import exit_code

MERGE_SUITE = "report.merge"
"""Suite and class name of the cases that say what is missing."""

SAME_EVERYWHERE = ("git", "division.compile", "division.run", "division.compare")
"""Run facts that must be the same in all reports that have them. If one differs, the reports are of different
nights, or the shards were divided by different records, so that some jobs may be in none of them."""

PROBLEMS = f"{RUN_SUITE} problems"
"""The name of the case that reports faults of the pipeline itself."""

_OWN_FACTS = ("report.suites", "report.duplicates")
"""Properties that describe one document; a merged document gets its own."""

_STATES = frozenset(state.value for state in State)
_SHARD = re.compile(r"\b([1-9][0-9]{0,2})/([1-9][0-9]{0,2})\b")
_WORST_LAST = (Outcome.PASSED, Outcome.SKIPPED, Outcome.FAILURE, Outcome.ERROR)


@dataclass(frozen=True)
class Merged:
    """What a merge found: the totals published, how many cases stood in several reports, what is missing.

    `outdated` says of which cases a newer run's better outcome counts. `exit_code` is that of the run as the
    merged report tells it. As text: the totals, then what is outdated, then what is missing.
    """

    totals: Totals
    duplicates: int
    missing: tuple[str, ...]
    exit_code: int
    outdated: tuple[str, ...] = ()

    def __str__(self) -> str:
        doubled = f", {counted(self.duplicates, 'case')} in several reports" if self.duplicates else ""
        return "\n".join([f"{self.totals}{doubled}", *self.outdated, *self.missing])


@dataclass(frozen=True)
class _Report:
    path: Path
    root: ET.Element

    @property
    def facts(self) -> dict[str, str]:
        """Properties of the first suite: the run facts stand in every one."""
        return properties_of(self.root[0]) if len(self.root) else {}


@dataclass(frozen=True)
class _Told:
    """A case as one report tells it. `runs` are the ids of the runs that it can be of, the oldest first."""

    case: ET.Element
    runs: tuple[str, ...]
    report: _Report

    def outdates(self, other: _Told) -> bool:
        """Whether it is certainly of a newer run, and says something about the job."""
        newer = bool(self.runs and other.runs) and self.runs[0] > other.runs[-1]
        return newer and _state(self.case) is not State.SKIPPED

    def __str__(self) -> str:
        return f"{_state(self.case).value} in run {self.runs[-1] if self.runs else 'unknown'}"


@dataclass(frozen=True)
class _Chosen:
    """A case as the merged report tells it: the telling that counts, and the worst of all `tellings`.

    `outdated` is the number of tellings that a newer run outdates.
    """

    counts: _Told
    worst: _Told
    tellings: int
    outdated: int

    @property
    def line(self) -> str:
        """What a newer run changed; empty if it changed nothing for the better."""
        if _badness(self.worst) <= _badness(self.counts):
            return ""
        return f"{self.counts.case.get('name')}: {self.worst}, {self.counts}, which counts"


def merge(
    paths: Sequence[Path],
    out: Path,
    shards: int | None = None,
    *,
    within: float = WITHIN,
    newest: bool = False,
) -> Merged:
    """Merge reports of one run's parts and publish the result.

    Suites of one name become one. Of a case in several reports the worst outcome stays, or with `newest` that
    of the newest run that did not skip it; the suite properties `report.duplicates` and `report.newest` count
    such cases. A report that is absent, broken or of another night (its run began more than `within` seconds
    before another), a suite that a report announces and lacks, a shard that no report holds: each is an error
    case. `shards` says how many shards there were; None takes it from the reports (`shard=2/3` in their run
    facts).

    Raises:
        ReportError: where none of the reports can be read or the result cannot be published.
    """
    reports, missing = _read_all(paths)
    if not reports:
        raise ReportError(f"nothing to merge: {'; '.join(missing.values()) or 'no report was given'}")
    for report in reports:
        missing.update(_lost_suites(report))
    missing.update(_missing_shards(reports, shards))
    missing.update(_other_nights(reports))
    missing.update(_other_times(reports, within))
    if missing:
        reports.append(_missing_report(missing))
    # Counted from the parts, so that a case missing from the file is noticed.
    told = _told(reports)
    if newest:
        told = _without_past_problems(told)
    chosen = {name: _chosen(tellings, newest=newest) for name, tellings in told.items()}
    totals = Totals.of(outcome(each.counts.case) for each in chosen.values())
    publish(out, fit(_united(reports, chosen)), totals)
    code = exit_code(_state(each.counts.case) for each in chosen.values())
    duplicates = sum(each.tellings - 1 for each in chosen.values())
    outdated = tuple(line for each in chosen.values() if (line := each.line))
    return Merged(totals, duplicates, tuple(missing.values()), code, outdated)


def _told(reports: Sequence[_Report]) -> dict[str, list[_Told]]:
    """All tellings of each case, by its name."""
    told: dict[str, list[_Told]] = {}
    for report in reports:
        for suite in report.root:
            runs = _runs_of(suite)
            for case in suite.findall("testcase"):
                told.setdefault(name_of(case), []).append(_Told(case, runs, report))
    return told


def _without_past_problems(told: Mapping[str, list[_Told]]) -> dict[str, list[_Told]]:
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


def _runs_of(suite: ET.Element) -> tuple[str, ...]:
    written = properties_of(suite).get("run", "").split("; ")
    return tuple(sorted(each for each in written if is_run_id(each)))


def _chosen(tellings: Sequence[_Told], *, newest: bool) -> _Chosen:
    valid = [each for each in tellings if not (newest and any(other.outdates(each) for other in tellings))]
    worst = max(tellings, key=_badness)
    counts = max(valid, key=_badness)
    return _Chosen(counts, worst, len(tellings), len(tellings) - len(valid))


def _badness(told: _Told) -> int:
    return _WORST_LAST.index(outcome(told.case))


def _read_all(paths: Iterable[Path]) -> tuple[list[_Report], dict[str, str]]:
    """The readable reports, and by case name what is wrong with the others."""
    reports, missing = [], {}
    for path in paths:
        try:
            report = _Report(path, read(path))
            if not check(report.root).tests:
                raise ReportError("holds no case, and so says nothing")
            reports.append(report)
        except ReportError as error:
            missing[f"report {path}"] = f"{path}: {str(error).removeprefix(f'{path}: ')}"
    return reports, missing


def _lost_suites(report: _Report) -> Iterator[tuple[str, str]]:
    here = {suite.get("name") for suite in report.root}
    for name in report.facts.get("report.suites", "").split():
        if name not in here:
            yield f"suite {name} of {report.path}", f"{report.path}: its suite {name} was lost"


def _missing_shards(reports: Sequence[_Report], expected: int | None) -> Iterator[tuple[str, str]]:
    """Shards that no report holds; instead, in one line, that there are other shards than there must be."""
    found = {shard: report for report in reports for shard in _SHARD.findall(report.facts.get("shard", ""))}
    told = {
        int(count): f"{report.path} is {'a whole run' if count == '1' else f'part {index} of {count}'}"
        for (index, count), report in found.items()
    }
    if len(told) > 1:
        yield "shards", f"{' and '.join(told.values())}; they cannot be merged"
    elif told and expected not in (None, *told):
        yield "shards", f"{told.popitem()[1]}, but --shards {expected} asks for other parts"
    elif count := next(iter(told), expected):
        for index in range(1, count + 1):
            if (str(index), str(count)) not in found:
                yield f"shard {index}/{count}", f"no report of shard {index}/{count}: its jobs are not judged"


def _other_nights(reports: Sequence[_Report]) -> Iterator[tuple[str, str]]:
    for fact in SAME_EVERYWHERE:
        values = {report.facts[fact]: report.path for report in reports if fact in report.facts}
        if len(values) > 1:
            listed = ", ".join(f"{value} ({path})" for value, path in values.items())
            message = f"the reports are not of one run: {fact} is {listed}"
            if fact.startswith("division."):
                message += "; all shards must be divided by the same recorded durations (docs/matrix.md)"
            yield f"fact {fact}", message


def _other_times(reports: Sequence[_Report], within: float) -> Iterator[tuple[str, str]]:
    runs = sorted(
        (run, report.path) for report in reports for suite in report.root for run in _runs_of(suite)
    )
    if not runs:
        return
    (first, early), (last, late) = runs[0], runs[-1]
    if (apart := began(last) - began(first)) > (most := timedelta(seconds=within)):
        message = (
            f"the reports are of runs that began {apart} apart, more than {most}: "
            f"{first} ({early}), {last} ({late}); --within TIME allows more"
        )
        yield "runs", message


def _missing_report(missing: Mapping[str, str]) -> _Report:
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=MERGE_SUITE)
    for name, message in missing.items():
        case = ET.SubElement(suite, "testcase", classname=MERGE_SUITE, name=one_line(name), time="0.000")
        error = ET.SubElement(case, "error", message=one_line(message), type=State.NO_RESULT.value)
        error.text = with_message(one_line(message), safe(message))
    return _Report(Path(), root)


def _united(reports: Sequence[_Report], chosen: Mapping[str, _Chosen]) -> ET.Element:
    by_name: dict[str, list[ET.Element]] = {}
    for report in reports:
        for suite in report.root:
            by_name.setdefault(suite.get("name", ""), []).append(suite)
    united = (_united_suite(suites, chosen) for suites in by_name.values())
    return document_of(suite for suite in united if suite.find("testcase") is not None)


def _united_suite(suites: Sequence[ET.Element], chosen: Mapping[str, _Chosen]) -> ET.Element:
    """Suites of one name as one: every case once, every fact with all its values."""
    united = ET.Element("testsuite", suites[0].attrib)
    facts: dict[str, list[str]] = {}
    for suite in suites:
        for name, value in properties_of(suite).items():
            if name not in _OWN_FACTS and value not in facts.setdefault(name, []):
                facts[name].append(value)
    for name, values in facts.items():
        set_property(united, name, "; ".join(values))
    names = dict.fromkeys(name_of(case) for suite in suites for case in suite.findall("testcase"))
    cases = [chosen[name] for name in names if name in chosen]
    united.extend(each.counts.case for each in cases)
    for name, count in (
        ("report.duplicates", sum(each.tellings - 1 for each in cases)),
        ("report.newest", sum(bool(each.outdated) for each in cases)),
    ):
        if count:
            set_property(united, name, str(count))
    return united


def _state(case: ET.Element) -> State:
    """The end state of a case; a case that failed in another tool's report counts as not judged."""
    if outcome(case) is Outcome.PASSED:
        return State.PASSED
    (said,) = (child.get("type") for child in case if child.tag in OUTCOME_TAGS)
    return State(said) if said in _STATES else State.NO_RESULT
