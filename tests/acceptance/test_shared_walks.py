"""Jobs of one kernel share its walk, in a run and in the next one: their results stay the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Pipeline = Callable[..., Any]

JOBS = [f"device/emu-a2a3/pair-24x16/fused/{profile}" for profile in ("small", "ties")]

pytestmark = pytest.mark.usefixtures("torch_installed")


def test_walks_are_kept_and_met(
    pipeline: Pipeline, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, found = tmp_path / "cache" / "conv-pair-pipeline" / "emulator", []
    for _ in range(2):
        outcome = pipeline("run", "--id", JOBS[0], "--id", JOBS[1], "--jobs", 1)
        assert outcome.code == 0, outcome.out
        (path,) = folder.iterdir()
        run = max((workspace / "out" / "runs").iterdir())
        found.append((path.read_bytes(), results_of(run)))
    # An emptied file is no walk: that it is whole again shows who looks there.
    path.write_bytes(b"")
    assert pipeline("run", "--id", JOBS[1]).code == 0
    assert path.read_bytes() == found[0][0]
    assert found[0] == found[1]


def results_of(run: Path) -> list[Any]:
    """What jobs gave, without times."""
    results = json.loads((run / "results.json").read_bytes())["jobs"]
    files = sorted([*run.rglob("report.json"), *run.rglob("listing.txt")])
    assert len(files) == 2 * len(JOBS)
    told = [
        (result["job"]["id"], result["state"], [stage["metrics"] for stage in result["stages"]])
        for result in sorted(results, key=lambda result: str(result["job"]["id"]))
    ]
    return [told, [(path.parent.name, path.read_bytes()) for path in files]]
