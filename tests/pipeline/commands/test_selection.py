from __future__ import annotations

from argparse import Namespace
from datetime import date
from pathlib import Path

import pytest

from pipeline.commands.options import parse
from pipeline.commands.selection import select_jobs
from pipeline.ground.jobs import Job, Lane
from pipeline.matrix.load import load

MATRIX = Path(__file__).parents[3] / "matrix.yaml"
TODAY = date(2026, 3, 10)


def selected(*words: str) -> tuple[Job, ...]:
    arguments: Namespace = parse(words)
    lane = {"run": Lane.DEVICE, "compare": Lane.COMPARE}[words[0]]
    return select_jobs(load([MATRIX]), [lane], arguments, TODAY)[0]


def test_the_seed_of_the_night_is_settled_and_the_id_keeps_what_was_written() -> None:
    (job,) = selected("run", "--profile", "full-range@nightly", "--kernel", "fused")
    assert (job.profile, job.written_profile) == ("full-range@20260310", "full-range@nightly")
    assert job.id == "device/emu-a2a3/mc62/fused/full-range@nightly"


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (
            ("run", "--platform", "emu-a2a3", "--kernel", "fused"),
            ["device/emu-a2a3/mc62/fused/inputs"],
        ),
        (
            ("compare", "--platform", "emu-a2a3"),
            ["compare/emu-a2a3/mc62/inputs"],
        ),
        (
            ("compare", "--engines", "emu-a5,emu-a2a3"),
            ["compare/emu-a5+emu-a2a3/mc62/inputs"],
        ),
    ],
)
def test_jobs_on_a_users_tensors_are_named_so_and_differ_in_more_than_the_profile(
    words: tuple[str, ...], ids: list[str]
) -> None:
    assert len(selected(*words, "--geometry", "mc62")) > 1
    jobs = selected(*words, "--geometry", "mc62", "--inputs", "mine.npz")
    assert [job.id for job in jobs] == ids
    assert {(job.profile, job.written_profile) for job in jobs} == {("inputs", "")}
