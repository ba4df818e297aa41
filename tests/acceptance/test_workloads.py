"""Workloads beside the pair, as a user meets them: one convolution and a matrix product."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("torch_installed")

Pipeline = Callable[..., Any]
Report = Callable[[Path], Mapping[str, Any]]
LastRun = Callable[[], Path]
Refused = Callable[..., str]

OVERLAY = """\
geometries:
  one:
    {workload: conv, height: 20, width: 16, cin: 64, cout: 64, band_rows: 8,
     conv: {kernel: 5, stride: 1, padding: 2}}
  point: {workload: conv, height: 16, width: 16, cin: 64, cout: 32, conv: {kernel: 1, stride: 1, padding: 0}}
  product: {workload: gemm, m: 64, k: 96, n: 64}
lanes:
  compile:
    include:
      - {platforms: [emu-a2a3, emu-a5], geometries: [one, point], kernels: [conv], verify: small}
      - {platforms: [emu-a2a3, emu-a5], geometries: [product], kernels: [gemm], verify: extremes}
  device:
    include:
      - {platforms: [emu-a2a3, emu-a5], geometries: [one, point], kernels: [conv], profiles: [small, ties]}
      - {platforms: [emu-a2a3, emu-a5], geometries: [product], kernels: [gemm], profiles: [small, extremes]}
"""
MORE = ("--matrix", "more.yaml")
BOTH = (*MORE, "--geometry", "one", "--geometry", "product")
PLATFORM = ("--platform", "emu-a2a3")


@pytest.fixture(autouse=True)
def overlay(workspace: Path) -> None:
    (workspace / "more.yaml").write_text(OVERLAY)


def facts(out: str) -> dict[str, str]:
    lines = (line.partition("=") for line in out.splitlines())
    return {key: value for key, equals, value in lines if equals and re.fullmatch(r"[\w.-]+", key)}


def digest(array: np.ndarray[Any, Any]) -> str:
    """The hash of an output in a report: over its dtype, shape and bytes."""
    return hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()).hexdigest()


# Right kernels


@pytest.mark.parametrize(
    ("command", "jobs"),
    [
        ("run", ("one/conv/small", "one/conv/ties", "product/gemm/small", "product/gemm/extremes")),
        ("compile", ("one/conv", "product/gemm")),
    ],
)
def test_they_run_and_are_verified_beside_the_pair(
    command: str, jobs: tuple[str, ...], pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    outcome = pipeline(command, *BOTH)
    assert (outcome.code, outcome.err) == (0, "")
    cases = report(last_run() / "junit.xml")
    assert {case.kind for case in cases.values()} == {"passed"}
    lane = "device" if command == "run" else "compile"
    assert set(cases) == {f"{lane}/{platform}/{job}" for platform in ("emu-a2a3", "emu-a5") for job in jobs}
    if command == "compile":
        assert "programs compiled by emulator: 4; proved: 4; verified: 4, exact: 4\n" in outcome.out


def test_each_program_is_a_stage_of_the_compare_lane(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline("compare", *BOTH, *PLATFORM, "--profile", "small").code == 0
    cases = report(last_run() / "junit.xml")
    job = "compare/emu-a2a3"
    names = [f"{job}/one/small", f"{job}/one/small/conv", f"{job}/product/small", f"{job}/product/small/gemm"]
    assert list(cases) == names
    assert {case.kind for case in cases.values()} == {"passed"}
    assert f": 0 of {20 * 16 * 64} " in cases[names[1]].out
    assert f": 0 of {64 * 64} " in cases[names[3]].out


def test_two_engines_are_held_against_one_another(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    words = ("compare", *BOTH, "--engines", "emu-a5,emu-a2a3", "--profile", "small")
    assert pipeline(*words).code == 0
    cases = report(last_run() / "junit.xml")
    both = "emu-a5+emu-a2a3"
    for geometry, program in (("one", "conv"), ("product", "gemm")):
        job = f"compare/{both}/{geometry}/small"
        stages = ("on-emu-a5", "on-emu-a2a3", "emu-a5-vs-emu-a2a3")
        assert {f"{job}/{program}-{stage}" for stage in stages} < set(cases)
    assert {case.kind for case in cases.values()} == {"passed"}
    # The fault is in the convolution alone: a matrix product has no place for it, and says so.
    assert pipeline(*words, "--inject", "offset-sign-1").code == 1
    cases = report(last_run() / "junit.xml")
    assert cases[f"compare/{both}/one/small"].message.startswith("odd one out: emu-a5 in conv; ")
    product = cases[f"compare/{both}/product/small"]
    assert product.kind == "skipped"
    assert product.message == ("fault offset-sign-1 was not injected: workload gemm has no fault model")
    assert "injected" not in facts(product.out)


# A user's tensors


def test_given_matrices_give_their_product(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    draw = np.random.default_rng(5)
    a, b = (draw.integers(-128, 128, shape).astype(np.int8) for shape in ((64, 96), (96, 64)))
    np.savez(workspace / "mine.npz", a=a, b=b)
    words = (*MORE, *PLATFORM, "--geometry", "product", "--inputs", "mine.npz")
    assert pipeline("run", *words).code == 0
    (case,) = report(last_run() / "junit.xml").values()
    assert f"actual sha256 {digest(a.astype(np.int32) @ b.astype(np.int32))}" in case.out
    assert pipeline("compare", *words).code == 0
    assert "compare/emu-a2a3/product/inputs/gemm" in report(last_run() / "junit.xml")


def test_given_tensors_give_their_convolution(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    """A kernel of one pixel is a matrix product of the pixels' channels; a scale of 1 only saturates."""
    draw = np.random.default_rng(6)
    pixels, taps = (draw.integers(-9, 10, shape).astype(np.int8) for shape in ((256, 64), (64, 32)))
    bias = draw.integers(-200, 200, (1, 32)).astype(np.int32)
    offsets = draw.integers(-20, 20, 32).astype(np.int32)
    planes = pixels.reshape(256, 2, 32).transpose(1, 0, 2).reshape(-1, 32)
    np.savez(
        workspace / "mine.npz",
        x=planes,
        filter=taps,
        bias=bias,
        scales=np.ones(32, np.float32),
        offsets=offsets,
    )
    words = (*MORE, *PLATFORM, "--geometry", "point", "--inputs", "mine.npz")
    assert pipeline("run", *words).code == 0
    (case,) = report(last_run() / "junit.xml").values()
    sums = pixels.astype(np.int32) @ taps.astype(np.int32) + bias + offsets
    assert f"actual sha256 {digest(np.clip(sums, -128, 127).astype(np.int8))}" in case.out


# What goes wrong


def test_a_fault_is_diagnosed_replayed_repeated_and_run_again(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    words = (*BOTH, *PLATFORM, "--profile", "small", "--inject", "k-step-twice-1")
    assert pipeline("run", *words).code == 1
    job, broken = "device/emu-a2a3/one/conv/small", last_run()
    cases = report(broken / "junit.xml")
    assert cases["device/emu-a2a3/product/gemm/small"].kind == "skipped"
    found = facts(cases[job].out)
    assert found["diagnosis"].startswith("k-step-twice-1: ")
    assert found["injected"] == "k-step-twice-1"
    replayed = pipeline("replay", "last", job)
    assert (replayed.code, replayed.err) == (1, "")
    assert cases[job].message in replayed.out
    assert pipeline(*shlex.split(found["reproduce"])[3:]).code == 1
    assert report(last_run() / "junit.xml")[job].body == cases[job].body
    assert pipeline("run", "--failed", broken.name).code == 1
    assert list(report(last_run() / "junit.xml")) == [job]


def test_the_kernel_of_another_workload_is_refused(refused: Refused, workspace: Path) -> None:
    (workspace / "wrong.yaml").write_text(
        "lanes: {device: {include: [{platforms: [emu-a2a3], geometries: [bands], kernels: [gemm],"
        " profiles: [small]}]}}\n"
    )
    assert refused("run", *MORE, "--matrix", "wrong.yaml") == (
        "wrong.yaml:1: lanes.device.include[3].kernels[0]: `gemm` is a kernel of workload gemm, and geometry "
        "bands is one of conv-pair; write it in a block whose geometries are of gemm"
    )


def test_the_tensors_of_another_workload_are_refused(refused: Refused, workspace: Path) -> None:
    np.savez(workspace / "product.npz", a=np.ones((64, 96), np.int8), b=np.ones((96, 64), np.int8))
    words = ("run", *MORE, *PLATFORM, "--inputs", "product.npz")
    lacking = "product.npz: array 'x' is missing: the file must hold x, filter, bias, scale"
    assert refused(*words, "--geometry", "one") == lacking
    several = refused(*words, "--geometry", "one", "--geometry", "product")
    assert several == f"{lacking}, in geometry one: choose the right one with --geometry"


def test_a_users_broken_workload_is_a_line_and_the_others_run(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace / "mine.py").write_text("import numpy\n\nWORKLOAD = numpy.nowhere\n")
    (workspace / "mine.yaml").write_text(
        "workloads: {mine: {file: mine.py}}\n"
        "geometries: {g: {workload: mine, m: 32, k: 32, n: 32}}\n"
        "lanes: {device: {include: [{platforms: [emu-a2a3], geometries: [g], kernels: [gemm],"
        " profiles: [small]}]}}\n"
    )
    words = (*PLATFORM, "--geometry", "g", "--geometry", "product", "--profile", "small")
    outcome = pipeline("run", *MORE, "--matrix", "mine.yaml", *words)
    assert (outcome.code, outcome.err) == (1, "")
    cases = report(last_run() / "junit.xml")
    assert cases["device/emu-a2a3/product/gemm/small"].kind == "passed"
    broken = cases["device/emu-a2a3/g/gemm/small"]
    assert broken.kind == "failure"
    assert broken.message == (
        f"{workspace}/mine.py:3: cannot be loaded: AttributeError: module 'numpy' has no attribute 'nowhere'"
    )
