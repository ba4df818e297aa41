from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pipeline.commands.hosts import availability
from pipeline.engines.base import Availability
from pipeline.engines.emulator import EmulatorEngine
from pipeline.ground.jobs import Job, Lane, Platform, WorkloadName
from workloads.base import Workload

EMULATED = Platform("emu", "emulator", "a2a3")
JOB = Job(
    "device/emu/mc62/fused/small",
    Lane.DEVICE,
    EMULATED,
    WorkloadName("conv-pair"),
    "mc62",
    {},
    "fused",
    "small",
    60.0,
)


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        replace(JOB, lane=Lane.COMPARE, kernel="all"),
        replace(JOB, lane=Lane.COMPILE, kernel="two-pass", profile=None),
    ],
)
def test_an_emulated_job_can_run(job: Job) -> None:
    assert availability(job)


@pytest.mark.parametrize(("lane", "profile"), [(Lane.COMPILE, "small"), (Lane.DEVICE, "small")])
def test_a_job_that_verifies_needs_what_running_needs(
    lane: Lane, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Engine(EmulatorEngine):
        def probe(
            self,
            platform: Platform,
            workload: Workload,
            programs: Sequence[str],
            *,
            compile_only: bool = False,
        ) -> Availability:
            asked.append(compile_only)
            return Availability()

    monkeypatch.setattr("pipeline.commands.hosts.engine_for", lambda _: Engine())
    assert availability(replace(JOB, lane=lane, profile=profile))
    assert availability(replace(JOB, lane=Lane.COMPILE, profile=None))
    assert asked == [False, True]


def test_a_backend_without_an_engine_is_named() -> None:
    found = availability(replace(JOB, platform=replace(EMULATED, backend="abacus")))
    assert not found
    assert found.reason == "backend abacus is not available yet"
