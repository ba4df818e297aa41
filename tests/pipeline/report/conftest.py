from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xmlschema

from pipeline.ground.jobs import Job, Lane, Platform, Result, State, WorkloadName

ROOT = Path(__file__).parents[3]
MakeResult = Callable[..., Result]
Validate = Callable[[Path], None]


@pytest.fixture(scope="session")
def result_of() -> MakeResult:
    """Builds a `Result` from a job's id and an end state."""

    def make(job_id: str, state: State = State.PASSED, **facts: Any) -> Result:
        lane, platform, geometry, name = job_id.split("/", 3)
        kernel, _, profile = f"all/{name}".partition("/") if lane == "compare" else name.partition("/")
        job = Job(
            id=job_id,
            lane=Lane(lane),
            platform=Platform(platform, "emulator", "a2a3"),
            workload=WorkloadName("conv-pair"),
            geometry_name=geometry,
            geometry={},
            kernel=kernel,
            profile=profile or None,
            timeout=60.0,
        )
        return Result(job=job, state=state, **facts)

    return make


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
