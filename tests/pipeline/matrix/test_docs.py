from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

from pipeline.ground.jobs import Lane
from pipeline.matrix.expand import expand
from pipeline.matrix.model import Matrix
from pipeline.matrix.schema import Entry

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
    text = DOCS.read_text()
    for entry in Entry.__subclasses__():
        for key in entry.__struct_fields__:
            assert re.search(rf"\b{key}:", text), f"{entry.__name__}.{key}"
