from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden.geometry import Geometry
from pipeline.ground.jobs import Job, Lane, State, WorkloadName
from pipeline.ground.results import INJECTED, WRONG_STEP, Result
from pipeline.matrix.expand import COMPARED
from pipeline.work import causes
from pipeline.work.stages import stages_of
from workloads.registry import workload_named
from workloads.stages import OutputsCompared, ProgramRun

PAIR = workload_named("conv-pair")
NAMES = [
    "fused",
    "first-tile-load",
    "first-tile-packed",
    "first-tile-fused-alloc",
    "pass1",
    "pass2-on-golden-mid",
    "pass2-on-own-mid",
    "two-pass-vs-fused",
]
Jobs = Callable[..., Job]
Done = Callable[..., Result]

pytestmark = pytest.mark.usefixtures("undrawn")


def test_a_kernels_stages_are_its_programs(job_of: Jobs) -> None:
    assert [stage.name for stage in stages_of(job_of(Lane.DEVICE, "fused"), PAIR, "all")] == ["fused"]
    pass1, pass2 = stages_of(job_of(Lane.DEVICE, "two-pass"), PAIR, "all")
    assert pass1 == ProgramRun("pass1", "pass1")
    assert pass2 == ProgramRun("pass2", "pass2", {"mid": pass1})  # on what pass1 gave, not on the golden's


def test_the_comparison_isolates_less_at_each_stage(job_of: Jobs) -> None:
    all_stages = stages_of(job_of(Lane.COMPARE), PAIR, "all")
    assert [stage.name for stage in all_stages] == NAMES
    pass1 = ProgramRun("pass1", "pass1")
    assert list(all_stages[-4:]) == [
        pass1,
        ProgramRun("pass2-on-golden-mid", "pass2"),
        ProgramRun("pass2-on-own-mid", "pass2", {"mid": pass1}),
        OutputsCompared("two-pass-vs-fused", "pass2-on-own-mid", "fused", "y"),
    ]
    assert [stage.name for stage in stages_of(job_of(Lane.COMPARE), PAIR, "tile")] == NAMES[:4]


@pytest.mark.parametrize("name", ["conv", "gemm"])
def test_a_workload_of_one_program_compares_that_and_has_no_first_tile(
    name: str, samples: Any, done: Done
) -> None:
    workload, job = workload_named(name), samples[name].job(Lane.COMPARE)
    assert list(stages_of(job, workload, "all")) == [ProgramRun(name, name)]
    assert list(stages_of(job, workload, "tile")) == []
    result = done(job, stage="tile")
    assert result.state is State.SKIPPED
    assert result.message == f"workload {name} has no stage that computes a first tile"


def test_compiling_needs_no_golden(job_of: Jobs, done: Done, tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPILE, "two-pass", profile=None))
    assert result.state is State.PASSED
    assert [stage.name for stage in result.stages] == ["pass1", "pass2"]
    assert not any(stage.diffs for stage in result.stages)
    assert not (tmp_path / "cache").exists()
    assert {path.name for path in (tmp_path / "job" / "pass2").iterdir()} == {"report.json", "listing.txt"}


@pytest.mark.parametrize("lane", [Lane.COMPILE, Lane.DEVICE])
def test_what_cannot_be_tiled_is_skipped_with_the_reason(
    job_of: Jobs, done: Done, untileable: Geometry, lane: Lane, tmp_path: Path
) -> None:
    """No stage runs and no golden is computed; the reason is the same for all jobs of the geometry."""
    messages = set()
    for kernel in ("fused", "two-pass", "first-tile-load"):
        result = done(job_of(lane, kernel, untileable, None))
        assert (result.state, result.stages) == (State.SKIPPED, ())
        messages.add(result.message)
    (message,) = messages
    assert message.startswith("cannot be tiled on a2a3: bands of 1 row")
    assert f"{5 * 12_000 * 32} (x of 5 x 12000 pixels x 32 channels)" in message
    assert message.endswith(" it fits")
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("torch_installed")
def test_a_compile_job_with_a_profile_verifies_what_it_compiled(
    job_of: Jobs, done: Done, tmp_path: Path
) -> None:
    result = done(job_of(Lane.COMPILE, "two-pass"))
    assert result.state is State.PASSED
    assert [(stage.name, len(stage.diffs)) for stage in result.stages] == [
        ("pass1", 0),
        ("pass2", 0),
        ("verify-pass1", 1),
        ("verify-pass2", 1),
    ]
    compiled_only = done(job_of(Lane.COMPILE, "two-pass", profile=None), folder="only")
    assert [stage.facts for stage in result.stages[:2]] == [stage.facts for stage in compiled_only.stages]
    assert (tmp_path / "job" / "verify-pass2" / "report.json").exists()


@pytest.mark.usefixtures("torch_installed")
def test_a_second_pass_is_verified_on_what_the_first_one_gave(job_of: Jobs, done: Done) -> None:
    """A fault of conv1 is right in pass2 itself, and yet it must spoil what comes out of it."""
    result = done(job_of(Lane.COMPILE, "two-pass"), inject="bias-missing-1")
    states = {stage.name: stage.state for stage in result.stages}
    assert states == {
        "pass1": State.PASSED,
        "pass2": State.PASSED,
        "verify-pass1": State.MISMATCH,
        "verify-pass2": State.MISMATCH,
    }
    assert result.message.startswith("first wrong stage: verify-pass1: mid: ")
    assert result.causes == ("bias-missing-1",)
    assert "verify-pass1/actual-mid.npy" in result.files


@pytest.mark.usefixtures("torch_installed")
def test_a_mismatch_tells_that_it_is_in_none_of_the_programs(
    job_of: Jobs, done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bias that the host does not hand over is no mistake of a program."""

    def fail(evidence: object, **more: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(causes, "diagnose", fail)
    result = done(job_of(Lane.COMPILE, "two-pass"), inject="bias-missing-2")
    assert result.facts[WRONG_STEP] == "outside the programs (proved: pass1, pass2)"


@pytest.mark.usefixtures("torch_installed")
def test_what_did_not_compile_is_not_verified(samples: Any, done: Done, refusing: str) -> None:
    name = WorkloadName("refusing", refusing)
    result = done(samples["conv-pair"].job(Lane.COMPILE, "two-pass", workload=name))
    assert result.state is State.COMPILE_ERROR
    assert result.message.startswith("first wrong stage: pass1: refused here")
    assert [(stage.name, stage.state, stage.message) for stage in result.stages[2:]] == [
        ("verify-pass1", State.SKIPPED, "pass1 did not compile"),
        ("verify-pass2", State.SKIPPED, "needs the output of verify-pass1, which gave none"),
    ]


@pytest.mark.usefixtures("torch_installed")
def test_a_right_pair_passes_every_stage(job_of: Jobs, done: Done, tmp_path: Path) -> None:
    result = done(job_of(Lane.COMPARE))
    assert (result.state, result.message) == (State.PASSED, "")
    assert [stage.name for stage in result.stages] == NAMES
    for stage in result.stages:
        (diff,) = stage.diffs
        assert diff.clean
        assert diff.against == ("fused" if stage.name == "two-pass-vs-fused" else "golden")
    tensors = {stage.name: stage.diffs[0].tensor for stage in result.stages}
    assert tensors["first-tile-load"] == "tile"
    assert tensors["pass1"] == "mid"
    assert tensors["pass2-on-own-mid"] == "y"
    assert not list(tmp_path.rglob("actual-*.npy"))


@pytest.mark.usefixtures("torch_installed")
def test_a_fault_of_conv2_leaves_the_stages_before_it_clean(job_of: Jobs, done: Done) -> None:
    result = done(job_of(Lane.COMPARE), inject="bias-missing-2")
    assert result.state is State.MISMATCH
    assert result.message.startswith("first wrong stage: fused: y: ")
    wrong = [stage.name for stage in result.stages if stage.state is State.MISMATCH]
    assert wrong == ["fused", "pass2-on-golden-mid", "pass2-on-own-mid"]
    assert result.facts[INJECTED] == "bias-missing-2"
    # Committed in these, and only there: the others have no second convolution.
    assert [stage.name for stage in result.stages if INJECTED in stage.facts] == wrong
    assert {stage.facts[INJECTED] for stage in result.stages if INJECTED in stage.facts} == {"bias-missing-2"}


@pytest.mark.usefixtures("torch_installed")
def test_a_fault_of_conv1_is_seen_by_every_stage_that_computes_it(job_of: Jobs, done: Done) -> None:
    result = done(job_of(Lane.COMPARE), inject="bias-missing-1")
    states = {stage.name: stage.state for stage in result.stages}
    assert states.pop("pass2-on-golden-mid") is State.PASSED
    assert states.pop("two-pass-vs-fused") is State.PASSED  # both are wrong in the same way
    assert set(states.values()) == {State.MISMATCH}


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(("name", "tensor", "count"), [("conv", "y", 20 * 16 * 64), ("gemm", "c", 64 * 64)])
@pytest.mark.parametrize("lane", [Lane.COMPARE, Lane.DEVICE, Lane.COMPILE])
def test_a_right_kernel_of_one_program_passes_every_lane(
    lane: Lane, name: str, tensor: str, count: int, samples: Any, done: Done
) -> None:
    result = done(samples[name].job(lane, COMPARED if lane is Lane.COMPARE else name, "full-range@7"))
    assert (result.state, result.message) == (State.PASSED, "")
    names = [name, f"verify-{name}"] if lane is Lane.COMPILE else [name]
    assert [stage.name for stage in result.stages] == names
    (diff,) = result.stages[-1].diffs
    assert (diff.tensor, diff.count, diff.mismatches, diff.against) == (tensor, count, 0, "golden")


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(
    ("name", "kernel", "fault", "reason"),
    [
        ("gemm", "gemm", "bias-missing-1", "workload gemm has no fault model"),
        ("conv", "conv", "other-table-1", "there is no other convolution"),
        ("conv", "conv", "planes-swapped-2", "this program has no second convolution"),
        ("conv-pair", "first-tile-load", "bias-missing-2", "this program has no second convolution"),
        (
            "conv-pair",
            "two-pass",
            "map-corrupted",
            "this program gathers no feature map beside the other tiles that stay in L1",
        ),
    ],
)
def test_a_fault_that_has_no_place_skips_the_job_with_the_reason(
    name: str, kernel: str, fault: str, reason: str, samples: Any, done: Done
) -> None:
    """None passes for want of its fault, and none says that it had it."""
    result = done(samples[name].job(Lane.DEVICE, kernel), inject=fault)
    assert (result.state, result.stages) == (State.SKIPPED, ())
    assert result.message == f"fault {fault} was not injected: {reason}"
    assert INJECTED not in result.facts


@pytest.mark.usefixtures("torch_installed")
def test_a_fault_of_a_single_convolution_is_committed(samples: Any, done: Done) -> None:
    result = done(samples["conv"].job(Lane.DEVICE, "conv"), inject="no-padding-bottom-1-last")
    assert result.state is State.MISMATCH
    assert result.causes == ("no-padding-bottom-1-last",)
    assert result.facts[INJECTED] == result.stages[0].facts[INJECTED] == "no-padding-bottom-1-last"
    # Rows 16..19 are the last band; the filter reaches two rows past the edge.
    assert [band.name for band in result.stages[0].diffs[0].bands if band.mismatches] == [
        "band 2 (last) rows 16..19"
    ]


BROKEN = {
    "WORKLOAD = 1 +": "mine.py:1: is not Python: invalid syntax",
    "import numpy\n\nnumpy.nowhere": (
        "mine.py:3: cannot be loaded: AttributeError: module 'numpy' has no attribute 'nowhere'"
    ),
    "WORKLOAD = None": "mine.py: declares no workload: it must assign a Workload to WORKLOAD",
    "from workloads.gemm import WORKLOAD": (
        "mine.py: declares the workload 'gemm': name it so in the matrix, or call it 'mine'"
    ),
}


@pytest.mark.parametrize("source", BROKEN)
@pytest.mark.parametrize("lane", [Lane.COMPILE, Lane.DEVICE, Lane.COMPARE])
def test_a_broken_file_of_a_user_is_a_compile_error_in_a_line(
    lane: Lane, source: str, samples: Any, done: Done, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{source}\n")
    result = done(samples["gemm"].job(lane, "gemm", workload=WorkloadName("mine", str(file))))
    assert (result.state, result.message) == (State.COMPILE_ERROR, f"{tmp_path}/{BROKEN[source]}")
    assert result.stages == ()


def test_a_users_file_that_is_gone_is_a_compile_error(samples: Any, done: Done, tmp_path: Path) -> None:
    gone = WorkloadName("mine", str(tmp_path / "gone.py"))
    result = done(samples["gemm"].job(Lane.DEVICE, "gemm", workload=gone))
    assert (result.state, result.message) == (
        State.COMPILE_ERROR,
        f"{tmp_path}/gone.py: there is no such file: name a Python file",
    )


MINE = """\
from dataclasses import replace
from workloads import Profile
from workloads.gemm import WORKLOAD as GEMM
def fails(*arguments):
    raise KeyError("y")
D, (PROGRAM,) = GEMM.definition, GEMM.programs
"""


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (
            "programs=(replace(PROGRAM, factory=fails),), definition=replace(D, name='mine')",
            "{file}:5: factory of program 'gemm' of workload mine: KeyError: 'y'",
        ),
        (
            "programs=(replace(PROGRAM, factory=lambda pl, plan: None),), definition=replace(D, name='mine')",
            "factory of program 'gemm' of workload mine gives a NoneType: "
            "it must give a class under @pl.program",
        ),
        (
            "definition=replace(D, name='mine', compute=fails)",
            "{file}:5: golden of workload mine: KeyError: 'y'",
        ),
        (
            "definition=replace(D, name='mine', compute=lambda *a: {})",
            "golden of workload mine gives nothing, the specs declare c",
        ),
        ("plan=fails, definition=replace(D, name='mine')", "{file}:5: plan of workload mine: KeyError: 'y'"),
    ],
)
def test_a_job_of_a_users_broken_function_is_a_compile_error_in_a_line(
    declaration: str, message: str, samples: Any, done: Done, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{MINE}WORKLOAD = replace(GEMM, {declaration})\n")
    job: Job = samples["gemm"].job(Lane.DEVICE, "gemm", workload=WorkloadName("mine", str(file)))
    result = done(job)
    assert (result.state, result.message) == (State.COMPILE_ERROR, message.format(file=file))


def test_a_job_that_is_refused_as_a_whole_needs_no_golden(
    samples: Any, done: Done, refusing: str, tmp_path: Path
) -> None:
    name = WorkloadName("refusing", refusing)
    result = done(samples["conv-pair"].job(Lane.DEVICE, "pass1", workload=name))
    assert (result.state, [stage.name for stage in result.stages]) == (State.COMPILE_ERROR, ["pass1"])
    assert not (tmp_path / "cache").exists()
