from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import xmlschema

from pipeline.ground.jobs import State
from pipeline.ground.results import Result
from pipeline.report.cases import Attachments
from pipeline.report.document import read
from pipeline.report.junit import write
from pipeline.report.merge import merge

ROOT = Path(__file__).parents[3]
MakeResult = Callable[..., Result]
Validate = Callable[[Path], None]
Shards = Callable[..., list[Path]]

OLD, NEW, NEXT_WEEK = "20260310-040000-0000000001", "20260310-090000-0000000002", "20260317-040000-0000000003"
NEWER, LAST = "20260310-100000-0000000004", "20260310-110000-0000000005"
JOB = "device/emu-a5/mc62/fused/p"


@pytest.fixture(scope="session")
def schema() -> xmlschema.XMLSchema:
    """The strict schema of the safe subset."""
    return xmlschema.XMLSchema(ROOT / "ci" / "schemas" / "junit-safe.xsd")


@pytest.fixture(scope="session")
def jenkins() -> xmlschema.XMLSchema:
    """What the xUnit plugin of Jenkins accepts."""
    return xmlschema.XMLSchema(ROOT / "ci" / "schemas" / "jenkins-xunit.xsd")


@pytest.fixture(scope="session")
def validate(schema: xmlschema.XMLSchema, jenkins: xmlschema.XMLSchema) -> Validate:
    """Checks that a report is as its consumers want it: both schemas hold, bodies begin with messages."""

    def check(path: Path) -> None:
        schema.validate(str(path))
        jenkins.validate(str(path))
        told = [child for case in ET.parse(path).iter("testcase") for child in case if child.get("message")]
        # GitLab shows the body alone.
        assert [(each.text or "").split("\n")[0] for each in told] == [each.get("message") for each in told]

    return check


@pytest.fixture(scope="session")
def hostile_texts() -> list[str]:
    """Texts that can reach a report."""
    beside = ROOT.parent / "shared" / "cases"
    folder = beside if beside.is_dir() else ROOT / "tests" / "data" / "cases"
    texts: list[str] = json.loads((folder / "hostile-text.json").read_text())["texts"]
    return texts


@pytest.fixture
def shards(tmp_path: Path, result_of: MakeResult) -> Shards:
    """Writes the reports of three shards: two suites each, four cases, one failure in the second."""

    def make(**facts: str) -> list[Path]:
        paths = []
        for n in (1, 2, 3):
            states = [State.MISMATCH if n == 2 else State.PASSED, State.SKIPPED, State.PASSED, State.PASSED]
            results = [
                result_of(f"device/emu-{'a2a3' if k % 2 else 'a5'}/mc62/fused/p{n}{k}", state)
                for k, state in enumerate(states)
            ]
            paths.append(tmp_path / f"shard-{n}" / "junit.xml")
            told = {"run": OLD, "shard": f"{n}/3", "git": "0123abcd", "host": f"host-{n}"}
            write(paths[-1], results, {**told, **facts}, Attachments(tmp_path))
        return paths

    return make


@pytest.fixture
def nights(tmp_path: Path, result_of: MakeResult) -> Callable[..., Path]:
    """Writes the report of a run with these states, one for each job, and these problems."""

    def make(run: str, *states: State | None, problems: tuple[str, ...] = (), **facts: str) -> Path:
        path = tmp_path / f"{run}-{len(list(tmp_path.iterdir()))}.xml"
        results = [result_of(f"{JOB}{n}", state) for n, state in enumerate(states) if state is not None]
        write(path, results, {"run": run, **facts}, Attachments(tmp_path), problems)
        return path

    return make


def cases(path: Path) -> dict[str, str | None]:
    """Name of every case of `path` that did not pass, and its message."""
    return {
        case.get("name", ""): child.get("message")
        for case in read(path).iter("testcase")
        for child in case
        if child.tag in ("error", "failure")
    }


def merge_of(out: Path, *paths: Path) -> Path:
    merge(paths, out)
    return out
