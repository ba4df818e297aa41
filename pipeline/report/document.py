"""A JUnit document: read, checked against the rules every consumer shares, fitted under their size limit.

It is published only after it was written, read back and checked. A run may have thousands of cases: they are
made, written and read back one after the other, and never held all at once.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, NamedTuple

from golden.errors import UserError
from pipeline.ground.files import is_there, read_file
from pipeline.ground.results import Outcome
from pipeline.ground.words import counted
from pipeline.report.text import cut

FILE_LIMIT = 30_000_000
"""Bytes of a file that GitLab still reads; the others take more."""

OUTCOME_TAGS = (Outcome.SKIPPED.value, Outcome.ERROR.value, Outcome.FAILURE.value)

_FULL = (errno.ENOSPC, errno.EDQUOT)
_RECORD_TAG = "system-out"
_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)
_BODIES = (*OUTCOME_TAGS, _RECORD_TAG)
_DECLARATION = b"<?xml version='1.0' encoding='utf-8'?>"
_PIECE = 1024**2
_CUTS = ((1024, True), (4096, False), (1024, False), (256, False), (0, False))
"""What each further round of `write_document` leaves of a body, in characters; only of passed cases?"""

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


class Suite(NamedTuple):
    """A suite that is written: its element without cases, and what makes its cases, anew at each call."""

    element: ET.Element
    cases: Callable[[], Iterable[ET.Element]]


class _PlainTree(ET.TreeBuilder):
    """Refuses a document type, which could have entities to expand and files to fetch."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ReportError("has a document type, which no JUnit report needs; leave it out")


def read(path: Path) -> ET.Element:
    """Parse a report. Raises `ReportError` naming the file where it cannot be read or is not plain XML."""
    try:
        return ET.parse(io.BytesIO(read_file(path)), ET.XMLParser(target=_PlainTree())).getroot()
    except IsADirectoryError:
        inside = path / "junit.xml"
        here = (
            f"is a folder; name {inside}"
            if is_there(inside)
            else f"is a folder without {inside}; name a report"
        )
        raise ReportError(f"{path}: {here}") from None
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}; name another file") from None
    except (ET.ParseError, LookupError, ValueError) as error:  # the last two: an unknown encoding
        what = f"is not well-formed XML: {error}"
        raise ReportError(f"{path}: {what}; write the report anew, or leave it out") from None
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
    return _checked(_walked(root))


_Events = Iterator[tuple[str, ET.Element]]
"""The elements of a document in its order, each at its `start` and at its `end`."""


def _walked(root: ET.Element) -> _Events:
    """The events of a document that was read; it may be of others, and nested however deep."""
    yield "start", root
    open_elements = [(root, iter(root))]
    while open_elements:
        element, children = open_elements[-1]
        if (child := next(children, None)) is not None:
            yield "start", child
            open_elements.append((child, iter(child)))
        else:
            yield "end", element
            open_elements.pop()


def _streamed(path: Path) -> _Events:
    """The events of a file; its cases are let go once they were seen."""
    above: list[ET.Element] = []
    for event, element in ET.iterparse(path, ("start", "end")):
        yield event, element
        if event == "start":
            above.append(element)
        else:
            above.pop()
            if element.tag == "testcase":
                above[-1].remove(element)


def _checked(events: _Events) -> Totals:
    """See `check`."""
    names: Counter[str] = Counter()
    outcomes: Counter[Outcome] = Counter()
    of_suite: Counter[Outcome] = Counter()
    above: list[ET.Element] = []
    for event, element in events:
        depth = len(above)
        if event == "start":
            if depth == 0 and element.tag != "testsuites":
                raise ReportError(f"its root is <{element.tag}>, must be <testsuites>")
            if depth in (1, 2) and (element.tag == "testsuite") != (depth == 1):
                raise ReportError("its suites are not one flat level of <testsuite>")
            above.append(element)
            continue
        above.pop()
        depth -= 1
        if element.tag == "testcase":
            of_suite[outcome(element)] += 1
            if depth == 2:
                _check_case(element, above[-1])
                names[name_of(element)] += 1
        elif depth == 1:
            _declares(element, f"suite {element.get('name')}", of_suite)
            outcomes += of_suite
            of_suite.clear()
        elif depth == 0:
            if twice := [name for name, count in names.items() if count > 1]:
                raise ReportError(f"{counted(len(twice), 'case name')} more than once, first {twice[0]}")
            _declares(element, "the report", outcomes)
    return Totals.of(outcomes.elements())


def _check_case(case: ET.Element, suite: ET.Element) -> None:
    if not (case.get("classname") and case.get("name")):
        raise ReportError(f"a case of suite {suite.get('name')} has no class name or no name")
    if not _TIME.fullmatch(case.get("time", "0")):
        raise ReportError(f"case {name_of(case)} has the time {case.get('time')!r}, not a number of seconds")


def _declares(element: ET.Element, what: str, outcomes: Counter[Outcome]) -> None:
    """Check that a suite or a report declares the totals that it has; see `write_document`."""
    for name, value in Totals.of(outcomes.elements()).attributes().items():
        optional = element.tag == "testsuites" and name == "skipped"
        if element.get(name, value if optional else None) != value:
            raise ReportError(f"{what} declares {name}={element.get(name)}, but holds {value}")


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


def write_document(file: IO[bytes], suites: Sequence[Suite], folder: Path, limit: int = FILE_LIMIT) -> None:
    """Write a document of these suites, as UTF-8, in under `limit` bytes.

    Each suite names them all; totals and times are those of the cases. The root does not say how many cases
    were skipped, because Jenkins' schema refuses that attribute there.

    If there is too much, bodies are cut, those of passed cases first, and every suite says so. Outcomes,
    names, messages (in a body too) and totals are never touched, and a case's facts and attachments only in
    the last resort; a document still too large without any body is written as it is, since a report too large
    for one consumer is better than none.

    The cases are first written to a file without a name in `folder`, since the totals stand before them.
    """
    names = " ".join(suite.element.get("name", "") for suite in suites)
    for suite in suites:
        set_property(suite.element, "report.suites", names)
    for number in range(len(_CUTS) + 1):
        cuts = _CUTS[:number]
        if cuts:
            left, passed_only = cuts[-1]
            whose = "bodies of passed cases" if passed_only else "bodies"
            said = f"over {limit} bytes: {whose} cut to {left} characters"
            for suite in suites:
                set_property(suite.element, "report.cut", said)
        with tempfile.TemporaryFile(dir=folder) as cases:
            written = [_write_cases(suite, cuts, cases) for suite in suites]
            start, end = _around(_root_of(suites, (outcomes for outcomes, _ in written)), "testsuite", 0)
            around = [_around(suite.element, "testcase", 1) for suite in suites]
            tags = itertools.chain((_DECLARATION, start, end), *around)
            if cuts == _CUTS or cases.tell() + sum(map(len, tags)) <= limit:
                cases.seek(0)
                file.write(_DECLARATION + start)
                for (before, behind), (_, size) in zip(around, written, strict=True):
                    file.write(before)
                    _copy(cases, file, size)
                    file.write(behind)
                file.write(end)
                return


def _write_cases(
    suite: Suite, cuts: Sequence[tuple[int, bool]], file: IO[bytes]
) -> tuple[Counter[Outcome], int]:
    """Write the cases of a suite, and make its element declare them. Returns outcomes and bytes."""
    outcomes: Counter[Outcome] = Counter()
    seconds, start = 0.0, file.tell()
    for case in suite.cases():
        outcomes[outcome(case)] += 1
        seconds += float(case.get("time", "0"))
        for left, passed_only in cuts:
            if not passed_only or outcome(case) is Outcome.PASSED:
                for body in (child for child in case if child.tag in _BODIES):
                    body.text = _shortened(body, left)
        file.write(_line(2) + _serialised(case, 2))
    _declare(suite.element, outcomes, seconds)
    return outcomes, file.tell() - start


def _root_of(suites: Sequence[Suite], outcomes: Iterable[Counter[Outcome]]) -> ET.Element:
    """The root without its suites. Its time is that of the suites, as they tell it."""
    root = ET.Element("testsuites")
    seconds = sum(float(suite.element.get("time", "0")) for suite in suites)
    _declare(root, sum(outcomes, Counter()), seconds)
    del root.attrib["skipped"]
    return root


def _declare(element: ET.Element, outcomes: Counter[Outcome], seconds: float) -> None:
    element.attrib.update(Totals.of(outcomes.elements()).attributes(), time=f"{seconds:.3f}")


def _around(element: ET.Element, tag: str, level: int) -> tuple[bytes, bytes]:
    """What stands before and behind children of an element that it does not have yet, of this tag."""
    place = ET.SubElement(element, tag)
    before, _, behind = _serialised(element, level).partition(f"<{tag} />".encode())
    element.remove(place)
    return _line(level) + before.rstrip(), behind


def _line(level: int) -> bytes:
    return b"\n" + b"  " * level


def _serialised(element: ET.Element, level: int) -> bytes:
    """An element as UTF-8. A carriage return is escaped, or reading it back would make it a line end."""
    element.tail = None
    ET.indent(element, level=level)
    data: bytes = ET.tostring(element, encoding="utf-8")
    return data.replace(b"\r", b"&#13;")


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy the next `size` bytes, piece by piece."""
    while size:
        piece = source.read(min(size, _PIECE))
        target.write(piece)
        size -= len(piece)


def _shortened(body: ET.Element, left: int) -> str:
    """The message, or the facts and attachments, that it begins with, and `left` characters more.

    If `left` is 0, only the message.
    """
    text = body.text or ""
    record = _RECORD.match(text) if left and body.tag == _RECORD_TAG else None
    message = body.get("message", "")
    kept = record.group() if record else message if text.startswith(message) else ""
    return kept + cut(text[len(kept) :], left)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the system refuses here is a `ReportError`: this report cannot be written."""
    try:
        yield
    except OSError as error:
        remedy = "make room there, or name another place" if error.errno in _FULL else "name another place"
        what = f"the report cannot be written: {error.strerror or error}"
        raise ReportError(f"{path}: {what}; {remedy}") from None


def publish(path: Path, write: Callable[[IO[bytes]], object], totals: Totals) -> None:
    """Have a document written beside its path, parse it back, compare its totals, and only then rename it.

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
                write(file)
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
        written = _checked(_streamed(temporary))
    except ET.ParseError as error:
        raise ReportError(f"{path}: not published: is not well-formed XML: {error}") from None
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
