from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from pipeline.ground.jobs import Lane
from pipeline.matrix.expand import expand
from pipeline.matrix.schema import Matrix, json_schema

DOCS = Path(__file__).resolve().parents[3] / "docs" / "matrix.md"


def test_the_documented_matrix_is_one(load_text: Callable[..., Matrix]) -> None:
    example = re.search(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert example
    jobs = expand(load_text(example[1]), date(2026, 11, 30))
    assert [job.lane for job in jobs].count(Lane.DEVICE) == 7
    assert {job.timeout for job in jobs} == {90, 300, 1200, 5400}
    assert [job.id for job in jobs if job.expected_failure] == [
        "device/emu-a2a3/pair-24x16/fused/full-range@nightly"
    ]


def test_every_key_is_documented() -> None:
    keys = set(keys_of(json.loads(json_schema())))
    assert {"workload", "file", "height", "band_rows", "conv", "m", "verify"} <= keys
    text = DOCS.read_text()
    assert not [key for key in sorted(keys) if not re.search(rf"\b{key}:", text)]


def keys_of(schema: Any) -> Iterator[str]:
    """Every key that a schema speaks of, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from keys_of(part)
