from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("torch_installed")

Pipeline = Callable[..., Any]
Report = Callable[[Path], Mapping[str, Any]]
LastRun = Callable[[], Path]

PAIR = ("--platform", "emu-a2a3", "--geometry", "pair-24x16")
JOB = "compare/emu-a2a3/pair-24x16"


def test_every_stage_is_a_case(
    pipeline: Pipeline, report: Report, last_run: LastRun, stages: tuple[str, ...]
) -> None:
    outcome = pipeline("compare", *PAIR, "--profile", "small")
    assert outcome.code == 0
    cases = report(last_run() / "junit.xml")
    job = f"{JOB}/small"
    specified = [job, *(f"{job}/{stage}" for stage in stages)]
    assert [name for name in cases if name in specified] == specified
    assert {case.kind for case in cases.values()} == {"passed"}
    assert "fused sha256" in cases[f"{job}/two-pass-vs-fused"].out


def test_stage_tile_stops_after_the_first_tiles(
    pipeline: Pipeline, report: Report, last_run: LastRun, stages: tuple[str, ...]
) -> None:
    assert pipeline("compare", "--stage", "tile", *PAIR, "--profile", "small").code == 0
    job = f"{JOB}/small"
    cases = report(last_run() / "junit.xml")
    specified = [job, *(f"{job}/{stage}" for stage in stages)]
    assert [name for name in cases if name in specified] == specified[:5]


def test_every_stage_runs_after_a_mismatch_and_the_first_wrong_one_is_named(
    pipeline: Pipeline, report: Report, last_run: LastRun, stages: tuple[str, ...]
) -> None:
    """A fault of conv2 spoils what computes y, and nothing before it."""
    words = ("--platform", "emu-a2a3", "--geometry", "bands", "--profile", "small")
    assert pipeline("compare", *words, "--inject", "no-padding-bottom-2-last").code == 1
    cases = report(last_run() / "junit.xml")
    job = "compare/emu-a2a3/bands/small"
    assert cases[job].message.startswith("first wrong stage: fused: y: ")
    kinds = {stage: cases[f"{job}/{stage}"].kind for stage in stages}
    wrong = {"fused", "pass2-on-golden-mid", "pass2-on-own-mid"}
    assert kinds == {stage: "failure" if stage in wrong else "passed" for stage in stages}


@pytest.mark.parametrize("name", ["full-range", "ties"])
def test_given_tensors_give_the_given_outputs(
    name: str, pipeline: Pipeline, report: Report, last_run: LastRun, cases: Path
) -> None:
    """The outputs in the file are of an unrelated implementation; the report has their hashes."""
    file = cases / f"conv-pair-24x16-{name}.npz"
    assert pipeline("compare", *PAIR, "--inputs", file).code == 0
    found = report(last_run() / "junit.xml")
    job = f"{JOB}/inputs"
    with np.load(file) as given:
        for stage, tensor in (("fused", "y"), ("pass1", "mid"), ("pass2-on-own-mid", "y")):
            array = given[tensor]
            digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes())
            assert f"actual sha256 {digest.hexdigest()}" in found[f"{job}/{stage}"].out


def broken(given: Mapping[str, Any], path: Path, **changes: Any) -> Path:
    arrays = {name: given[name] for name in given} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_tensors_that_do_not_fit_are_refused(
    cases: Path, workspace: Path, refused: Callable[..., str]
) -> None:
    with np.load(cases / "conv-pair-24x16-ties.npz") as archive:
        given = dict(archive)
    file = workspace / "mine.npz"
    for changes, said in [
        ({"filter1": None}, "array 'filter1' is missing"),
        ({"bias3": given["bias1"]}, "array 'bias3' is not one of the inputs"),
        ({"x": given["x"].astype(np.int16)}, "array 'x' is int16: must be int8"),
        ({"x": given["x"][:-1]}, "array 'x' has shape [767, 32]: must be [768, 32] here"),
        ({"bias2": given["bias2"] + np.int32(2**31 - 1)}, "bias2"),
        ({"scale1": given["scale1"] & ~np.uint64(1 << 46)}, "channel 0: bit 46 is 0"),
        ({"scale2": given["scale2"] | np.uint64(0x7F800000)}, "channel 0"),
    ]:
        broken(given, file, **changes)
        line = refused("run", *PAIR, "--inputs", file)
        assert line.startswith(f"{file}: ")
        assert said in line


def test_tensors_of_one_geometry_do_not_go_with_jobs_of_several(
    cases: Path, refused: Callable[..., str]
) -> None:
    line = refused("run", "--inputs", cases / "conv-pair-24x16-ties.npz", "--platform", "emu-a2a3")
    assert line.endswith("here, in geometry bands: choose the right one with --geometry")


def test_files_that_hold_no_tensors_are_refused(
    cases: Path, workspace: Path, refused: Callable[..., str]
) -> None:
    whole = (cases / "conv-pair-24x16-ties.npz").read_bytes()
    file = workspace / "mine.npz"
    for content in (b"", b"no archive", whole[:2000], whole[:-30]):
        file.write_bytes(content)
        assert refused("run", *PAIR, "--inputs", file).startswith(f"{file}: ")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", b"not an array")
    assert refused("run", *PAIR, "--inputs", file).startswith(f"{file}: ")
    assert refused("run", *PAIR, "--inputs", workspace).startswith(f"{workspace}: cannot be read")
    assert refused("run", *PAIR, "--inputs", "absent.npz").startswith("absent.npz: cannot be read")
