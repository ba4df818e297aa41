"""The reports that are merged: whether they belong together, and what is missing among them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pipeline.commands.facts import SOURCES_DIGEST
from pipeline.ground.jobs import State
from pipeline.ground.settings import DECLARED, Replaces
from pipeline.matrix.durations import LONGEST
from pipeline.report.document import ReportError, check, properties_of, read, with_message
from pipeline.report.text import one_line, safe
from pipeline.run.folders import began, is_run_id

MERGE_SUITE = "report.merge"
"""Suite and class name of the cases that say what is missing."""

SAME_EVERYWHERE = ("git", "division.compile", "division.run", "division.compare")
"""Run facts that must be the same in all reports that have them. If one differs, the reports are of different
nights, or the shards were divided by different records, so that some jobs may be in none of them."""

SOURCES = (SOURCES_DIGEST, "workload.")
"""What the names of facts that are digests of sources begin with. If a run was resumed with other sources,
the new digest counts, since all of its jobs ran again."""

_SHARD = re.compile(r"\b([1-9][0-9]{0,2})/([1-9][0-9]{0,2})\b")


USUAL = {each.name: each.text(each.default) for each in DECLARED}
"""What a report means that does not show a setting."""


@dataclass(frozen=True)
class Part:
    """A report that is merged, of a part of a run or itself merged from several."""

    path: Path
    root: ET.Element

    @property
    def facts(self) -> dict[str, str]:
        """The properties of all suites, each with all its values: those of a merged report may differ."""
        facts: dict[str, dict[str, None]] = {}
        for suite in self.root:
            for name, text in properties_of(suite).items():
                facts.setdefault(name, {}).update(dict.fromkeys(text.split("; ")))
        return {name: "; ".join(values) for name, values in facts.items()}

    def values(self, setting: str) -> set[str]:
        """The values of a setting: those of the suites that have facts of a run."""
        facts = [properties_of(suite) for suite in self.root if suite.get("name") != MERGE_SUITE]
        return {each.get(setting, USUAL[setting]) for each in facts}


def in_words(values: Iterable[str]) -> str:
    """Values of a setting for people, of which any may be the right one."""
    return " or ".join(value if value not in ("", str(None)) else "not given" for value in values)


def _written_runs(suite: ET.Element) -> list[str]:
    """The ids of the suite's runs as they are written; of a merged suite there are several."""
    return properties_of(suite).get("run", "").split("; ")


def runs_of(suite: ET.Element) -> tuple[str, ...]:
    """The ids of the runs that a suite is of, the oldest first; none if one of them is unknown."""
    written = _written_runs(suite)
    return tuple(sorted(written)) if all(map(is_run_id, written)) else ()


def read_parts(paths: Iterable[Path]) -> tuple[list[Part], dict[str, str]]:
    """The readable reports, and by case name what is wrong with the others."""
    reports, missing = [], {}
    for path in paths:
        try:
            report = Part(path, read(path))
            if not check(report.root).tests:
                raise ReportError(
                    "holds no case, and so says nothing; run what wrote it again, or leave it out"
                )
            reports.append(report)
        except ReportError as error:
            missing[f"report {path}"] = f"{path}: {str(error).removeprefix(f'{path}: ')}"
    return reports, missing


def missing_among(
    reports: Sequence[Part], shards: int | None, *, within: float, newest: bool
) -> dict[str, str]:
    """What is missing, and why reports do not belong together, by case name; arguments as of `merge`."""
    missing: dict[str, str] = {}
    for report in reports:
        missing.update(_lost_suites(report))
    missing.update(_missing_shards(reports, shards))
    missing.update(_other_nights(reports))
    missing.update(_ageless(reports, newest=newest))
    missing.update(_other_times(reports, within))
    return missing


def _lost_suites(report: Part) -> Iterator[tuple[str, str]]:
    here = {suite.get("name") for suite in report.root}
    for name in report.facts.get("report.suites", "").split():
        if name not in here:
            yield f"suite {name} of {report.path}", f"{report.path}: its suite {name} was lost"


def _missing_shards(reports: Sequence[Part], expected: int | None) -> Iterator[tuple[str, str]]:
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


def _other_nights(reports: Sequence[Part]) -> Iterator[tuple[str, str]]:
    sources = {name for report in reports for name in report.facts if name.startswith(SOURCES)}
    for fact in (*SAME_EVERYWHERE, *sorted(sources)):
        values = {}
        for report in reports:
            again = f"resumed.{fact}" if fact in sources else fact
            if value := report.facts.get(again, report.facts.get(fact)):
                values[value] = report.path
        if len(values) > 1:
            listed = ", ".join(f"{value} ({path})" for value, path in values.items())
            message = f"the reports are not of one run: {fact} is {listed}"
            if fact.startswith("division."):
                message += "; all shards must be divided by the same recorded durations (docs/matrix.md)"
            yield f"fact {fact}", message
    for each in DECLARED:
        if each.replaces is Replaces.NEVER:
            values = {value: report.path for report in reports for value in report.values(each.name)}
            if len(values) > 1:
                listed = ", ".join(f"{in_words([value])} ({path})" for value, path in values.items())
                yield f"fact {each.name}", f"the reports do not belong together: {each.option} is {listed}"


def _ageless(reports: Sequence[Part], *, newest: bool) -> Iterator[tuple[str, str]]:
    """Reports of which one cannot say how old they are, if there are others to compare them with."""
    for report in reports if len(reports) > 1 else ():
        written = [_written_runs(suite) for suite in report.root if suite.get("name") != MERGE_SUITE]
        if not all(is_run_id(run) for runs in written for run in runs):
            message = f"{report.path} does not say when its run began"
            yield f"age of {report.path}", message + ("; of its cases the worst counts" if newest else "")


def _other_times(reports: Sequence[Part], within: float) -> Iterator[tuple[str, str]]:
    runs = sorted((run, report.path) for report in reports for suite in report.root for run in runs_of(suite))
    if not runs:
        return
    (first, early), (last, late) = runs[0], runs[-1]
    if (apart := began(last) - began(first)) > (most := timedelta(seconds=within)):
        if apart.total_seconds() <= LONGEST:
            remedy = "--within TIME allows more"
        else:
            remedy = "--within allows a week at most: leave the older report out, or run its jobs again"
        message = (
            f"the reports are of runs that began {apart} apart, more than {most}: "
            f"{first} ({early}), {last} ({late}); {remedy}"
        )
        yield "runs", message


def report_of_missing(missing: Mapping[str, str]) -> Part:
    """A report with an error case for each thing that is missing."""
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=MERGE_SUITE)
    for name, message in missing.items():
        case = ET.SubElement(suite, "testcase", classname=MERGE_SUITE, name=one_line(name), time="0.000")
        error = ET.SubElement(case, "error", message=one_line(message), type=State.NO_RESULT.value)
        error.text = with_message(one_line(message), safe(message))
    return Part(Path("missing"), root)
