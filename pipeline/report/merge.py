"""Merges several reports into one: totals are kept, and what is missing becomes an error."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.ground.jobs import Outcome, State
from pipeline.ground.words import counted
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
)
from pipeline.report.text import one_line
from pipeline.run.states import exit_code

MERGE_SUITE = "report.merge"
"""Suite and class name of the cases that say what is missing."""

SAME_EVERYWHERE = ("git", "division.compile", "division.run", "division.compare")
"""Run facts that must be the same in all reports that have them. If one differs, the reports are of different
nights, or the shards were divided by different records, so that some jobs may be in none of them."""

_OWN_FACTS = ("report.suites", "report.duplicates")
"""Properties that describe one document; a merged document gets its own."""

_STATES = frozenset(state.value for state in State)
_SHARD = re.compile(r"\b([1-9][0-9]{0,2})/([1-9][0-9]{0,2})\b")
_WORST_LAST = (Outcome.PASSED, Outcome.SKIPPED, Outcome.FAILURE, Outcome.ERROR)


@dataclass(frozen=True)
class Merged:
    """What a merge found: the totals published, how many cases stood in several reports, what is missing.

    `exit_code` is that of the run as the merged report tells it. As text: the totals, then what is missing.
    """

    totals: Totals
    duplicates: int
    missing: tuple[str, ...]
    exit_code: int

    def __str__(self) -> str:
        doubled = f", {counted(self.duplicates, 'case')} in several reports" if self.duplicates else ""
        return "\n".join([f"{self.totals}{doubled}", *self.missing])


@dataclass(frozen=True)
class _Report:
    path: Path
    root: ET.Element

    @property
    def facts(self) -> dict[str, str]:
        """Properties of the first suite: the run facts stand in every one."""
        return properties_of(self.root[0]) if len(self.root) else {}


def merge(paths: Sequence[Path], out: Path, shards: int | None = None) -> Merged:
    """Merge reports of one run's parts and publish the result.

    Suites of one name become one. A case in several reports keeps its worst outcome; the suite property
    `report.duplicates` counts such cases. A report that is absent, broken or of another night, a suite that a
    report announces and lacks, a shard that no report holds: each is an error case. `shards` says how many
    shards there were; None takes it from the reports (`shard=2/3` in their run facts).

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
    if missing:
        reports.append(_missing_report(missing))
    # Counted from the parts, so that a case missing from the file is noticed.
    cases = [case for report in reports for case in report.root.iter("testcase")]
    worst = _worst_of_each(cases).values()
    totals = Totals.of(map(outcome, worst))
    publish(out, fit(_united(reports)), totals)
    code = exit_code(map(_state, worst))
    return Merged(totals, len(cases) - totals.tests, tuple(missing.values()), code)


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
    """Shards that no report holds; also whether reports disagree about the number of shards."""
    found = {shard for report in reports for shard in _SHARD.findall(report.facts.get("shard", ""))}
    counts = {int(count) for _, count in found} | ({expected} if expected is not None else set())
    if len(counts) > 1:
        listed = ", ".join(map(str, sorted(counts)))
        yield "shards", f"the reports do not belong together: they are of runs with {listed} shards"
    for count in counts:
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


def _missing_report(missing: Mapping[str, str]) -> _Report:
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=MERGE_SUITE)
    for name, message in missing.items():
        case = ET.SubElement(suite, "testcase", classname=MERGE_SUITE, name=one_line(name), time="0.000")
        error = ET.SubElement(case, "error", message=one_line(message), type=State.NO_RESULT.value)
        error.text = message
    return _Report(Path(), root)


def _united(reports: Sequence[_Report]) -> ET.Element:
    by_name: dict[str, list[ET.Element]] = {}
    for report in reports:
        for suite in report.root:
            by_name.setdefault(suite.get("name", ""), []).append(suite)
    return document_of(map(_united_suite, by_name.values()))


def _united_suite(suites: Sequence[ET.Element]) -> ET.Element:
    """Suites of one name as one: every case once, every fact with all its values."""
    united = ET.Element("testsuite", suites[0].attrib)
    facts: dict[str, list[str]] = {}
    for suite in suites:
        for name, value in properties_of(suite).items():
            if name not in _OWN_FACTS and value not in facts.setdefault(name, []):
                facts[name].append(value)
    for name, values in facts.items():
        set_property(united, name, "; ".join(values))
    cases = _worst_of_each(case for suite in suites for case in suite.findall("testcase"))
    united.extend(cases.values())
    duplicates = sum(len(suite.findall("testcase")) for suite in suites) - len(cases)
    if duplicates:
        set_property(united, "report.duplicates", str(duplicates))
    return united


def _state(case: ET.Element) -> State:
    """The end state of a case; a case that failed in another tool's report counts as not judged."""
    if outcome(case) is Outcome.PASSED:
        return State.PASSED
    (said,) = (child.get("type") for child in case if child.tag in OUTCOME_TAGS)
    return State(said) if said in _STATES else State.NO_RESULT


def _worst_of_each(cases: Iterable[ET.Element]) -> dict[str, ET.Element]:
    worst: dict[str, ET.Element] = {}
    for case in cases:
        known = worst.setdefault(name_of(case), case)
        if _WORST_LAST.index(outcome(case)) > _WORST_LAST.index(outcome(known)):
            worst[name_of(case)] = case
    return worst
