"""What a job leaves of its mismatches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from golden.geometry import Conv, Geometry
from golden.inputs import load_inputs
from golden.profiles import make
from pipeline.ground.jobs import Job, JobContext, Lane, Platform, Result, State
from pipeline.ground.settings import Settings
from pipeline.work import comparison, stages

pytestmark = pytest.mark.usefixtures("torch_installed")

PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
JOB = Job(
    "compare/emu/g/small", Lane.COMPARE, Platform("emu", "emulator", "a2a3"), "g", PAIR, "pair", "small", 60.0
)


def run(folder: Path, goldens: Path, fault: str) -> Result:
    return stages.execute(JOB, JobContext(folder, None, goldens, Settings(inject=fault)))


def test_each_wrong_stage_keeps_its_output_and_difference(tmp_path: Path, goldens: Path) -> None:
    result = run(tmp_path, goldens, "planes-swapped-2")
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


def test_stages_held_against_one_another_leave_their_difference(tmp_path: Path, goldens: Path) -> None:
    """Only the fused kernel has an address to be corrupted at."""
    result = run(tmp_path, goldens, "map-corrupted")
    assert result.stages[-1].state is State.MISMATCH
    assert "two-pass-vs-fused/diff.json" in result.stages[-1].artefacts
    assert "two-pass-vs-fused/actual-y.npy" not in result.files


def test_the_kept_tensors_are_those_the_job_ran_on(tmp_path: Path, goldens: Path) -> None:
    run(tmp_path, goldens, "bias-missing-1")
    kept = load_inputs(tmp_path / "inputs.npz", PAIR).arrays("vreq8")
    for name, array in make("small", PAIR).arrays("vreq8").items():
        assert np.array_equal(kept[name], array)


def test_a_job_that_passes_keeps_what_its_engine_left_alone(tmp_path: Path, goldens: Path) -> None:
    result = run(tmp_path, goldens, "")
    assert result.artefacts == ()
    assert {name.rpartition("/")[2] for name in result.files} == {"report.json", "listing.txt"}
    assert not (tmp_path / "inputs.npz").exists()
    assert not list(tmp_path.rglob("diff.*"))


def test_where_nothing_can_be_kept_the_mismatch_stands(
    tmp_path: Path, goldens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(comparison, "save_inputs", full)
    result = run(tmp_path, goldens, "bias-missing-1")
    assert result.state is State.MISMATCH
    assert result.causes == ("bias-missing-1",)
    assert "fused: OSError: [Errno 28] No space left on device" in result.facts["not_kept"]
    assert not [path for path in result.files if path.endswith(".npy")]
    assert result.artefacts == ()
