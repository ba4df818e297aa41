"""A user's own workload: run as one that is shipped, and broken without harm to the others."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Pipeline = Callable[..., Any]

ROOT = Path(__file__).parents[2]

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


@pytest.fixture
def wrong(file: Path) -> Path:
    """A file whose kernel takes b one step of K too early."""
    kernel = (ROOT / "kernels/gemm.py").read_text()
    step = "b_block,\n                                    k * step,"
    assert step in kernel
    file.write_text(
        kernel.replace(step, step.replace("k *", "(k - 1) *"))
        + GOOD.replace("replace(GEMM,", "replace(GEMM, programs=(OWN,),").replace(
            "WORKLOAD = ", "OWN = replace(GEMM.programs[0], factory=build_gemm)\nWORKLOAD = "
        )
    )
    matrix = file.with_name("matrix.yaml")
    matrix.write_text(OVERLAY.replace("m: 32, k: 64, n: 32", "m: 64, k: 2048, n: 64"))
    return file


def test_a_program_that_is_refuted_is_red_everywhere(
    wrong: Path,
    pipeline: Pipeline,
    workspace: Path,
    report: Callable[[Path], Mapping[str, Any]],
    last_run: Callable[[], Path],
) -> None:
    ended = pipeline("compile", *OWN, "--junit", "report.xml")
    assert (ended.code, ended.err) == (1, "")
    why = "4096 of 4096 elements are wrong; the first is c[0, 0]: "
    assert "refuted compile/emu-a2a3/own/gemm" in ended.out
    assert why in ended.out
    assert "programs compiled by emulator: 1; refuted: 1; not verified" in ended.out
    assert "1 of 1 job is red: 1 refuted" in ended.out
    case = junit(workspace, report)["compile/emu-a2a3/own/gemm"]
    assert case.kind == "failure"
    assert case.message.startswith(why)
    edited = 1 + next(at for at, line in enumerate(wrong.read_text().splitlines()) if "(k - 1) *" in line)
    blamed = case.body.splitlines()[1]
    assert re.match(rf"the program is wrong: extract, {wrong.name}:\d+, .*k \d+: it reads b\[", blamed)
    assert f"; 1, {wrong.name}:{edited}, is 1; 0 would be right in every round" in blamed
    assert blamed in ended.out
    facts = case.out.splitlines()
    assert any(re.fullmatch(rf"blamed=tile\.extract of c at {wrong.name}:\d+", fact) for fact in facts)
    assert "state=refuted" in facts
    assert "gemm.proved=no: 4096 of 4096 elements are wrong" in facts
    summary = (last_run() / "summary.md").read_text()
    assert why in summary
    assert "| `no: 4096 of 4096 elements are wrong` |" in summary


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


@pytest.mark.thorough
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


def test_a_pass_is_not_kept_where_the_file_changed_since(file: Path, pipeline: Pipeline) -> None:
    file.write_text(GOOD)
    assert pipeline("run", *OWN).code == 0
    assert pipeline("run", "--resume", "last").code == 0
    file.write_text(BROKEN)
    ended = pipeline("run", "--resume", "last")
    assert ended.code == 1
    assert "note: 1 job that had ended will run again; changed since: workload.mine" in ended.out


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("import os\nos._exit(0)\n", ": cannot be loaded: it ended the process with exit code 0"),
        ("raise KeyboardInterrupt\n", ":4: cannot be loaded: KeyboardInterrupt"),
    ],
)
def test_a_file_that_would_end_the_command_ends_its_jobs(
    tail: str,
    said: str,
    file: Path,
    pipeline: Pipeline,
    workspace: Path,
    report: Callable[[Path], Mapping[str, Any]],
) -> None:
    file.write_text(GOOD + tail)
    ended = pipeline("run", *OWN, "--junit", "report.xml", "--summary", "summary.md")
    assert (ended.code, ended.err) == (1, "")
    (case,) = junit(workspace, report).values()
    assert case.message == f"{file}{said}"
    assert f"{file}{said}" in (workspace / "summary.md").read_text()


FAILING = """\
from dataclasses import dataclass, replace
from workloads.gemm import WORKLOAD as GEMM


@dataclass(frozen=True)
class Shapes(GEMM.definition.geometry):
    def __post_init__(self):
        if self.m == 32:
            {geometry}


def specs(geometry):
    if geometry.m == 32:
        {specs}
    return GEMM.definition.specs(geometry)


WORKLOAD = replace(
    GEMM,
    definition=replace(GEMM.definition, name="mine", geometry=Shapes, specs=specs),
    example=replace(GEMM.example, m=16),
)
"""


@pytest.mark.parametrize(
    ("geometry", "specs", "said"),
    [
        ("raise SystemExit(0)", "pass", ":9: a geometry of workload mine: SystemExit: 0"),
        ("pass", "raise SystemExit(0)", ":14: specs of workload mine: SystemExit: 0"),
        ("pass", "return 7", ": specs of workload mine: returns int: must be a tuple of TensorSpec"),
    ],
)
def test_shapes_for_which_it_fails_end_their_jobs_and_no_others(
    geometry: str,
    specs: str,
    said: str,
    file: Path,
    pipeline: Pipeline,
    workspace: Path,
    report: Callable[[Path], Mapping[str, Any]],
) -> None:
    file.write_text(GOOD)
    tensors = {"a": np.ones((32, 64), np.int8), "b": np.ones((64, 32), np.int8)}
    np.savez(workspace / "mine.npz", **tensors)  # type: ignore[arg-type]
    file.write_text(FAILING.format(geometry=geometry, specs=specs))
    for words in (BESIDE, (*OWN, "--inputs", "mine.npz")):
        ended = pipeline("run", *words, "--junit", "report.xml")
        assert (ended.code, ended.err) == (1, "")
        cases = junit(workspace, report)
        assert {case.message for case in cases.values() if case.kind == "failure"} == {f"{file}{said}"}
        assert [case.kind for case in cases.values() if case.kind != "failure"] == ["passed"] * (
            len(cases) - 1
        )


def test_a_replay_with_a_file_that_fails_now(
    file: Path, pipeline: Pipeline, start: Callable[..., subprocess.Popen[str]]
) -> None:
    wrong = GOOD.replace('name="mine")', 'name="mine", compute=compute)').replace(
        "WORKLOAD = ",
        "def compute(geometry, tensors, variant):\n"
        "    c = GEMM.definition.compute(geometry, tensors, variant)['c']\n"
        "    return {'c': c + c.dtype.type(1)}\n"
        "WORKLOAD = ",
    )
    file.write_text(wrong)
    assert pipeline("run", *OWN).code == 1
    file.write_text(BROKEN)
    replay = start(
        "replay", "last", "device/emu-a2a3/own/gemm/small"
    )  # this process has read the file before
    out, err = replay.communicate()
    assert (replay.returncode, out) == (4, "")
    assert err == f"{file}:4: cannot be loaded: ZeroDivisionError: division by zero\n"


def test_a_resumed_run_says_that_the_file_was_changed(
    file: Path, pipeline: Pipeline, workspace: Path, report: Callable[[Path], Mapping[str, Any]]
) -> None:
    file.write_text(GOOD)
    assert pipeline("run", *OWN, "--deadline", "0.001").code == 2
    file.write_text(GOOD + "# changed\n")
    assert pipeline("run", "--resume", "last", "--junit", "report.xml").code == 0
    (case,) = junit(workspace, report).values()
    begun, resumed = case.properties["workload.mine"], case.properties["resumed.workload.mine"]
    assert begun == hashlib.sha256(hashlib.sha256(GOOD.encode()).digest()).hexdigest()[:12]
    assert resumed == hashlib.sha256(hashlib.sha256(file.read_bytes()).digest()).hexdigest()[:12]


def test_what_a_file_prints_does_not_reach_the_list(file: Path, pipeline: Pipeline) -> None:
    file.write_text(GOOD)
    quiet = pipeline("list", *OWN)
    file.write_text(GOOD + "print('device/emu-a2a3/own/none')\n")
    assert pipeline("list", *OWN) == quiet


ENDLESS = """\
from itertools import count
from dataclasses import replace
from workloads.gemm import WORKLOAD as GEMM


def terms(geometry):
    for _ in count():
        pass


WORKLOAD = replace(GEMM, definition=replace(GEMM.definition, name="mine", terms=terms))
"""


def test_terms_that_never_end_time_out_and_the_others_run(
    file: Path, pipeline: Pipeline, workspace: Path, report: Callable[[Path], Mapping[str, Any]]
) -> None:
    job = "compile/emu-a2a3/own/gemm"
    file.write_text(ENDLESS)
    with (file.parent / "matrix.yaml").open("a") as overlay:
        overlay.write(f"timeouts: [{{jobs: {job}, timeout: 2s}}]\n")
    assert pipeline("compile", *BESIDE, "--junit", "report.xml").code == 1
    cases = junit(workspace, report)
    assert cases[job].message == "did not end within 2 s"
    assert "mine.py" in cases[job].body  # the stacks say where it was
    others = {case.kind for name, case in cases.items() if not name.startswith(job)}
    assert others == {"passed"}
    # Nothing of this run can be excused, and what is printed can be pasted.
    printed = pipeline("report", "excuses")
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.splitlines()[0] == "expected_failures: []"
    assert f"# {job}: timed-out: no entry excuses that" in printed.out
    (workspace / "mine.yaml").write_text(printed.out)
    listed = pipeline("list", "--matrix", "mine.yaml")
    assert (listed.code, listed.err) == (0, "")
