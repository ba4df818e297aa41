"""A run's results as JUnit XML, by `junit-xml`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import junit_xml

from pipeline.ground.jobs import OUTCOMES, Job, Outcome, Result
from pipeline.ground.words import counted
from pipeline.report.cases import RUN_SUITE, Attachments, Case, cases_of, problem_case, states_of, suite_of
from pipeline.report.document import OUTCOME_TAGS, Totals, complete, fit
from pipeline.report.published import publish
from pipeline.report.text import one_line
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.states import NOTHING_EXECUTED

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_PROPERTY_LIMIT = 4_096


class JunitReport:
    """A `pipeline.run.listener.Listener` that writes the report when the run ends."""

    def __init__(self, path: Path, relative_to: Path | None = None) -> None:
        self._path = path
        self._relative_to = relative_to
        self._facts: dict[str, str] = {}

    def run_started(self, run: RunInfo) -> None:
        """Remember the run's facts; remove an older report, which could be taken for this run's."""
        notes = {f"note {number}": note for number, note in enumerate(run.notes, 1)}
        self._facts = {**run.facts, "run": run.run_id, "started": run.started, **notes}
        self._path.unlink(missing_ok=True)

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        """Nothing to do: the report tells only how jobs ended."""

    def job_finished(self, result: Result) -> None:
        """Nothing to do: `run_finished` brings every result."""

    def run_finished(self, summary: RunSummary) -> None:
        """Write the report. Raises as `write`."""
        problems = list(summary.problems)
        if summary.exit_code == NOTHING_EXECUTED:
            problems.append(
                f"nothing was executed: {counted(len(summary.results), 'planned job')}, all skipped"
            )
        aside = {f"set-aside {device}": reason for device, reason in summary.set_aside.items()}
        attachments = Attachments(summary.folder, self._relative_to)
        write(self._path, summary.results, {**self._facts, **aside}, attachments, problems)


def write(
    path: Path,
    results: Sequence[Result],
    facts: Mapping[str, str],
    attachments: Attachments,
    problems: Sequence[str] = (),
) -> Totals:
    """Write a run's report and return its totals.

    Args:
        path: where the report goes.
        results: every job of the plan, each once, ended.
        facts: of the run (git sha, versions, `host`, `started`, `shard`): the properties of every suite.
        attachments: how the results' artefacts are named.
        problems: faults of the pipeline itself; if there are any, they become an error case, so that the
            report is red like the run.

    Raises:
        ReportError: where the report cannot be written or would not say what the results say.
    """
    # Counted from the results, so that a case missing from the file is noticed.
    outcomes = Counter(OUTCOMES[state].outcome for result in results for state in states_of(result))
    outcomes[Outcome.ERROR] += bool(problems)
    totals = Totals.of(outcomes)
    publish(path, fit(document(results, facts, attachments, problems)), totals)
    return totals


def document(
    results: Sequence[Result], facts: Mapping[str, str], attachments: Attachments, problems: Sequence[str]
) -> ET.Element:
    """A run's report as a tree; see `write`."""
    suites: dict[str, list[Case]] = {}
    for result in sorted(results, key=lambda result: result.job.id):
        suites.setdefault(suite_of(result), []).extend(cases_of(result, attachments))
    if problems:
        suites[RUN_SUITE] = [problem_case(problems)]
    root = ET.Element("testsuites")
    properties = {**facts, "report.suites": " ".join(suites)}
    root.extend(_suite(name, cases, properties) for name, cases in suites.items())
    complete(root)
    return root


def _suite(name: str, cases: Sequence[Case], properties: Mapping[str, str]) -> ET.Element:
    """One suite as `junit-xml` builds it, with corrections where that package deviates from the format."""
    started = _TIMESTAMP.match(properties.get("started", ""))
    suite: ET.Element = junit_xml.TestSuite(
        name,
        [_test_case(case) for case in cases],
        hostname=one_line(properties.get("host", "")),
        timestamp=started and started.group(),
        properties={one_line(key): one_line(value, _PROPERTY_LIMIT) for key, value in properties.items()},
    ).build_xml_doc()
    del suite.attrib["disabled"]  # strict schemas do not know it
    for element, case in zip(suite.findall("testcase"), cases, strict=True):
        element.set("time", f"{case.seconds:.3f}")  # always there, never 1e-05
        for child in element:
            if child.tag in OUTCOME_TAGS:
                child.set("type", case.state.value)
    return suite


def _test_case(case: Case) -> junit_xml.TestCase:
    made = junit_xml.TestCase(case.name, case.classname, stdout=case.out)
    outcome = OUTCOMES[case.state].outcome
    if outcome is Outcome.FAILURE:
        made.add_failure_info(case.message, case.body)
    elif outcome is Outcome.ERROR:
        made.add_error_info(case.message, case.body)
    elif outcome is Outcome.SKIPPED:
        made.add_skipped_info(case.message, case.body)
    return made
