"""A user's own workload: run as one that is shipped, and broken without harm to the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Pipeline = Callable[..., Any]

OVERLAY = """\
workloads: {mine: {file: mine.py}}
geometries:
  own: {workload: mine, m: 32, k: 64, n: 32}
lanes:
  compile:
    include:
      - {platforms: [emu-a2a3], geometries: [own], kernels: [gemm]}
  device:
    include:
      - {platforms: [emu-a2a3], geometries: [own], kernels: [gemm], profiles: [small]}
"""
GOOD = """\
from dataclasses import replace
from workloads.gemm import WORKLOAD as GEMM
WORKLOAD = replace(GEMM, definition=replace(GEMM.definition, name="mine"))
"""
BROKEN = GOOD + "left = 1 / 0\n"

OWN = ("--matrix", "own/matrix.yaml", "--geometry", "own")
BESIDE = (*OWN, "--geometry", "bands", "--platform", "emu-a2a3", "--kernel", "gemm", "--kernel", "fused")

pytestmark = pytest.mark.usefixtures("torch_installed")


@pytest.fixture
def file(workspace: Path) -> Path:
    """The file of the workload `mine`, in a folder of its own with the overlay that names it."""
    folder = workspace / "own"
    folder.mkdir()
    (folder / "matrix.yaml").write_text(OVERLAY)
    return folder / "mine.py"


def junit(workspace: Path, report: Callable[[Path], Mapping[str, Any]]) -> Mapping[str, Any]:
    return report(workspace / "report.xml")


def test_it_is_compiled_run_and_compared(
    file: Path, pipeline: Pipeline, workspace: Path, report: Callable[[Path], Mapping[str, Any]]
) -> None:
    file.write_text(GOOD)
    for command, job in (
        ("compile", "compile/emu-a2a3/own/gemm"),
        ("run", "device/emu-a2a3/own/gemm/small"),
        ("compare", "compare/emu-a2a3/own/small"),
    ):
        assert pipeline(command, *OWN, "--junit", "report.xml").code == 0
        cases = junit(workspace, report)
        assert {case.kind for case in cases.values()} == {"passed"}
        assert {name for name in cases if name != f"{job}/gemm"} == {job}  # the compare lane tells stages too


@pytest.mark.parametrize(
    ("command", "broken"),
    [
        ("compile", "compile/emu-a2a3/own/gemm"),
        ("run", "device/emu-a2a3/own/gemm/small"),
    ],
)
def test_where_it_is_broken_its_jobs_say_so_and_the_others_run(
    command: str,
    broken: str,
    file: Path,
    pipeline: Pipeline,
    workspace: Path,
    report: Callable[[Path], Mapping[str, Any]],
) -> None:
    file.write_text(BROKEN)
    listed = pipeline("list", *OWN)
    assert (listed.code, listed.err) == (0, "")
    assert broken in listed.out.splitlines()
    ended = pipeline(command, *BESIDE, "--junit", "report.xml")
    assert (ended.code, ended.err) == (1, "")
    cases = junit(workspace, report)
    case = cases[broken]
    assert case.kind == "failure"
    assert case.message == (f"{file}:4: cannot be loaded: ZeroDivisionError: division by zero")
    others = [each.kind for name, each in cases.items() if name != broken]
    assert others
    assert set(others) == {"passed"}


@pytest.mark.parametrize("command", ["run", "compare"])
def test_where_it_is_broken_a_users_tensors_cannot_help(
    command: str, file: Path, pipeline: Pipeline, workspace: Path
) -> None:
    tensors = {"a": np.ones((32, 64), np.int8), "b": np.ones((64, 32), np.int8)}
    np.savez(workspace / "mine.npz", **tensors)  # type: ignore[arg-type]
    file.write_text(GOOD)
    assert pipeline(command, *OWN, "--inputs", "mine.npz").code == 0
    file.write_text(BROKEN)
    ended = pipeline(command, *OWN, "--inputs", "mine.npz")
    assert (ended.code, ended.err) == (1, "")
    assert f"{file}:4: cannot be loaded: ZeroDivisionError: division by zero" in ended.out


@pytest.mark.parametrize("again", ["--resume", "--failed"])
def test_a_file_that_was_broken_since_fails_its_jobs_when_a_run_is_taken_up(
    again: str, file: Path, pipeline: Pipeline, workspace: Path, report: Callable[[Path], Mapping[str, Any]]
) -> None:
    file.write_text(GOOD)
    assert pipeline("run", *OWN, "--deadline", "0.001").code == 2
    file.write_text(BROKEN)
    ended = pipeline("run", again, "last", "--junit", "report.xml")
    assert (ended.code, ended.err) == (1, "")
    (case,) = junit(workspace, report).values()
    assert case.message.startswith(f"{file}:4: cannot be loaded")
    file.write_text(GOOD)
    assert pipeline("run", "--failed", "last").code == 0
