"""The compile lane where it verifies: an emulator, a real compiler, and a backend that is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.registry import engine_for
from pipeline.ground.jobs import Platform
from workloads.registry import workload_named

AVAILABLE = engine_for("cann").probe(
    Platform("cann-a2a3", "cann", "a2a3"), workload_named("conv-pair"), ["fused"]
)

OVERLAY = """\
platforms:
  cann-a2a3: {backend: cann, soc: a2a3}
lanes:
  compile:
    include:
      - platforms: [cann-a2a3]
        geometries: [pair-24x16]
        kernels: [fused, two-pass]
        verify: full-range@7
      - platforms: [a2a3]
        geometries: [pair-24x16]
        kernels: [fused]
"""
CANN = "compile/cann-a2a3/pair-24x16"
EMULATED = "compile/emu-a2a3/pair-24x16/fused"
LACKING = "compile/a2a3/pair-24x16/fused"


@pytest.fixture
def overlay(workspace: Path) -> str:
    (workspace / "cann.yaml").write_text(OVERLAY)
    return "cann.yaml"


def test_the_profile_selects_what_is_verified(pipeline: Callable[..., Any], overlay: str) -> None:
    found = pipeline("list", "--lane", "compile", "--matrix", overlay, "--profile", "full-range@7")
    assert found.out.splitlines() == [f"{CANN}/fused", f"{CANN}/two-pass"]
    explained = pipeline("list", "--matrix", overlay, "--explain", f"{CANN}/fused").out
    assert "cann.yaml:9: lanes.compile.include[1].verify: verified on full-range@7\n" in explained


@pytest.mark.skipif(not AVAILABLE, reason=AVAILABLE.reason)
@pytest.mark.thorough
def test_emulated_compiled_and_skipped_rows_are_told_apart(
    pipeline: Callable[..., Any],
    report: Callable[[Path], Mapping[str, Any]],
    last_run: Callable[[], Path],
    overlay: str,
) -> None:
    ids = [word for job in (EMULATED, f"{CANN}/two-pass", LACKING) for word in ("--id", job)]
    outcome = pipeline("compile", "--matrix", overlay, *ids)
    assert outcome.code == 0, outcome.out
    cases = report(last_run() / "junit.xml")
    facts = {
        job: dict(line.split("=", 1) for line in case.out.splitlines() if "=" in line)
        for job, case in cases.items()
    }
    assert {job: (case.kind, facts[job]["engine"]) for job, case in cases.items()} == {
        EMULATED: ("passed", "emulator"),
        f"{CANN}/two-pass": ("passed", "cann"),
        LACKING: ("skipped", "pypto"),
    }
    assert cases[LACKING].message.startswith("needs hw-native-sys PyPTO")
    assert not [name for name in facts[EMULATED] if name.startswith("verify-")]
    verified = facts[f"{CANN}/two-pass"]
    assert verified["profile"] == "full-range@7"
    assert cases[f"{CANN}/two-pass"].out.count(": 0 of ") == 2
    for program in ("pass1", "pass2"):
        assert_verified(program, verified)
    assert "programs compiled by emulator: 1; proved: 1; not verified\n" in outcome.out
    assert "programs compiled by cann: 2; not proved; verified: 2, exact: 2\n" in outcome.out
    table = [line for line in (last_run() / "summary.md").read_text().splitlines() if " | " in line]
    assert [line.split(" | ")[:2] for line in table[2:]] == [
        [f"`{EMULATED} fused`", "`emulator`"],
        [f"`{CANN}/two-pass pass1`", "`cann`"],
        [f"`{CANN}/two-pass pass2`", "`cann`"],
    ]
    assert [line.rpartition(" | ")[2].split(",")[0] for line in table[2:]] == [
        "`-`",
        *["`full-range@7: exact"] * 2,
    ]
    (folder,) = (last_run() / "jobs").glob("*cann-a2a3+pair-24x16+two-pass/1")
    left = {str(path.relative_to(folder)) for path in folder.glob("*pass1/*")}
    assert {"pass1/cost.txt", "pass1/program.json", "verify-pass1/verdicts.csv"} <= left


def assert_verified(program: str, facts: Mapping[str, str]) -> None:
    """It has cycles; the framework accepts every pass, of the program that was compiled."""
    assert int(facts[f"{program}.cycles"]) > 0
    verified = {
        name.removeprefix(f"verify-{program}."): value
        for name, value in facts.items()
        if name.startswith(f"verify-{program}.")
    }
    verdicts = {name: value for name, value in verified.items() if name.startswith("verdict.")}
    assert "verdict.tensor_graph" in verdicts
    assert len(verdicts) > 1
    assert set(verdicts.values()) == {"pass"}
    assert verified["accepted_passes"] == f"{len(verdicts)} of {len(verdicts)}"
    # The verifier numbers tensors anew.
    measured = verified.keys() - verdicts.keys() - {"accepted_passes", "program_sha256"}
    assert {"tiling", "mid_gm_read", "l1_peak"} <= measured
    assert {name: verified[name] for name in measured} == {
        name: facts[f"{program}.{name}"] for name in measured
    }
