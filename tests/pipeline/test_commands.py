from __future__ import annotations

from dataclasses import replace

import pytest

from golden.geometry import MC62
from pipeline.commands import availability
from pipeline.jobs import Job, Lane, Platform

EMULATED = Platform("emu", "emulator", "a2a3")
JOB = Job("device/emu/mc62/fused/small", Lane.DEVICE, EMULATED, "mc62", MC62, "fused", "small", 60.0)


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        replace(JOB, lane=Lane.COMPARE, kernel="pair"),
        replace(JOB, lane=Lane.COMPILE, kernel="two-pass", profile=None),
    ],
)
def test_an_emulated_job_can_run(job: Job) -> None:
    assert availability(job)


def test_a_backend_without_an_engine_is_named() -> None:
    found = availability(replace(JOB, platform=replace(EMULATED, backend="abacus")))
    assert not found
    assert found.reason == "backend abacus is not available yet"
