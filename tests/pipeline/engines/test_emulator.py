from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.engine import run_program
from golden import conv, conv_pair, gemm
from golden.definition import Definition
from golden.geometry import MC62, Conv, ConvGeometry, GemmGeometry, Geometry
from golden.inputs import load_inputs
from pipeline.engines.base import CompileError, Request
from pipeline.engines.emulator import EmulatorEngine
from pipeline.ground.jobs import Platform, WorkloadName
from pipeline.ground.memory import sentinel_of
from pipeline.ground.results import Metric, Source
from pipeline.ground.subject import Subject
from workloads.registry import SHIPPED, workload_named
from workloads.tiling import CONTRACT

PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
CONV, PRODUCT = ConvGeometry(20, 16, 64, 96, Conv(5, 1, 2)), GemmGeometry(96, 224, 64)
A2A3 = Platform("emu-a2a3", "emulator", "a2a3")

MakeRequest = Callable[..., Request]


@pytest.fixture
def request_of(tmp_path: Path) -> MakeRequest:
    def make(
        program: str, geometry: Any = PAIR, platform: Platform = A2A3, workload: str = "conv-pair"
    ) -> Request:
        options = CONTRACT if geometry is MC62 else {}
        folder = tmp_path / program / platform.name
        folder.mkdir(parents=True)
        subject = Subject(workload_named(workload), geometry, platform.soc, options)
        return Request(program, WorkloadName(workload), subject, platform, folder)

    return make


@pytest.mark.parametrize("name", SHIPPED)
def test_it_can_run_everything_everywhere(name: str) -> None:
    workload = workload_named(name)
    assert EmulatorEngine().probe(A2A3, workload, [program.name for program in workload.programs])


def test_compiling_mc62_gives_the_specs_figures(request_of: MakeRequest) -> None:
    request = request_of("fused", MC62)
    compiled = EmulatorEngine().compile(request)
    metrics = {metric.name: metric for metric in compiled.metrics}
    assert metrics["gm_read.x"] == Metric("gm_read.x", 2_351_104, "B", Source.COUNTER)
    assert metrics["gm_written.y"] == Metric("gm_written.y", 516_096, "B", Source.COUNTER)
    assert metrics["gm_read.filter1"].value + metrics["gm_read.filter2"].value == 73_728
    assert not [name for name in metrics if name.endswith(".mid")]
    assert metrics["mid_gm_read"] == Metric("mid_gm_read", 0, "B", Source.COUNTER)
    assert metrics["mid_gm_written"] == Metric("mid_gm_written", 0, "B", Source.COUNTER)
    peak = 293_888 + 71_680 + 2 * 36_864 + 1_536
    assert metrics["l1_peak"] == Metric("l1_peak", peak, "B", Source.COUNTER, 524_288)
    assert metrics["estimated_cycles.overlap"].source is Source.ESTIMATE
    assert compiled.facts == {}
    assert set(compiled.artefacts) == {request.folder / "report.json", request.folder / "listing.txt"}
    report = json.loads((request.folder / "report.json").read_bytes())
    assert report["memory"]
    assert [(cut["output"], len(cut["bands"])) for cut in report["cuts"]] == [("mid", 8), ("y", 8)]
    assert "img2col" in (request.folder / "listing.txt").read_text()


def test_the_bounce_of_two_passes_is_counted(request_of: MakeRequest) -> None:
    engine = EmulatorEngine()
    moved = {
        (program, metric.name): metric.value
        for program in ("pass1", "pass2", "first-tile-load")
        for metric in engine.compile(request_of(program, MC62)).metrics
    }
    assert moved["pass1", "gm_read.x"] == 2_121_728
    assert moved["pass1", "mid_gm_read"] == 0
    assert moved["pass1", "mid_gm_written"] == 144 * 56 * 64
    assert moved["pass2", "gm_read.mid"] == moved["pass2", "mid_gm_read"] == 573_440
    assert moved["pass2", "mid_gm_written"] == 0
    assert moved["first-tile-load", "mid_gm_written"] == 0  # nothing reads a first tile


@pytest.mark.parametrize(("workload", "geometry"), [("conv", CONV), ("gemm", PRODUCT)])
def test_a_workload_that_hands_nothing_over_has_no_such_metric(
    workload: str, geometry: Any, request_of: MakeRequest
) -> None:
    compiled = EmulatorEngine().compile(request_of(workload, geometry, workload=workload))
    assert not [metric for metric in compiled.metrics if metric.name.startswith("mid_gm")]


def test_there_is_no_estimate_for_a5(request_of: MakeRequest) -> None:
    compiled = EmulatorEngine().compile(request_of("fused", platform=replace(A2A3, soc="a5")))
    assert compiled.facts["estimated_cycles"] == "unavailable"
    assert Source.ESTIMATE not in {metric.source for metric in compiled.metrics}


@pytest.mark.parametrize("name", ["full-range", "ties"])
def test_it_gives_what_an_unrelated_implementation_gave(
    name: str, request_of: MakeRequest, cases: Path
) -> None:
    engine, file = EmulatorEngine(), cases / f"conv-pair-24x16-{name}.npz"
    inputs = load_inputs(file, conv_pair.specs(PAIR)).arrays("vreq8")
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
    inputs = load_inputs(file, conv_pair.specs(PAIR)).arrays("half-away")
    executed = EmulatorEngine().run(request_of("pass1", platform=platform), inputs)
    with np.load(file) as given:
        off = executed.outputs["mid"].astype(int) - given["mid"]
    assert set(np.unique(off)) <= {-1, 0, 1}
    assert off.any()


def test_a_plan_or_kernel_that_is_refused_is_a_compile_error(
    request_of: MakeRequest, untileable: Geometry
) -> None:
    engine = EmulatorEngine()
    with pytest.raises(CompileError, match=r"need .* B of L1, which has 524288"):
        engine.compile(request_of("fused", untileable))
    with pytest.raises(CompileError, match=r"need .* B of L1, which has 524288"):
        engine.run(request_of("pass1", untileable), {})


@pytest.mark.parametrize(
    ("definition", "geometry", "profile"),
    [
        (conv.DEFINITION, CONV, "full-range@3"),
        (conv.DEFINITION, ConvGeometry(33, 32, 32, 64, Conv(1, 2, 0)), "ties"),
        (gemm.DEFINITION, PRODUCT, "full-range@3"),
        (gemm.DEFINITION, PRODUCT, "extremes"),
    ],
)
@pytest.mark.usefixtures("torch_installed")
def test_kernels_of_one_program_are_exact(
    definition: Definition, geometry: Any, profile: str, request_of: MakeRequest
) -> None:
    tensors = definition.make(profile, geometry)
    request = request_of(definition.name, geometry, workload=definition.name)
    executed = EmulatorEngine().run(request, tensors.arrays("vreq8"))
    expected = definition.compute(geometry, tensors, "vreq8")
    assert executed.outputs.keys() == expected.keys()
    for name, output in executed.outputs.items():
        assert output.dtype == expected[name].dtype
        np.testing.assert_array_equal(output, expected[name])


def test_a_matrix_product_reads_its_matrices_once_and_writes_int32(request_of: MakeRequest) -> None:
    compiled = EmulatorEngine().compile(request_of("gemm", PRODUCT, workload="gemm"))
    metrics = {metric.name: metric for metric in compiled.metrics}
    assert metrics["gm_read.a"].value == 96 * 224
    assert metrics["gm_read.b"].value == 224 * 64
    assert metrics["gm_written.c"].value == 96 * 64 * 4
    peak = 96 * 224 + 224 * 64
    assert metrics["l1_peak"] == Metric("l1_peak", peak, "B", Source.COUNTER, 524_288)


def test_a_convolution_reads_its_filter_once_and_writes_int8(request_of: MakeRequest) -> None:
    compiled = EmulatorEngine().compile(request_of("conv", CONV, workload="conv"))
    metrics = {metric.name: metric.value for metric in compiled.metrics}
    assert metrics["gm_read.filter"] == 25 * 64 * 96
    assert metrics["gm_written.y"] == 20 * 16 * 96


def test_what_a_program_does_not_write_is_the_sentinel_of_its_dtype(
    request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def run(program: Any, soc: Any, arrays: Any, variant: str) -> Any:
        found.append(arrays["c"].copy())
        return run_program(program, soc, arrays, variant)

    monkeypatch.setattr("pipeline.engines.emulator.run_program", run)
    inputs = gemm.DEFINITION.make("small", PRODUCT).arrays("vreq8")
    EmulatorEngine().run(request_of("gemm", PRODUCT, workload="gemm"), inputs)
    (before,) = found
    assert (before.shape, before.dtype) == ((96, 64), np.int32)
    assert set(before.flat) == {sentinel_of(np.dtype(np.int32))}
