"""A run's results as JUnit XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.ground.jobs import OUTCOMES, Outcome, Result
from pipeline.report.cases import RUN_SUITE, Attachments, Case, cases_of, problem_case, states_of, suite_of
from pipeline.report.document import Totals, document_of, fit, publish, set_property
from pipeline.report.text import one_line

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_PROPERTY_LIMIT = 4_096


def write(
    path: Path,
    results: Sequence[Result],
    facts: Mapping[str, str],
    attachments: Attachments,
    problems: Sequence[str] = (),
) -> Totals:
    """Write a run's report and return its totals.

    `results` has every job of the plan, each once, ended. `facts` of the run (git sha, versions, `host`,
    `started`, `shard`) are the properties of every suite. `problems` are faults of the pipeline itself: if
    there are any, they become an error case, so that the report is red like the run.

    Raises:
        ReportError: where the report cannot be written or would not say what the results say.
    """
    # Counted from the results, so that a case missing from the file is noticed.
    outcomes = [OUTCOMES[state].outcome for result in results for state in states_of(result)]
    totals = Totals.of([*outcomes, Outcome.ERROR] if problems else outcomes)
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
    return document_of(_suite(name, cases, facts) for name, cases in suites.items())


def _suite(name: str, cases: Sequence[Case], facts: Mapping[str, str]) -> ET.Element:
    started = _TIMESTAMP.match(facts.get("started", ""))
    suite = ET.Element("testsuite", name=name)
    if host := one_line(facts.get("host", "")):
        suite.set("hostname", host)
    if started:
        suite.set("timestamp", started.group())
    for key, value in facts.items():
        set_property(suite, one_line(key), one_line(value, _PROPERTY_LIMIT))
    suite.extend(map(_test_case, cases))
    return suite


def _test_case(case: Case) -> ET.Element:
    element = ET.Element("testcase", classname=case.classname, name=case.name, time=f"{case.seconds:.3f}")
    outcome = OUTCOMES[case.state].outcome
    if outcome is not Outcome.PASSED:
        told = ET.SubElement(element, outcome.value, type=case.state.value, message=case.message)
        told.text = case.body
    if case.out:
        ET.SubElement(element, "system-out").text = case.out
    return element
