"""What a job leaves of its mismatches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.cache import golden_for
from golden.inputs import load_inputs
from pipeline.ground.jobs import Lane, State
from pipeline.ground.memory import sentinel_of
from pipeline.ground.results import JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.ground.subject import wanted_golden
from pipeline.work import comparison, stages

pytestmark = pytest.mark.usefixtures("torch_installed")

Run = Callable[..., Result]


@pytest.fixture
def run(samples: Any, tmp_path: Path, goldens: Path) -> Run:
    """Does a job of the compare lane in the test's folder, with a fault."""

    def do(fault: str, workload: str = "conv-pair") -> Result:
        job = samples[workload].job(Lane.COMPARE)
        return stages.execute(job, JobContext(tmp_path, None, goldens, Settings(inject=fault)))

    return do


def test_each_wrong_stage_keeps_its_output_and_difference(run: Run, tmp_path: Path) -> None:
    result = run("planes-swapped-2")
    wrong = [stage.name for stage in result.stages if stage.state is State.MISMATCH]
    assert wrong == ["fused", "pass2-on-own-mid"]
    files = ("actual-y.npy", "diff.json", "diff.npz", "rows-columns.png", "channels.png")
    left = ("report.json", "listing.txt")  # by the emulator, whether its output is right or not
    assert result.artefacts == ("inputs.npz",)
    for stage in result.stages[:-1]:
        kept = (*files, *left) if stage.name in wrong else left
        assert stage.artefacts == tuple(f"{stage.name}/{file}" for file in kept)
    assert all((tmp_path / path).is_file() for path in result.files)
    assert result.causes[0] == "planes-swapped-2"
    with np.load(tmp_path / "fused" / "diff.npz") as arrays:
        actual = np.load(tmp_path / "fused" / "actual-y.npy")
        assert np.array_equal(arrays["expected"] + arrays["difference"], actual)


def test_stages_held_against_one_another_leave_their_difference(run: Run, tmp_path: Path) -> None:
    """Only the fused kernel has an address to be corrupted at."""
    result = run("map-corrupted")
    assert result.stages[-1].state is State.MISMATCH
    assert "two-pass-vs-fused/diff.json" in result.stages[-1].artefacts
    assert "two-pass-vs-fused/actual-y.npy" not in result.files


@pytest.mark.parametrize("workload", ["conv-pair", "conv"])
def test_the_kept_tensors_are_those_the_job_ran_on(
    workload: str, samples: Any, run: Run, tmp_path: Path
) -> None:
    run("bias-missing-1", workload)
    definition, geometry = samples[workload].definition, samples[workload].geometry
    kept = load_inputs(tmp_path / "inputs.npz", definition.specs(geometry)).arrays("vreq8")
    for name, array in definition.make("small", geometry).arrays("vreq8").items():
        assert np.array_equal(kept[name], array)


def test_a_wrong_int32_output_is_kept_as_it_is(
    samples: Any, tmp_path: Path, goldens: Path, last_row_unwritten: None
) -> None:
    job = samples["gemm"].job(Lane.DEVICE, "gemm")
    result = stages.execute(job, JobContext(tmp_path, None, goldens))
    assert result.state is State.MISMATCH
    (diff,) = result.stages[0].diffs
    assert (diff.shape, diff.mismatches, diff.unwritten) == ((64, 64), 64, 64)
    expected = golden_for(wanted_golden(job, None), goldens).outputs["c"]
    actual = np.load(tmp_path / "gemm" / "actual-c.npy")
    assert actual.dtype == np.int32
    assert np.array_equal(actual[:-1], expected[:-1])
    assert set(actual[-1]) == {sentinel_of(np.dtype(np.int32))}
    with np.load(tmp_path / "gemm" / "diff.npz") as arrays:
        assert np.array_equal(arrays["expected"] + arrays["difference"], actual)
    assert [path for path in result.files if path.endswith(".npz")] == ["inputs.npz", "gemm/diff.npz"]


def test_a_job_that_passes_keeps_what_its_engine_left_alone(run: Run, tmp_path: Path) -> None:
    result = run("")
    assert result.artefacts == ()
    assert {name.rpartition("/")[2] for name in result.files} == {"report.json", "listing.txt"}
    assert not (tmp_path / "inputs.npz").exists()
    assert not list(tmp_path.rglob("diff.*"))


def test_where_nothing_can_be_kept_the_mismatch_stands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(comparison, "save_inputs", full)
    result = run("bias-missing-1")
    assert result.state is State.MISMATCH
    assert result.causes == ("bias-missing-1",)
    assert "fused: OSError: [Errno 28] No space left on device" in result.facts["not_kept"]
    assert not [path for path in result.files if path.endswith(".npy")]
    assert result.artefacts == ()
