from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipeline.matrix.schema import json_schema
from pipeline.matrix.strict_yaml import read_yaml

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "ci" / "schemas" / "matrix.schema.json"


@pytest.fixture
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(PUBLISHED.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def shipped() -> Any:
    return read_yaml((ROOT / "matrix.yaml").read_bytes(), "matrix.yaml").plain()


def test_the_published_schema_is_the_schema() -> None:
    remedy = "run python -m pipeline.matrix.schema > ci/schemas/matrix.schema.json"
    assert PUBLISHED.read_text() == json_schema(), remedy


def test_the_shipped_matrix_is_valid(validator: jsonschema.Draft202012Validator, shipped: Any) -> None:
    validator.validate(shipped)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("platforms", "emu-a5", "devices"), "0-3"),
        (("platforms", "emu-a5", "devices"), [-1]),
        (("platforms", "emu-a5", "devices"), [0, 0]),
        (("platforms", "emu-a5", "soc"), "a6"),
        (("platforms", "emu-a5", "variant"), "half-awry"),
        (("lanes", "device", "include", 0, "kernels", 0), "fusd"),
        (("lanes", "device", "include", 0, "profiles", 0), "small@seven"),
        (("platforms", "emu-a5", "required"), "no"),
        (("platforms", "emu-a5", "backnd"), "emulator"),
        (("lanes", "compile", "include", 0, "verify"), "small@seven"),
        (("lanes", "compile", "include", 0, "verify"), ["small"]),
        (("lanes", "device", "timeout"), "12:30"),
        (("lanes", "device", "timeout"), 0),
        (("geometries", "mc62", "height"), "288"),
        (("geometries", "mc62", "conv1", "stride"), 1.5),
        (("geometries", "mc62", "conv1", "kernel"), [3]),
        (("geometries", "mc62", "conv1", "padding"), [1, 1]),
        (("geometries", "mc62", "conv1", "padding"), [1, 1, 1, 0.5]),
        (("exclude",), [{"jobs": "*"}]),
        (("geometries", "mc62", "workload"), "gemm"),
        (("geometries", "gemm-128", "height"), 24),
        (("geometries", "gemm-128", "band_rows"), 4),
        (("geometries", "gemm-128", "m"), "128"),
        (("geometries", "conv-5x5", "cmid"), 64),
        (("geometries", "conv-5x5", "conv", "kernel"), None),
        (("workloads",), {"mine": "mine.py"}),
        (("workloads",), {"mine": {"file": ""}}),
    ],
)
def test_an_editor_sees_what_the_loader_refuses(
    path: tuple[str | int, ...], value: object, validator: jsonschema.Draft202012Validator, shipped: Any
) -> None:
    place = shipped
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert not validator.is_valid(shipped)


def test_an_editor_takes_a_users_own_workload(
    validator: jsonschema.Draft202012Validator, shipped: Any
) -> None:
    """Its keys and its kernels are not known here."""
    shipped["geometries"]["own"] = {"workload": "mine", "anything": 1}
    shipped["lanes"]["device"]["include"][0]["kernels"] = ["my-kernel"]
    assert not validator.is_valid(shipped)
    shipped["workloads"] = {"mine": {"file": "mine.py"}}
    validator.validate(shipped)
