from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import xmlschema

from pipeline.ground.results import Result

ROOT = Path(__file__).parents[3]
MakeResult = Callable[..., Result]
Validate = Callable[[Path], None]


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
