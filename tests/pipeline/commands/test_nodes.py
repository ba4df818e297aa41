from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipeline.commands import nodes
from pipeline.commands.facts import VERSIONS, run_facts, source_digests
from pipeline.commands.nodes import survey
from pipeline.ground.jobs import Job, Lane, Platform, WorkloadName
from pipeline.run.cluster.messages import Inspect
from pipeline.run.cluster.roster import Node, Roster
from pipeline.run.options import RunOptions

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


def test_a_run_compares_versions_and_sources_of_nodes_with_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A node like this host is used; not one on which anything but the system has another version."""
    monkeypatch.setattr(nodes, "ClusterExecutor", lambda _terms, cluster: cluster)
    monkeypatch.setattr(nodes, "toolchain", lambda _backend, _environment: {})
    options = RunOptions(tmp_path, tmp_path, tmp_path, facts=run_facts(()), sources=source_digests([JOB], {}))
    terms: Any = None
    cluster: Any = nodes.cluster_executor(Namespace(address="head:1", devices=None), options)(terms)
    alike = survey(Inspect("", (JOB,), None, None))

    def refusal(facts: Mapping[str, str], sources: Mapping[str, str]) -> str:
        roster = Roster([JOB], cluster)
        roster.nodes["key"] = Node("host", {"CPU": 1.0}, 0.0, 0.0)
        changes = {"facts": {**alike.facts, **facts}, "sources": {**alike.sources, **sources}}
        return roster.admit("key", msgspec.structs.replace(alike, **changes), 0.0, ())

    assert refusal({"system": "0", "host": "another"}, {}) == ""
    for name in set(VERSIONS) - {"system"}:
        assert refusal({name: "0"}, {}) == f"has other versions: {name} 0 (here {options.facts[name]})"
    for room in ("emulator/", "golden/", "kernels/", "lowering/", "pipeline/", "workloads/"):
        assert refusal({}, {room: "0"}).startswith(f"has other files: {room} 0 (here ")


def test_a_node_says_what_it_has_yet_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each backend that jobs need, also beside another one; what is built is not said."""
    lacking = {"cann": "a library", "emulator": "", "isa": "another one"}
    monkeypatch.setattr("pipeline.commands.nodes.to_build", lacking.__getitem__)
    beside = replace(JOB, platform=Platform("emu", "emulator", "a2a3"), other=JOB.platform)
    assert survey(Inspect("", (beside,), None, None)).lacks == {"cann": "a library"}
