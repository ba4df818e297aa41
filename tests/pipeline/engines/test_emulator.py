from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernels.catalogue import PROGRAMS

from golden.geometry import MC62, Conv, Geometry
from golden.inputs import load_inputs
from pipeline.engines.base import CompileError, Request
from pipeline.engines.emulator import EmulatorEngine
from pipeline.ground.jobs import Platform

PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
A2A3 = Platform("emu-a2a3", "emulator", "a2a3")

MakeRequest = Callable[..., Request]


@pytest.fixture
def request_of(tmp_path: Path) -> MakeRequest:
    def make(program: str, geometry: Geometry = PAIR, platform: Platform = A2A3) -> Request:
        folder = tmp_path / program / platform.name
        folder.mkdir(parents=True)
        return Request(program, geometry, platform, folder)

    return make


def test_it_can_run_everything_everywhere() -> None:
    assert EmulatorEngine().probe(A2A3, tuple(PROGRAMS))


def test_compiling_mc62_gives_the_specs_figures(request_of: MakeRequest) -> None:
    request = request_of("fused", MC62)
    compiled = EmulatorEngine().compile(request)
    assert compiled.facts["gm_read.x"] == "2351104"
    assert compiled.facts["gm_written.y"] == "516096"
    assert int(compiled.facts["gm_read.filter1"]) + int(compiled.facts["gm_read.filter2"]) == 73_728
    assert not [fact for fact in compiled.facts if fact.endswith(".mid")]
    assert compiled.facts["l1_peak"] == f"{293_888 + 71_680 + 2 * 36_864 + 1_536} of 524288"
    assert set(compiled.artefacts) == {request.folder / "report.json", request.folder / "listing.txt"}
    assert json.loads((request.folder / "report.json").read_bytes())["memory"]
    assert "img2col" in (request.folder / "listing.txt").read_text()


def test_the_bounce_of_two_passes_is_counted(request_of: MakeRequest) -> None:
    engine = EmulatorEngine()
    assert engine.compile(request_of("pass1", MC62)).facts["gm_read.x"] == "2121728"
    facts = engine.compile(request_of("pass2", MC62)).facts
    assert facts["gm_read.mid"] == "573440"


def test_there_is_no_estimate_for_a5(request_of: MakeRequest) -> None:
    facts = EmulatorEngine().compile(request_of("fused", platform=replace(A2A3, soc="a5"))).facts
    assert facts["estimated_cycles"] == "unavailable"
    assert not [fact for fact in facts if fact.startswith("estimated_cycles.")]


@pytest.mark.parametrize("name", ["full-range", "ties"])
def test_it_gives_what_an_unrelated_implementation_gave(
    name: str, request_of: MakeRequest, cases: Path
) -> None:
    engine, file = EmulatorEngine(), cases / f"conv-pair-24x16-{name}.npz"
    inputs = load_inputs(file, PAIR).arrays("vreq8")
    with np.load(file) as given:
        for program, tensor in (("fused", "y"), ("pass1", "mid"), ("pass2", "y")):
            executed = engine.run(request_of(program), {**inputs, "mid": given["mid"]})
            assert list(executed.outputs) == [tensor]
            np.testing.assert_array_equal(executed.outputs[tensor], given[tensor])
            assert executed.problems == ()


def test_it_requantises_as_the_platform_declares(request_of: MakeRequest, cases: Path) -> None:
    """Ties are rounded away from zero where a platform says so, and the given outputs are not."""
    file = cases / "conv-pair-24x16-ties.npz"
    platform = replace(A2A3, name="away", variant="half-away")
    inputs = load_inputs(file, PAIR).arrays("half-away")
    executed = EmulatorEngine().run(request_of("pass1", platform=platform), inputs)
    with np.load(file) as given:
        off = executed.outputs["mid"].astype(int) - given["mid"]
    assert set(np.unique(off)) <= {-1, 0, 1}
    assert off.any()


def test_a_plan_or_kernel_that_is_refused_is_a_compile_error(request_of: MakeRequest) -> None:
    untileable = Geometry(5, 5, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))
    engine = EmulatorEngine()
    with pytest.raises(CompileError, match="fewer than the 16 of a tile"):
        engine.compile(request_of("fused", untileable))
    with pytest.raises(CompileError, match="fewer than the 16 of a tile"):
        engine.run(request_of("pass1", untileable), {})
