"""Geometries that the host packs: exact, proved, and their faults named, as all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golden.geometry import Conv, ConvGeometry, Geometry
from golden.inputs import save_inputs
from pipeline.engines.emulator import EmulatorEngine
from pipeline.faults.matrix import Totals, run_rows
from pipeline.ground.jobs import Job, Lane, State
from pipeline.ground.results import PACKING, PROVED, YES, JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.work.stages import execute
from workloads.faults import FAULTS
from workloads.registry import workload_named

pytestmark = pytest.mark.usefixtures("torch_installed", "undrawn")

Jobs = Callable[..., Job]
Done = Callable[..., Result]

KERNELS = {"conv": ("conv",), "conv-pair": ("fused", "two-pass")}
PAIR = Geometry(24, 16, 3, 40, 33, Conv(3, 2, 1), Conv(3, 1, 1))
DEPTHWISE = ConvGeometry(14, 9, 40, 80, Conv(3, 1, 2, 2), 40)
SMALL = ConvGeometry(5, 3, 3, 40, Conv(3, (1, 2), 7, 7))
"""An image smaller than the distance between two taps."""

CONVS = st.builds(
    lambda kernel, stride, inner, dilation: Conv(kernel, stride, inner % kernel, dilation),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from([1, 1, 2]),
)
CHANNELS = st.integers(1, 100)


@st.composite
def geometries(draw: st.DrawFn) -> tuple[str, Any]:
    """A workload and one of its geometries, of any channels, groups and dilation."""
    height, width = draw(st.integers(13, 20)), draw(st.integers(13, 20))
    if draw(st.booleans()):
        channels = draw(CHANNELS), draw(CHANNELS), draw(CHANNELS)
        return "conv-pair", Geometry(height, width, *channels, draw(CONVS), draw(CONVS))
    groups = draw(st.sampled_from([1, 2, 3, 32, 33]))
    cin, cout = (-(-draw(CHANNELS) // groups) * groups for _ in range(2))
    return "conv", ConvGeometry(height, width, cin, cout, draw(CONVS), groups)


def check(job_of: Jobs, folder: Path, workload: str, geometry: Any, soc: str) -> None:
    """Every stage of a comparison is exact, and every program proved."""

    def done(lane: Lane, **options: Any) -> Result:
        job = job_of(lane, geometry=geometry, workload=workload, band_rows=None, **options)
        job = replace(job, platform=replace(job.platform, soc=soc))
        return execute(job, JobContext(folder / "job", None, folder / "cache", Settings()))

    compared = done(Lane.COMPARE, profile="full-range@7")
    assert compared.state is State.PASSED, compared.message
    for kernel in KERNELS[workload]:
        compiled = done(Lane.COMPILE, kernel=kernel, profile=None)
        assert {stage.facts[PROVED] for stage in compiled.stages} == {YES}


@pytest.mark.parametrize("soc", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("workload", "geometry"), [("conv-pair", PAIR), ("conv", DEPTHWISE), ("conv", SMALL)]
)
def test_a_packed_geometry_is_exact_and_proved(
    workload: str, geometry: Any, soc: str, job_of: Jobs, tmp_path: Path
) -> None:
    check(job_of, tmp_path, workload, geometry, soc)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(drawn=geometries(), soc=st.sampled_from(["a2a3", "a5"]))
def test_a_geometry_of_any_channels_is_exact_and_proved(
    drawn: tuple[str, Any], soc: str, job_of: Jobs, tmp_path: Path
) -> None:
    check(job_of, tmp_path, *drawn, soc)


@pytest.mark.thorough
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(drawn=geometries())
@pytest.mark.parametrize("soc", ["a2a3", "a5"])
def test_many_geometries_of_any_channels_are_exact_and_proved(
    drawn: tuple[str, Any], soc: str, job_of: Jobs, tmp_path: Path
) -> None:
    check(job_of, tmp_path, *drawn, soc)


def test_a_result_says_how_the_host_packs(job_of: Jobs, done: Done) -> None:
    packed = done(job_of(Lane.DEVICE, "conv", DEPTHWISE, None, workload="conv"))
    assert packed.facts[PACKING].startswith(
        "cin 40 -> 64, cout 80 -> 96; 40 groups as a block-diagonal filter;"
    )
    assert PACKING not in done(job_of(Lane.DEVICE, "fused")).facts


def test_garbage_in_a_channel_that_the_user_does_not_have_is_no_mismatch(
    job_of: Jobs, done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the next program reads it: its filter has zeros there."""
    right = EmulatorEngine.run

    def wrong(self: EmulatorEngine, request: Any, inputs: Any) -> Any:
        result = right(self, request, inputs)
        ((name, output),) = result.outputs.items()
        garbage = output.copy()
        garbage[:, {"mid": PAIR.cmid, "y": PAIR.cout}[name] :] = np.arange(len(output))[:, None] % 100 + 1
        return replace(result, outputs={name: garbage})

    monkeypatch.setattr(EmulatorEngine, "run", wrong)
    assert done(job_of(Lane.DEVICE, "two-pass", PAIR, None)).state is State.PASSED


@pytest.mark.parametrize(
    ("workload", "kernel", "geometry", "fault"),
    [
        ("conv-pair", "two-pass", PAIR, "bias-missing-2"),
        ("conv-pair", "fused", PAIR, "nz-as-nd-mid"),
        ("conv-pair", "fused", PAIR, "nz-as-nd-y"),
        ("conv", "conv", DEPTHWISE, "k-order-khkwc-1"),
        ("conv", "conv", DEPTHWISE, "unwritten"),
    ],
)
def test_a_fault_in_a_packed_program_is_named(
    workload: str, kernel: str, geometry: Any, fault: str, job_of: Jobs, done: Done
) -> None:
    job = job_of(Lane.DEVICE, kernel, geometry, 4, "full-range@7", workload)
    result = done(job, inject=fault)
    assert result.state is State.MISMATCH
    assert fault in result.causes
    wrong = [diff for stage in result.stages for diff in stage.diffs if not diff.clean]
    assert [(diff.tensor, diff.shape[1]) for diff in wrong] == [("y", geometry.cout)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("workload", "kernel", "geometry"),
    [("conv-pair", "fused", PAIR), ("conv-pair", "two-pass", PAIR), ("conv", "conv", DEPTHWISE)],
)
def test_every_fault_in_a_packed_program_is_found_and_named(
    workload: str, kernel: str, geometry: Any, job_of: Jobs, tmp_path: Path
) -> None:
    profiles = ("full-range@7", "ties", "near-ties")
    jobs = [job_of(Lane.DEVICE, kernel, geometry, 4, profile, workload) for profile in profiles]
    totals = Totals(run_rows(jobs, list(FAULTS), tmp_path / "work", tmp_path / "goldens"))
    assert [row.fault for row in totals.missed] == []
    assert totals.false_positives == []


def test_a_users_tensors_are_those_of_the_users_geometry(job_of: Jobs, done: Done, tmp_path: Path) -> None:
    definition = workload_named("conv").definition
    tensors = definition.make("full-range@3", DEPTHWISE)
    save_inputs(tmp_path / "mine.npz", tensors)
    job = job_of(Lane.DEVICE, "conv", DEPTHWISE, None, workload="conv")
    assert done(job, inputs=str(tmp_path / "mine.npz")).state is State.PASSED
