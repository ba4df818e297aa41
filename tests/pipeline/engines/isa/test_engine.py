"""The engine with a stand-in for the compiler; what its programs give was recorded, or made before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulator.soc import Space
from golden.geometry import Conv, Geometry
from pipeline.engines.base import CompileError, InfrastructureError, NotSupportedError, Request
from pipeline.engines.isa.engine import IsaEngine, installed
from pipeline.engines.isa.toolchain import SANITIZE
from pipeline.ground.jobs import Platform, WorkloadName
from pipeline.ground.subject import Subject
from workloads.registry import workload_named

DATA = Path(__file__).resolve().parents[3] / "data"
PAIR = workload_named("conv-pair")
SMALL = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
TILES = {"tile_positions1": 16, "k_step1": 64, "tile_positions2": 16, "k_step2": 32}
PLATFORM = Platform("isa-a2a3", "isa", "a2a3", "offset-unsigned")
Host = Callable[..., Mapping[str, str]]
Calls = Callable[[], list[str]]


def answering(folder: Path, revision: str) -> str:
    """A program that answers the probe as the headers of a revision did; it counts how often it is asked."""
    recorded = json.loads((DATA / "isa" / "answers.json").read_text())
    (commit,) = (each for each in recorded if each.startswith(revision))
    for name, answers in recorded[commit].items():
        np.array(answers, np.int8).tofile(folder / name)
    return f'cp "{folder}/inserted" "$5"; cp "{folder}/stored" "$6"; echo asked >> "{folder}/asked"'


def engine(environment: Mapping[str, str], tmp_path: Path) -> IsaEngine:
    return IsaEngine(environment, tmp_path / "cache")


def test_without_headers_jobs_are_skipped_with_the_remedy(tmp_path: Path) -> None:
    found = engine({}, tmp_path).probe(PLATFORM, PAIR, ["fused"])
    assert found.reason.startswith("PTO_ISA_ROOT is not set")
    assert found.remedy


def test_headers_are_asked_once_and_remembered(host: Host, calls: Calls, tmp_path: Path) -> None:
    environment = host(runner=answering(tmp_path, "3186c381"))
    for _ in range(2):
        assert engine(environment, tmp_path).probe(PLATFORM, PAIR, ["fused"])
    assert len(calls()) == 2
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_headers_that_scale_by_row_are_refused_and_no_kernel_is_blamed(host: Host, tmp_path: Path) -> None:
    environment = host(runner=answering(tmp_path, "c92877ba"))
    found = engine(environment, tmp_path).probe(PLATFORM, PAIR, ["fused"])
    assert "TINSERT_FP scales by row" in found.reason
    assert "787d692d" in found.remedy


def test_headers_that_cannot_be_built_are_refused(host: Host, tmp_path: Path) -> None:
    environment = host(does="echo 'pto-inst.hpp:1:1: error: no such thing' >&2; exit 1")
    found = engine(environment, tmp_path).probe(PLATFORM, PAIR, ["fused"])
    assert "cannot be probed" in found.reason
    assert "no such thing" in found.reason


def request(folder: Path, program: str = "fused", **options: int) -> Request:
    folder.mkdir()
    subject = Subject(PAIR, SMALL, "a2a3", {**TILES, **options})
    return Request(program, WorkloadName("conv-pair"), subject, PLATFORM, folder)


def inputs(subject: Subject) -> dict[str, np.ndarray]:
    entry, specs = subject.program("fused"), subject.definition.specs(subject.geometry)
    shapes = {each.name: each for each in specs}
    return {
        name: np.arange(np.prod(shapes[name].shape)).astype(shapes[name].dtype).reshape(shapes[name].shape)
        for name in entry.inputs
    }


def test_a_program_is_compiled_to_its_text(host: Host, tmp_path: Path) -> None:
    done = engine(host(), tmp_path).compile(request(tmp_path / "job"))
    (text,) = done.artefacts
    assert text.read_text() == (DATA / "lowering" / "fused-small.cpp").read_text()
    assert done.facts["compiler"] == "Some clang version 19.1.7 (3)"
    assert done.facts["pto_isa"].startswith("no commit, SHA-256 ")


def test_it_runs_on_the_jobs_inputs_and_reads_the_output(host: Host, tmp_path: Path) -> None:
    """The stand-in's output is the start of x; before it runs, y holds the sentinel."""
    asked = request(tmp_path / "job")
    given = inputs(asked.subject)
    runner = f'cp "$8" "{tmp_path}/before"; head -c 6144 "$1" > "{tmp_path}/y"; cp "{tmp_path}/y" "$8"'
    done = engine(host(runner=runner), tmp_path).run(asked, given)
    np.testing.assert_array_equal(done.outputs["y"], given["x"].reshape(-1)[:6144].reshape(96, 64))
    assert done.outputs["y"].dtype == np.int8
    assert set((tmp_path / "before").read_bytes()) == {0xAA}
    assert sorted(path.name for path in asked.folder.iterdir()) == ["program.cpp", "simulator.log"]


def test_the_sanitizer_is_a_fact_of_the_result(host: Host, tmp_path: Path) -> None:
    done = engine({**host(), SANITIZE: "address"}, tmp_path).compile(request(tmp_path / "job"))
    assert done.facts["sanitizer"] == "address"


def test_a_plan_that_cannot_be_tiled_is_a_refusal(host: Host, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="band_rows"):
        engine(host(), tmp_path).compile(request(tmp_path / "job", band_rows=100))


def test_what_cannot_be_lowered_is_not_supported(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.engines.isa import engine as module

    soc = module.SOCS["a2a3"]
    small = replace(soc, capacity={**soc.capacity, Space.Vec: 1024})
    monkeypatch.setattr(module, "SOCS", {"a2a3": small})
    with pytest.raises(NotSupportedError, match="no room for the tables"):
        engine(host(), tmp_path).compile(request(tmp_path / "job"))


def test_headers_that_are_gone_are_the_hosts_fault(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="PTO_ISA_ROOT is not set"):
        engine({}, tmp_path).compile(request(tmp_path / "job"))


def test_doctor_names_headers_compiler_and_what_was_measured(
    host: Host, headers: Path, tmp_path: Path
) -> None:
    environment = host(runner=answering(tmp_path, "3186c381"))
    lines = installed(environment, tmp_path / "cache")
    assert lines.pop("PTO_ISA_ROOT").startswith(f"{headers} (no commit, SHA-256 ")
    assert lines == {
        "its compiler": f"{environment['PATH']}/clang++: Some clang version 19.1.7 (3)",
        "its TINSERT_FP": "offset-unsigned by channel",
        "its TSTORE_FP": "offset-unsigned by row",
    }


def test_doctor_says_what_is_missing_or_fails(host: Host, tmp_path: Path) -> None:
    assert "is not set" in installed({}, tmp_path / "cache")["PTO_ISA_ROOT"]
    failing = installed(host(runner="exit 3"), tmp_path / "cache")
    assert failing["its simulator"] == "the simulator's process ended with exit code 3"
