from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pipeline.commands.nodes import survey
from pipeline.ground.jobs import Job, Lane, Platform, WorkloadName
from pipeline.run.cluster.messages import Inspect

JOB = Job(
    "compile/cann/mc62/fused",
    Lane.COMPILE,
    Platform("cann", "cann", "a2a3"),
    WorkloadName("conv-pair"),
    "mc62",
    {},
    "fused",
    None,
    60.0,
)


def test_the_clock_of_a_node_is_read_after_compilers_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one that is slow would look like a clock that is wrong."""
    clock = [1000.0]

    def slow(backend: str, environment: Mapping[str, str]) -> Mapping[str, str]:
        clock[0] += 20.0
        return {"compiler": "g++ 14"}

    monkeypatch.setattr("pipeline.commands.nodes.toolchain", slow)
    told = survey(Inspect("", (JOB,), None, None), now=lambda: clock[0])
    assert told.toolchains == {"cann": {"compiler": "g++ 14"}}
    assert told.clock == 1020.0


def test_a_node_says_what_it_has_yet_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each backend that jobs need, also beside another one; what is built is not said."""
    lacking = {"cann": "a library", "emulator": "", "isa": "another one"}
    monkeypatch.setattr("pipeline.commands.nodes.to_build", lacking.__getitem__)
    beside = replace(JOB, platform=Platform("emu", "emulator", "a2a3"), other=JOB.platform)
    assert survey(Inspect("", (beside,), None, None)).lacks == {"cann": "a library"}
