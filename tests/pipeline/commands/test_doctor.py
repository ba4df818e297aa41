"""The doctor's lines: what can run, what cannot and why, grouped by reason with its remedy."""

from __future__ import annotations

import os

from pipeline.commands.hosts import examine, installed
from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, Lane, Platform, WorkloadName


def job(platform: str, lane: Lane, kernel: str) -> Job:
    place = Platform(platform, "emulator", "a2a3")
    return Job(
        f"{lane.value}/{platform}/{kernel}",
        lane,
        place,
        WorkloadName("conv-pair"),
        "mc62",
        {},
        kernel,
        None,
        60,
    )


def test_jobs_are_counted_by_platform_and_lane_and_reasons_are_grouped() -> None:
    jobs = [
        job("here", Lane.COMPILE, "fused"),
        job("here", Lane.DEVICE, "fused"),
        job("there", Lane.DEVICE, "fused"),
        job("there", Lane.DEVICE, "two-pass"),
        job("there", Lane.DEVICE, "first-tile-load"),
    ]
    no_card = Availability("no card", "plug one in")

    def available(one: Job) -> Availability:
        if one.platform.name == "here" or one.kernel == "fused":
            return Availability()
        return no_card

    lines = list(examine(jobs, available, {"python": "3.11"}))
    assert lines == [
        "python  3.11",
        "",
        "here compile: 1 of 1 job can run",
        "here device: 1 of 1 job can run",
        "there device: 1 of 3 jobs can run",
        "",
        "2 jobs cannot run: no card",
        "  where: there device",
        "  remedy: plug one in",
    ]


def test_what_is_installed_names_both_interpreters_and_survives_one_that_is_not_there() -> None:
    here = installed({**os.environ, "PIPELINE_PYTHON": "/no/such/python"})
    assert here["PIPELINE_PYTHON"] == "/no/such/python"
    assert "No such file" in here["PIPELINE_PYTHON's pypto"]
    assert here["python"]
