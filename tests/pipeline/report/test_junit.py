from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import junitparser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from junit2htmlreport.parser import Junit

from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES, Result, StageResult
from pipeline.report.cases import Attachments
from pipeline.report.document import ReportError, Totals, check, read
from pipeline.report.junit import write

MakeResult = Callable[..., Result]
Validate = Callable[[Path], None]
FACTS = {"git": "0123abcd", "host": "builder", "started": "2026-11-30T20:00:00+00:00"}
ANY_TEXT = st.text(st.characters(exclude_categories=()))
END_STATES = list(OUTCOMES)


@pytest.fixture(scope="module")
def one_of_each(result_of: MakeResult) -> list[Result]:
    """Every end state as a job, and as a stage of one compare job."""
    jobs = [result_of(f"device/emu-a2a3/mc62/fused/p{n}", state) for n, state in enumerate(END_STATES)]
    stages = tuple(StageResult(f"stage-{state.value}", state) for state in END_STATES)
    return [*jobs, result_of("compare/emu-a5/mc62/small", State.MISMATCH, stages=stages)]


def write_report(path: Path, results: list[Result], facts: dict[str, str] = FACTS) -> ET.Element:
    totals = write(path, results, facts, Attachments(path.parent))
    root = read(path)
    assert check(root) == totals
    return root


def test_every_state_reaches_the_file_as_its_outcome_and_the_schema_holds(
    tmp_path: Path, one_of_each: list[Result], validate: Validate
) -> None:
    root = write_report(tmp_path / "junit.xml", one_of_each)
    validate(tmp_path / "junit.xml")
    assert [suite.get("name") for suite in root] == ["compare.emu-a5", "device.emu-a2a3"]
    for number, state in enumerate(END_STATES):
        case = root.find(f".//testcase[@name='device/emu-a2a3/mc62/fused/p{number}']")
        assert case is not None
        said = [(child.tag, child.get("type")) for child in case if child.tag != "system-out"]
        outcome = OUTCOMES[state].outcome.value
        assert said == ([] if outcome == "passed" else [(outcome, state.value)])


def test_totals_are_the_runs_own(tmp_path: Path, one_of_each: list[Result]) -> None:
    totals = write(tmp_path / "junit.xml", one_of_each, FACTS, Attachments(tmp_path))
    # 18 end states with 8 failures, 6 errors and 3 skips, as jobs and again as stages of a job that failed.
    assert totals == Totals(tests=37, failures=17, errors=12, skipped=6)


def test_consumers_count_as_we_do(tmp_path: Path, one_of_each: list[Result]) -> None:
    path = tmp_path / "junit.xml"
    totals = write(path, one_of_each, FACTS, Attachments(tmp_path))
    parsed = junitparser.JUnitXml.fromfile(str(path))
    cases = [case for suite in parsed for case in suite]
    kinds = [type(outcome) for case in cases for outcome in case.result]
    assert len(cases) == parsed.tests == totals.tests
    assert kinds.count(junitparser.Failure) == parsed.failures == totals.failures
    assert kinds.count(junitparser.Error) == parsed.errors == totals.errors
    assert kinds.count(junitparser.Skipped) == sum(suite.skipped for suite in parsed) == totals.skipped
    html = Junit(str(path))
    assert sum(len(suite.all()) for suite in html) == totals.tests
    assert sum(len(suite.failed()) for suite in html) == totals.failures + totals.errors
    assert sum(len(suite.skipped()) for suite in html) == totals.skipped
    assert "device/emu-a2a3/mc62/fused/p0" in html.html()


def test_run_facts_are_properties_of_every_suite(tmp_path: Path, one_of_each: list[Result]) -> None:
    root = write_report(tmp_path / "junit.xml", one_of_each)
    for suite in root:
        properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
        assert properties["git"] == "0123abcd"
        assert suite.get("hostname") == "builder"
        assert suite.get("timestamp") == "2026-11-30T20:00:00"


def test_tiny_and_absent_times_are_fixed_point(
    tmp_path: Path, result_of: MakeResult, validate: Validate
) -> None:
    results = [
        result_of(f"device/emu/mc62/fused/p{n}", seconds=s) for n, s in enumerate((0.0, 1e-5, 12345.6789))
    ]
    root = write_report(tmp_path / "junit.xml", results)
    assert [case.get("time") for case in root.iter("testcase")] == ["0.000", "0.000", "12345.679"]
    validate(tmp_path / "junit.xml")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(message=ANY_TEXT, details=ANY_TEXT, output=ANY_TEXT, fact=ANY_TEXT, key=ANY_TEXT)
def test_any_text_anywhere_ends_as_valid_xml(
    tmp_path: Path,
    result_of: MakeResult,
    validate: Validate,
    message: str,
    details: str,
    output: str,
    fact: str,
    key: str,
) -> None:
    result = result_of(
        "device/emu/mc62/fused/small",
        State.CRASHED,
        message=message,
        details=details,
        output=output,
        facts={key: fact},
        artefacts=(f"logs/{key}",),
    )
    write_report(tmp_path / "junit.xml", [result], {f"k{key}": fact})
    validate(tmp_path / "junit.xml")


def test_hostile_texts_end_as_valid_bounded_xml(
    tmp_path: Path, result_of: MakeResult, validate: Validate, hostile_texts: list[str]
) -> None:
    path = tmp_path / "junit.xml"
    results = [
        result_of(
            f"device/emu/mc62/fused/p{n}", state, message=text, details=text, output=text, facts={text: text}
        )
        for n, text in enumerate(hostile_texts)
        for state in [END_STATES[n % len(END_STATES)]]
    ]
    root = write_report(path, results, {"text": hostile_texts[12]})
    validate(path)
    assert path.stat().st_size < 500_000
    assert "characters cut" in ET.tostring(root, encoding="unicode")
    assert len(list(junitparser.JUnitXml.fromfile(str(path)).iterchildren(junitparser.TestSuite))) == 1
    Junit(str(path)).html()


def test_fifty_megabytes_of_one_line_are_bounded(tmp_path: Path, result_of: MakeResult) -> None:
    path = tmp_path / "junit.xml"
    write_report(path, [result_of("device/emu/mc62/fused/p", State.CRASHED, output="a" * 50_000_000)])
    assert path.stat().st_size < 50_000


def test_a_carriage_return_survives(tmp_path: Path, result_of: MakeResult) -> None:
    root = write_report(
        tmp_path / "junit.xml", [result_of("device/emu/mc62/fused/p", output="50 %\r100 %\r\nend")]
    )
    assert "50 %\r100 %\r\nend" in (root.findtext(".//system-out") or "")


def test_two_results_of_one_name_are_not_published(tmp_path: Path, result_of: MakeResult) -> None:
    twice = [
        result_of("device/emu/mc62/fused/small"),
        result_of("device/emu/mc62/fused/small", State.CRASHED),
    ]
    with pytest.raises(ReportError, match="more than once, first device"):
        write(tmp_path / "junit.xml", twice, FACTS, Attachments(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_two_thousand_noisy_failures_stay_under_the_limit_of_every_consumer(
    tmp_path: Path, result_of: MakeResult
) -> None:
    path = tmp_path / "junit.xml"
    results = [
        result_of(f"device/emu/mc62/fused/p{n}", State.CRASHED, message="crashed", output="é" * 6_000)
        for n in range(2000)
    ]
    root = write_report(path, results)
    assert path.stat().st_size < 30_000_000
    assert len(list(root.iter())) < 250_000
    cut = root.find(".//property[@name='report.cut']")
    assert cut is not None
    assert cut.get("value") == "over 30000000 bytes: bodies cut to 1024 characters"
    assert all("device=none" in (case.findtext("system-out") or "") for case in root.iter("testcase"))
