from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workloads.faults import FAULTS

Pipeline = Callable[..., Any]


def test_ids_are_a_line_each_in_the_plans_order(pipeline: Pipeline) -> None:
    outcome = pipeline("list", "--platform", "emu-a2a3", "--geometry", "bands", "--kernel", "fused")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "compile/emu-a2a3/bands/fused",
        "device/emu-a2a3/bands/fused/small",
        "device/emu-a2a3/bands/fused/ties",
    ]


@pytest.mark.parametrize(("asked", "there_are"), [(1, 1), (4, 4), (256, 20)])
def test_the_shards_for_a_matrix_are_no_more_than_jobs(
    asked: int, there_are: int, pipeline: Pipeline
) -> None:
    words = ("--lane", "device", "--platform", "a2a3")
    outcome = pipeline("list", *words, "--shards", asked)
    assert outcome.code == 0
    parts = json.loads(outcome.out)["include"]
    assert parts == [{"part": part, "shard": f"{part}/{there_are}"} for part in range(1, there_are + 1)]
    # Together they are all jobs, each once.
    shards = [pipeline("list", *words, "--shard", part["shard"]).out.splitlines() for part in parts]
    assert sorted(itertools.chain(*shards)) == sorted(pipeline("list", *words).out.splitlines())
    assert pipeline("list", "--profile", "ties", "--lane", "compile", "--shards", asked).code == 5


def test_github_takes_256_shards_at_most(pipeline: Pipeline, refused: Callable[..., str]) -> None:
    assert pipeline("list", "--shards", "257").code == 4
    assert "--shards does not go with --shard" in refused("list", "--shards", "2", "--shard", "1/2")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 20 + 40),
        (["--lane", "compile"], 20),
        (["--lane", "compare"], 8),
        (["--lane", "device", "--kernel", "fused", "--kernel", "two-pass"], 16),
        (["--profile", "ties"], 20),
        (["--id", "device/emu-*/bands/first-tile-*/small"], 3),
        (["--geometry", "bands", "--id", "*/fused/*", "--platform", "a2a3"], 2),
    ],
)
def test_filters_narrow_the_plan(words: list[str], count: int, pipeline: Pipeline) -> None:
    outcome = pipeline("list", *words)
    assert outcome.code == 0
    assert len(set(outcome.out.splitlines())) == count


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--geometry", "band"],
            "geometry `band` is not in the plan; the closest known name is `bands`; "
            "--matrix FILE adds others",
        ),
        (
            ["--platform", "emu-a2"],
            "platform `emu-a2` is not in the plan; the closest known name is `emu-a2a3`; "
            "--matrix FILE adds others",
        ),
        (
            ["--geometry", "mine"],
            "geometry `mine` is not in the plan; write one of `pair-24x16`, `bands`; "
            "--matrix FILE adds others",
        ),
        (["--kernel", "fusd"], "kernel `fusd` is not in the plan; the closest known name is `fused`"),
        (["--profile", "smal"], "profile `smal` is not in the plan; the closest known name is `small`"),
        (["--id", "device/a2a3/bands/fused/tie"], "the closest known name is `device/a2a3/bands/fused/ties`"),
        (
            ["--explain", "compile/emu-a5/bands/fuse"],
            "the closest known name is `compile/emu-a5/bands/fused`",
        ),
        (["--shard", "3/2"], "write `index/count`"),
        (["--shard", "1/61"], "61 shards are more than the 60 jobs selected"),
        (["--matrix", "absent.yaml"], "absent.yaml: cannot be read"),
        (
            ["--geometri", "bands"],
            "list: unrecognized arguments: --geometri bands; the closest known name is `--geometry`; see",
        ),
        (["--matrix", "of\nmine.yaml"], "of mine.yaml: cannot be read"),
        (
            ["--explain", "compile/emu-a5/bands/fused", "--plan", "compile/emu-a5/bands/fused"],
            "--plan does not go with --explain, which is about one job",
        ),
        (["--plan", "compile/emu-a5/bands/fused", "--kernel", "fused"], "--kernel does not go with --plan"),
        (["--geo", "bands"], "unrecognized arguments: --geo bands"),
        (["--date", "tonight"], "a day is written YYYY-MM-DD"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], said: str, refused: Callable[..., str]) -> None:
    assert said in refused("list", *words)


def test_an_empty_selection_has_a_code_of_its_own(pipeline: Pipeline) -> None:
    outcome = pipeline("list", "--platform", "emu-a5", "--profile", "small")
    assert (outcome.code, outcome.out) == (5, "")
    assert outcome.err == "no job is left with profile `small`; widen the filters\n"


def test_the_compare_lane_says_how_its_kernel_is_called(pipeline: Pipeline) -> None:
    outcome = pipeline("list", "--lane", "compare", "--kernel", "fused")
    assert (outcome.code, outcome.out) == (5, "")
    assert "runs the programs of all kernels, and its kernel is called `all`" in outcome.err


def test_every_fault_is_listed_with_what_it_does(pipeline: Pipeline) -> None:
    outcome = pipeline("list", "--faults")
    assert (outcome.code, outcome.err) == (0, "")
    listed = [tuple(line.split(maxsplit=1)) for line in outcome.out.splitlines()]
    assert listed == [(fault.id, fault.what) for fault in FAULTS.values()]


@pytest.mark.parametrize("option", ["--geometry", "--kernel", "--lane", "--explain", "--matrix", "--date"])
def test_the_list_of_faults_takes_no_filter(option: str, refused: Callable[..., str]) -> None:
    value = {"--lane": "device", "--date": "2026-12-01"}.get(option, "x")
    assert refused("list", "--faults", option, value) == (
        f"{option} does not go with --faults, which lists the faults of all programs"
    )


def test_explain_names_the_lines_that_made_a_job(pipeline: Pipeline, workspace: Path) -> None:
    outcome = pipeline("list", "--explain", "device/emu-a2a3/bands/fused/small")
    assert outcome.code == 0
    lines = (workspace / "matrix.yaml").read_text().splitlines()
    named = [line.split(":", 2) for line in outcome.out.splitlines()]
    assert all(file == "matrix.yaml" for file, _, _ in named)
    written = "\n".join(lines[int(number) - 1] for _, number, _ in named)
    for part in ("bands:", "emu-a2a3: {backend: emulator", "profiles: [small, ties]", "timeout: 2m"):
        assert part in written


def test_shards_share_out_the_plan(pipeline: Pipeline) -> None:
    whole = pipeline("list").out.splitlines()
    parts = [pipeline("list", "--shard", f"{index}/3").out.splitlines() for index in (1, 2, 3)]
    assert sorted(job for part in parts for job in part) == sorted(whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_an_overlay_adds_to_the_matrix(pipeline: Pipeline, workspace: Path) -> None:
    (workspace / "tonight.yaml").write_text("exclude:\n  - {jobs: '*/first-tile-*', reason: covered}\n")
    outcome = pipeline("list", "--matrix", "tonight.yaml")
    assert len(outcome.out.splitlines()) == 8 + 16
