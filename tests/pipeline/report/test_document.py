from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import xmlschema

from pipeline.ground.jobs import State
from pipeline.ground.results import Result
from pipeline.report.cases import Attachments
from pipeline.report.document import (
    FILE_LIMIT,
    ReportError,
    Suite,
    Totals,
    check,
    properties_of,
    read,
    write_document,
)
from pipeline.report.junit import suites_of

MakeResult = Callable[..., Result]
Break = Callable[[str], str]


def written(suites: Sequence[Suite], folder: Path, limit: int = FILE_LIMIT) -> str:
    file = io.BytesIO()
    write_document(file, suites, folder, limit)
    return file.getvalue().decode()


@pytest.fixture
def suites(result_of: MakeResult) -> list[Suite]:
    """A suite with a passed, a failed and a skipped case."""
    results = [
        result_of("device/emu/mc62/fused/a", output="passed " * 250),
        result_of("device/emu/mc62/fused/b", State.MISMATCH, details="wrong " * 500),
        result_of("device/emu/mc62/fused/c", State.SKIPPED, message="no toolchain"),
    ]
    return suites_of(results, {"git": "0123"}, Attachments(Path("/run")), ())


@pytest.fixture
def report(suites: list[Suite], tmp_path: Path) -> str:
    """A report of them, as its consumers get it."""
    return written(suites, tmp_path)


def replaced(old: str, new: str) -> Break:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


BREAKS: dict[str, tuple[Break, str | None]] = {
    # What is done to a good report; what our own check says, or None where only the schema minds.
    "another root": (
        lambda text: text.replace("testsuites", "report"),
        "its root is <report>",
    ),
    "nested suites": (replaced("<testcase ", "<testsuite name='n'/><testcase "), "not one flat level"),
    "another element among the suites": (replaced("<testsuite ", "<properties/><testsuite "), "flat level"),
    "two outcomes": (replaced("<failure ", "<skipped message='m' type='t'/><failure "), "has 2 outcomes"),
    "one name twice": (
        replaced('name="device/emu/mc62/fused/b"', 'name="device/emu/mc62/fused/a"'),
        "more than once",
    ),
    "a lost case": (
        lambda text: text[: text.index("<testcase")] + text[text.index("</testcase>") + 11 :],
        "declares tests=3, but holds 2",
    ),
    "a lost failure": (
        lambda text: text[: text.index("<failure")] + text[text.index("</failure>") + 10 :],
        "declares failures=1, but holds 0",
    ),
    "a wrong sum": (replaced('tests="3"', 'tests="4"'), "the report declares tests=4"),
    "disabled": (replaced("<testsuites ", '<testsuites disabled="0" '), None),
    "an exponent": (replaced('time="0.000"', 'time="1e-05"'), None),
    "no time": (replaced(' time="0.000"', ""), None),
    "no properties": (
        lambda text: text[: text.index("<properties>")] + text[text.index("</properties>") + 13 :],
        None,
    ),
    "properties in a case": (
        replaced("<system-out>", "<properties><property name='a' value='b'/></properties><system-out>"),
        None,
    ),
    "system-err": (replaced("</system-out>", "</system-out><system-err>text</system-err>"), None),
    "a failure without a type": (replaced(' type="mismatch"', ""), None),
    "a name in two classes": (
        lambda text: text.replace("fused/b", "fused/a").replace("emu.mc62", "emu.other", 1),
        None,
    ),
    "skipped cases that the root counts": (replaced("<testsuites ", '<testsuites skipped="1" '), None),
    "skipped cases that the root miscounts": (
        replaced("<testsuites ", '<testsuites skipped="2" '),
        "the report declares skipped=2, but holds 1",
    ),
    "a body without text": (replaced(">no toolchain</skipped>", "/>"), None),
    "a message that says nothing": (replaced('message="no toolchain"', 'message=""'), None),
    "a message of two lines": (replaced('message="no toolchain"', 'message="no&#10;toolchain"'), None),
}


def test_a_good_report_keeps_the_rules(report: str, schema: xmlschema.XMLSchema) -> None:
    assert check(ET.fromstring(report)) == Totals(tests=3, failures=1, skipped=1)
    schema.validate(report)


# A schema cannot count: these are for the check alone.
COUNTED = {"a lost case", "a lost failure", "a wrong sum"}


@pytest.mark.parametrize("name", [name for name in BREAKS if name not in COUNTED])
def test_the_schema_refuses(name: str, report: str, schema: xmlschema.XMLSchema) -> None:
    change, _ = BREAKS[name]
    assert not schema.is_valid(change(report))


@pytest.mark.parametrize(
    "name",
    [
        "another root",
        "another element among the suites",
        "disabled",
        "properties in a case",
        "skipped cases that the root counts",
    ],
)
def test_jenkins_refuses(name: str, report: str, jenkins: xmlschema.XMLSchema) -> None:
    change, _ = BREAKS[name]
    assert jenkins.is_valid(report)
    assert not jenkins.is_valid(change(report))


@pytest.mark.parametrize("name", [name for name, (_, says) in BREAKS.items() if says])
def test_the_check_before_publishing_refuses(name: str, report: str) -> None:
    change, says = BREAKS[name]
    with pytest.raises(ReportError, match=says):
        check(ET.fromstring(change(report)))


def test_bodies_of_passed_cases_are_the_first_to_be_cut(
    report: str, suites: list[Suite], tmp_path: Path
) -> None:
    small = written(suites, tmp_path, len(report.encode()) - 100)
    root = ET.fromstring(small)
    assert "characters cut" in (
        root.findtext(".//testcase[@name='device/emu/mc62/fused/a']/system-out") or ""
    )
    assert "characters cut" not in (
        root.findtext(".//testcase[@name='device/emu/mc62/fused/b']/failure") or ""
    )
    assert properties_of(root[0])["report.cut"].endswith("bodies of passed cases cut to 1024 characters")
    assert check(ET.fromstring(small)) == Totals(tests=3, failures=1, skipped=1)


def test_facts_and_attachments_outlive_diffs_and_output(
    result_of: Callable[..., Result], tmp_path: Path
) -> None:
    results = [
        result_of(
            f"device/emu/mc62/fused/{number}",
            State.MISMATCH,
            message="wrong",
            details="d" * 9000,
            output="a=b\n" * 4000,
            facts={"reproduce": "python -m it"},
            artefacts=("jobs/heat.png",),
        )
        for number in range(20)
    ]
    small = ET.fromstring(written(suites_of(results, {}, Attachments(Path("/run")), ()), tmp_path, 40_000))
    assert "report.cut" in ET.tostring(small).decode()
    for record in small.iter("system-out"):
        lines = (record.text or "").splitlines()
        assert "reproduce=python -m it" in lines
        assert "[[ATTACHMENT|/run/jobs/heat.png]]" in lines
        assert len(record.text or "") < 1000


def test_outcomes_and_messages_outlive_any_limit(
    report: str, suites: list[Suite], schema: xmlschema.XMLSchema, tmp_path: Path
) -> None:
    least = written(suites, tmp_path, 10)
    schema.validate(least)
    assert check(ET.fromstring(least)) == Totals(tests=3, failures=1, skipped=1)
    for kind in ("failure", "skipped"):
        (case,) = ET.fromstring(least).iter(kind)
        assert (case.text or "").split("\n")[0] == case.get("message")
    assert len(least) < len(report) / 2


def test_a_document_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text('<!DOCTYPE testsuites SYSTEM "file:///etc/passwd"><testsuites/>')
    with pytest.raises(ReportError, match=r"junit\.xml: has a document type"):
        read(path)
