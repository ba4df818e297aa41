"""What is set outside the command line, and what earlier runs left: that a run heeds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Pipeline = Callable[..., Any]
Report = Callable[[Path], Mapping[str, Any]]
LastRun = Callable[[], Path]

EMULATED = ("--platform", "emu-a2a3", "--geometry", "bands")
COMPILED = ("compile", *EMULATED, "--kernel", "fused")
JOB = "compile/emu-a2a3/bands/fused"

NEVER_IN_TIME = f"""\
timeouts: [{{jobs: {JOB}, timeout: 0.001}}]
retries: {{limit: 1, patterns: ['no end after']}}
"""


def test_cards_beside_those_that_were_lent_are_refused(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASK_DEVICE", "2,1")
    assert "--devices: device 0 is not among what TASK_DEVICE lent (2, 1)" in refused(
        "run", "--platform", "a2a3", "--devices", "0"
    )


@pytest.mark.parametrize(("words", "attempts"), [((), 2), (("--retries", "0"), 1)])
def test_the_matrix_says_what_is_tried_again_and_how_often(
    words: tuple[str, ...],
    attempts: int,
    pipeline: Pipeline,
    report: Report,
    last_run: LastRun,
    workspace: Path,
) -> None:
    (workspace / "sick.yaml").write_text(NEVER_IN_TIME)
    assert pipeline(*COMPILED, "--matrix", "sick.yaml", *words).code == 6
    case = report(last_run() / "junit.xml")[JOB]
    assert "infrastructure pattern no end after" in case.message
    assert f"attempts={attempts}" in case.out.splitlines()


def test_a_run_prunes_old_ones(pipeline: Pipeline, last_run: LastRun, workspace: Path) -> None:
    old = workspace / "out" / "runs" / "20200102-030405-000000000a"
    old.mkdir(parents=True)
    assert pipeline(*COMPILED).code == 0
    assert not old.exists()
    assert last_run().exists()


def test_shards_are_balanced_by_what_jobs_took(pipeline: Pipeline, last_run: LastRun) -> None:
    words = ("--lane", "compile", *EMULATED)
    plan = pipeline("list", *words).out.splitlines()
    assert pipeline("compile", *EMULATED).code == 0
    journal = last_run() / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        if event["type"] == "Finished":
            event["result"]["seconds"] = 1000.0 if event["result"]["job"]["id"] == JOB else 1.0
    journal.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    shards = [pipeline("list", *words, "--shard", f"{index}/2").out.splitlines() for index in (1, 2)]
    assert shards == [[JOB], [job for job in plan if job != JOB]]
