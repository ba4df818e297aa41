"""A JUnit document: read, checked against the rules every consumer shares, fitted under their size limit.

It is published only after it was written, read back and checked.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from golden.errors import UserError
from pipeline.ground.files import read_file
from pipeline.ground.results import Outcome
from pipeline.ground.words import counted
from pipeline.report.text import cut

FILE_LIMIT = 30_000_000
"""Bytes of a file that GitLab still reads; the others take more."""

OUTCOME_TAGS = (Outcome.SKIPPED.value, Outcome.ERROR.value, Outcome.FAILURE.value)

_RECORD_TAG = "system-out"
_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)
_BODIES = (*OUTCOME_TAGS, _RECORD_TAG)
_CUTS = ((1024, True), (4096, False), (1024, False), (256, False), (0, False))
"""What each round of `fit` leaves of a body, in characters, and whether it touches passed cases only."""

_RECORD = re.compile(r"(?:(?:[\w. -]+=|\[\[ATTACHMENT\|).*\n?)*")
"""The facts and attachments that a record begins with."""


class ReportError(UserError):
    """A report cannot be read, breaks a rule, or cannot be written; one line says which and why."""


@dataclass(frozen=True)
class Totals:
    """Cases of a report by outcome; `tests` counts them all."""

    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        things = ((self.tests, "case"), (self.failures, "failure"), (self.errors, "error"))
        return ", ".join([*(counted(*each) for each in things), f"{self.skipped} skipped"])

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Totals:
        """The totals of these outcomes."""
        counts = Counter(outcomes)
        return cls(counts.total(), counts[Outcome.FAILURE], counts[Outcome.ERROR], counts[Outcome.SKIPPED])

    def attributes(self) -> dict[str, str]:
        """As a `testsuite` element declares them."""
        return {name: str(value) for name, value in asdict(self).items()}


class _PlainTree(ET.TreeBuilder):
    """Refuses a document type, which could have entities to expand and files to fetch."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ReportError("has a document type, which no JUnit report needs")


def read(path: Path) -> ET.Element:
    """Parse a report. Raises `ReportError` naming the file where it cannot be read or is not plain XML."""
    try:
        return ET.parse(io.BytesIO(read_file(path)), ET.XMLParser(target=_PlainTree())).getroot()
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from None
    except (ET.ParseError, LookupError, ValueError) as error:  # the last two: an unknown encoding
        raise ReportError(f"{path}: is not well-formed XML: {error}") from None
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from None


def outcome(case: ET.Element) -> Outcome:
    """The outcome of a `testcase` element. Raises `ReportError` if it has several."""
    said = [Outcome(child.tag) for child in case if child.tag in OUTCOME_TAGS]
    if len(said) > 1:
        raise ReportError(f"case {name_of(case)} has {len(said)} outcomes")
    return said[0] if said else Outcome.PASSED


def with_message(message: str, body: str) -> str:
    """A body that begins with its message: GitLab shows the body alone. It is never empty."""
    return body if body.split("\n", 1)[0] == message else f"{message}\n{body}".rstrip()


def name_of(case: ET.Element) -> str:
    """Class name and name of a `testcase`: how every consumer keys its history."""
    return f"{case.get('classname')} {case.get('name')}"


def check(root: ET.Element) -> Totals:
    """Count a document's cases and check the rules: flat suites, unique names, correct totals.

    Raises:
        ReportError: naming the rule and the suite or case that breaks it.
    """
    if root.tag != "testsuites":
        raise ReportError(f"its root is <{root.tag}>, must be <testsuites>")
    names: Counter[str] = Counter()
    for suite in root:
        if suite.tag != "testsuite" or suite.find("testsuite") is not None:
            raise ReportError("its suites are not one flat level of <testsuite>")
        cases = suite.findall("testcase")
        for case in cases:
            if not (case.get("classname") and case.get("name")):
                raise ReportError(f"a case of suite {suite.get('name')} has no class name or no name")
            if not _TIME.fullmatch(case.get("time", "0")):
                raise ReportError(
                    f"case {name_of(case)} has the time {case.get('time')!r}, not a number of seconds"
                )
        names.update(map(name_of, cases))
        _declares(suite, f"suite {suite.get('name')}")
    if twice := [name for name, count in names.items() if count > 1]:
        raise ReportError(f"{counted(len(twice), 'case name')} more than once, first {twice[0]}")
    return _declares(root, "the report")


def _declares(element: ET.Element, what: str) -> Totals:
    """The totals of a suite or a report, which must be those that it declares; see `document_of`."""
    totals = _totals_of(element)
    for name, value in totals.attributes().items():
        optional = element.tag == "testsuites" and name == "skipped"
        if element.get(name, value if optional else None) != value:
            raise ReportError(f"{what} declares {name}={element.get(name)}, but holds {value}")
    return totals


def _totals_of(element: ET.Element) -> Totals:
    return Totals.of(map(outcome, element.iter("testcase")))


def document_of(suites: Iterable[ET.Element]) -> ET.Element:
    """A document of these suites, each of which names them all; totals and times are those of the cases.

    The root does not say how many cases were skipped, because Jenkins' schema refuses that attribute there.
    """
    root = ET.Element("testsuites")
    root.extend(suites)
    names = " ".join(suite.get("name", "") for suite in root)
    for suite in root:
        set_property(suite, "report.suites", names)
    for element in (*root, root):  # the time of the root is that of its suites, as they tell it
        seconds = sum(float(part.get("time", "0")) for part in element)
        element.attrib.update(_totals_of(element).attributes(), time=f"{seconds:.3f}")
    del root.attrib["skipped"]
    return root


def properties_of(suite: ET.Element) -> dict[str, str]:
    """A suite's properties by name."""
    return {each.get("name", ""): each.get("value", "") for each in suite.iterfind("properties/property")}


def set_property(suite: ET.Element, name: str, value: str) -> None:
    """Set a property of a suite; `properties` is its first child, as schemas demand."""
    properties = suite.find("properties")
    if properties is None:
        properties = ET.Element("properties")
        suite.insert(0, properties)
    known = [each for each in properties if each.get("name") == name]
    (known or [ET.SubElement(properties, "property", name=name)])[0].set("value", value)


def serialise(root: ET.Element) -> bytes:
    """The document as UTF-8. A carriage return is escaped, or reading it back would make it a line end."""
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data.replace(b"\r", b"&#13;")


def fit(root: ET.Element, limit: int = FILE_LIMIT) -> bytes:
    """Serialise under `limit` bytes: bodies are cut, those of passed cases first, and every suite says so.

    Outcomes, names, messages (in a body too) and totals are never touched, and a case's facts and attachments
    only in the last resort; a document still too large without any body is returned as it is, since a report
    too large for one consumer is better than none.
    """
    data = serialise(root)
    for left, passed_only in _CUTS:
        if len(data) <= limit:
            break
        for body in _bodies(root, passed_only):
            body.text = _shortened(body, left)
        for suite in root:
            whose = "bodies of passed cases" if passed_only else "bodies"
            set_property(suite, "report.cut", f"over {limit} bytes: {whose} cut to {left} characters")
        data = serialise(root)
    return data


def _shortened(body: ET.Element, left: int) -> str:
    """The message, or the facts and attachments, that it begins with, and `left` characters more.

    If `left` is 0, only the message.
    """
    text = body.text or ""
    record = _RECORD.match(text) if left and body.tag == _RECORD_TAG else None
    message = body.get("message", "")
    kept = record.group() if record else message if text.startswith(message) else ""
    return kept + cut(text[len(kept) :], left)


def _bodies(root: ET.Element, passed_only: bool) -> Iterator[ET.Element]:
    for case in root.iter("testcase"):
        if not passed_only or outcome(case) is Outcome.PASSED:
            yield from (child for child in case if child.tag in _BODIES)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the system refuses here is a `ReportError`: this report cannot be written."""
    try:
        yield
    except OSError as error:
        raise ReportError(f"{path}: the report cannot be written: {error.strerror or error}") from None


def publish(path: Path, data: bytes, totals: Totals) -> None:
    """Write a document beside its path, parse it back, compare its totals, and only then rename it.

    An older report there stays until the new one is checked. `totals` are what the run itself counted.

    Raises:
        ReportError: in one line, where it cannot be written (a full disk) or does not say what the run said;
            nothing half-written is left.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                _prove(temporary, path, totals)
                temporary.chmod(0o644)
                temporary.replace(path)
            except BaseException:
                temporary.unlink()
                raise
        _sync_folder(path.parent)


def _prove(temporary: Path, path: Path, totals: Totals) -> None:
    try:
        written = check(read(temporary))
    except ReportError as error:
        raise ReportError(f"{path}: not published: {error}") from None
    if written != totals:
        raise ReportError(f"{path}: not published: it says {written}; the run says {totals}")


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
