"""A run's results as JUnit XML, by `junit-xml`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import junit_xml

from pipeline.ground.computed import Computed
from pipeline.ground.results import OUTCOMES, Outcome, Result
from pipeline.report.cases import RUN_SUITE, Attachments, Case, cases_of, problem_case, states_of, suite_of
from pipeline.report.document import OUTCOME_TAGS, Suite, Totals, publish, with_message, write_document
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
    suites = suites_of(results, facts, attachments, problems)
    publish(path, lambda file: write_document(file, suites, path.parent), totals)
    return totals


def suites_of(
    results: Sequence[Result], facts: Mapping[str, str], attachments: Attachments, problems: Sequence[str]
) -> list[Suite]:
    """The suites of a run's report; see `write`."""
    members: dict[str, list[int]] = {}
    for _, number, name in sorted((one.job.id, number, suite_of(one)) for number, one in enumerate(results)):
        members.setdefault(name, []).append(number)
    suites = [
        Suite(
            _suite(name, facts),
            partial(_elements, Computed(lambda number: results[number], ended), attachments),
        )
        for name, ended in members.items()
    ]
    if problems:
        suites.append(Suite(_suite(RUN_SUITE, facts), lambda: [_element(problem_case(problems))]))
    return suites


def _suite(name: str, properties: Mapping[str, str]) -> ET.Element:
    """One suite without cases, as `junit-xml` builds it."""
    started = _TIMESTAMP.match(properties.get("started", ""))
    suite: ET.Element = junit_xml.TestSuite(
        name,
        hostname=one_line(properties.get("host", "")),
        timestamp=started and started.group(),
        properties={one_line(key): one_line(value, _PROPERTY_LIMIT) for key, value in properties.items()},
    ).build_xml_doc()
    del suite.attrib["disabled"]  # strict schemas do not know it
    return suite


def _elements(results: Sequence[Result], attachments: Attachments) -> Iterator[ET.Element]:
    return (_element(case) for result in results for case in cases_of(result, attachments))


def _element(case: Case) -> ET.Element:
    """One case as `junit-xml` builds it, with corrections where that package deviates from the format."""
    suite: ET.Element = junit_xml.TestSuite("", [_test_case(case)]).build_xml_doc()
    (element,) = suite.findall("testcase")
    element.set("time", f"{case.seconds:.3f}")  # always there, never 1e-05
    for child in element:
        if child.tag in OUTCOME_TAGS:
            child.set("type", case.state.value)
    return element


def _test_case(case: Case) -> junit_xml.TestCase:
    made = junit_xml.TestCase(case.name, case.classname, stdout=case.out)
    told = {
        Outcome.FAILURE: made.add_failure_info,
        Outcome.ERROR: made.add_error_info,
        Outcome.SKIPPED: made.add_skipped_info,
    }.get(OUTCOMES[case.state].outcome)
    if told:
        told(case.message, with_message(case.message, case.body))
    return made
