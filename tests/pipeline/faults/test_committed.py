"""What a job says of the fault that is to be injected in it: committed, or skipped for a reason."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutants.catalogue.cases import conv_tiling, pair_tiling
from pipeline.faults.matrix import Totals, run_rows
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import INJECTED, JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.report.overview import overview
from pipeline.work.stages import execute
from workloads.faults import FAULTS

pytestmark = pytest.mark.usefixtures("torch_installed", "undrawn")

PAIR = {
    "height": 32,
    "width": 16,
    "cin": 64,
    "cmid": 64,
    "cout": 64,
    "conv1": {"kernel": 3, "stride": 2, "padding": 1},
    "conv2": {"kernel": 3, "stride": 1, "padding": 1},
}
"""Mid and y 16 x 8; in bands of 4 rows a first, two interior ones and a last."""

CONV = {"height": 16, "width": 16, "cin": 64, "cout": 96, "conv": {"kernel": 5, "stride": 1, "padding": 2}}
GEMM = {"m": 32, "k": 64, "n": 32}

Inject = Callable[..., Result]


def job_of(kernel: str, workload: str = "conv-pair", file: str = "", lane: Lane = Lane.DEVICE) -> Job:
    shapes: Mapping[str, Any] = {"conv": CONV, "gemm": GEMM}.get(workload, PAIR)
    options = {"gemm": {}, "conv": conv_tiling(4)}.get(workload, pair_tiling(4))
    platform = Platform("emu", "emulator", "a2a3")
    return Job(
        id=f"{lane.value}/emu/g/{kernel}",
        lane=lane,
        platform=platform,
        workload=WorkloadName(workload, file),
        geometry_name="g",
        geometry=shapes,
        kernel=kernel,
        profile="full-range@7",
        timeout=60.0,
        plan_options=options,
    )


@pytest.fixture
def inject(tmp_path: Path) -> Inject:
    def done(fault: str, job: Job) -> Result:
        folder = tmp_path / f"{job.kernel}-{fault}"
        return execute(job, JobContext(folder, None, tmp_path / "goldens", Settings(inject=fault)))

    return done


def facts(result: Result) -> list[str]:
    return [stage.facts[INJECTED] for stage in result.stages if INJECTED in stage.facts]


def test_a_job_is_skipped_or_says_what_was_injected(inject: Inject) -> None:
    job = job_of("conv", "conv")
    committed = set()
    for name in FAULTS:
        result = inject(name, job)
        if result.state is State.SKIPPED:
            assert facts(result) == []
            assert result.message.startswith(f"fault {name} was not injected: "), name
            assert result.details.startswith("conv: "), name
        else:
            assert facts(result) == [name]
            committed.add(name)
    second = {name for name, fault in FAULTS.items() if fault.conv == 2 or fault.step == "hand-over"}
    assert {"bias-missing-1", "no-padding-left-1", "wrong-stride-1", "planes-swapped-1"} <= committed
    assert not committed & second


def test_the_issues_example_is_skipped_with_its_reason(inject: Inject) -> None:
    result = inject("bias-missing-2", job_of("first-tile-load"))
    assert (result.state, result.message) == (
        State.SKIPPED,
        "fault bias-missing-2 was not injected: this program has no second convolution",
    )
    assert result.details == "first-tile-load: this program has no second convolution"


def test_jobs_of_several_kernels_are_skipped_with_the_same_message(inject: Inject) -> None:
    """The summary then has one line for all of them."""
    kernels = ("first-tile-load", "first-tile-packed", "first-tile-fused-alloc")
    results = [inject("halo-stale", job_of(kernel)) for kernel in kernels]
    (group,) = overview(results).skipped
    assert len(group.results) == 3
    assert group.message == "fault halo-stale was not injected: this program has no second convolution"


def test_programs_that_have_no_place_for_different_reasons_are_named(inject: Inject) -> None:
    narrow = replace(job_of("two-pass"), geometry={**PAIR, "cmid": 32})
    result = inject("planes-swapped-2", narrow)
    assert (result.state, result.message) == (
        State.SKIPPED,
        "fault planes-swapped-2 was not injected: this program has no second convolution (pass1); "
        "conv2's input has one C1 plane of channels, where both orders are the same (pass2)",
    )


def test_a_fault_that_the_emulator_refuses_was_injected(inject: Inject) -> None:
    result = inject("wrong-stride-1", job_of("conv", "conv"))
    assert (result.state, facts(result)) == (State.COMPILE_ERROR, ["wrong-stride-1"])


def test_a_fault_is_in_the_stages_that_have_a_place_for_it_only(inject: Inject) -> None:
    result = inject("offset-sign-2", job_of("two-pass"))
    assert result.state is State.MISMATCH
    by_stage = {stage.name: stage.facts.get(INJECTED, "") for stage in result.stages}
    assert by_stage == {"pass1": "", "pass2": "offset-sign-2"}


def test_a_program_on_the_golden_mid_has_no_hand_over(inject: Inject) -> None:
    result = inject("mid-of-other-run", job_of("fused", lane=Lane.COMPARE))
    committed = {stage.name: INJECTED in stage.facts for stage in result.stages}
    assert committed["fused"]
    assert committed["pass2-on-own-mid"]
    on_golden = ("pass1", "pass2-on-golden-mid", "first-tile-load", "two-pass-vs-fused")
    assert not any(committed[name] for name in on_golden)


def test_a_workload_without_a_fault_model_is_skipped(inject: Inject) -> None:
    result = inject("bias-missing-1", job_of("gemm", "gemm"))
    assert (result.state, result.message) == (
        State.SKIPPED,
        "fault bias-missing-1 was not injected: workload gemm has no fault model",
    )


def test_a_program_without_a_form_is_skipped_and_run_and_compared_without_a_fault(
    reversed_file: str, inject: Inject
) -> None:
    job = job_of("undescribed", "reversed-pair", reversed_file)
    result = inject("bias-missing-1", job)
    assert (result.state, result.message) == (
        State.SKIPPED,
        "fault bias-missing-1 was not injected: this program has no form (docs/workloads.md), "
        "so that no fault has a place in it",
    )
    assert inject("", job).state is State.PASSED


BROKEN = """
from dataclasses import replace

from kernels.planner import tile_bands
from pipeline.ground.memory import limits_of
from workloads import conv_pair

_FUSED = conv_pair.WORKLOAD.program("fused")


def {name}(geometry, plan):
    {body}


WORKLOAD = replace(
    conv_pair.WORKLOAD,
    definition=replace(conv_pair.WORKLOAD.definition, name="broken-pair"),
    programs=(replace(_FUSED, form={name}), *conv_pair.WORKLOAD.programs[1:]),
)
"""


@pytest.fixture
def broken_file(tmp_path: Path) -> Callable[[str], str]:
    """A user's file that gives the fused program a wrong form."""

    def write(body: str) -> str:
        file = tmp_path / "broken_pair.py"
        file.write_text(textwrap.dedent(BROKEN.format(name="wrong_form", body=body)))
        return str(file)

    return write


OTHER_BANDS = "return _FUSED.form(geometry, tile_bands(geometry, limits_of('a2a3'), 8))"


@pytest.mark.parametrize(
    ("fault", "state", "message"),
    [
        ("", State.PASSED, ""),
        ("bias-missing-1", State.MISMATCH, "y: "),
        (
            "no-padding-left-2",
            State.SKIPPED,
            "fault no-padding-left-2 was not injected: the form of this program does not fit: "
            "convolution 2: the form has 2 bands, the program 4 bands",
        ),
        (
            "no-padding-left-2-first",
            State.SKIPPED,
            "fault no-padding-left-2-first was not injected: the form of this program does not fit: "
            "convolution 2: the form has 2 bands, the program 4 bands",
        ),
    ],
)
def test_a_form_of_other_bands_than_the_program_is_no_exception(
    fault: str, state: State, message: str, broken_file: Callable[[str], str], inject: Inject
) -> None:
    result = inject(fault, job_of("fused", "broken-pair", broken_file(OTHER_BANDS)))
    assert result.state is state
    assert result.message.startswith(message)


@pytest.mark.parametrize("fault", ["", "bias-missing-1", "unwritten"])
def test_a_form_that_contradicts_itself_is_refused_in_a_line(
    fault: str, broken_file: Callable[[str], str], inject: Inject
) -> None:
    body = (
        "first, second = _FUSED.form(geometry, plan).convolutions; "
        "return replace(_FUSED.form(geometry, plan), convolutions=(replace(first, order=(0, 1)), second))"
    )
    result = inject(fault, job_of("fused", "broken-pair", broken_file(body)))
    assert (result.state, result.message) == (
        State.COMPILE_ERROR,
        "workload broken-pair: form of fused: convolution 1: "
        "order [0, 1] must name each of its 4 parts once, from 0",
    )


@pytest.mark.thorough
def test_injection_and_diagnosis_follow_a_form_whose_bands_run_backwards(
    reversed_file: str, tmp_path: Path
) -> None:
    """No name of this kernel is known to any of them."""
    job = job_of("reversed", "reversed-pair", reversed_file)
    jobs = [replace(job, profile=profile) for profile in ("full-range@7", "ties", "near-ties")]
    clean, *rows = run_rows(jobs, list(FAULTS), tmp_path / "work", tmp_path / "goldens")
    assert (clean.fault, len(clean.cases), clean.detected) == ("", 3, ())
    totals = Totals([clean, *rows])
    assert [row.fault for row in totals.missed] == []
    assert totals.false_positives == []
    cases = [case for row in rows for case in row.diagnosed]
    assert len(cases) >= 103
    assert [case for case in cases if case.rank != 1][2:] == []  # the issue's trial: 101 of 103
    in_order = {row.fault: row for row in rows}
    for name in ("halo-stale", "no-padding-left-2-first", "no-padding-right-2-last", "band-up", "band-down"):
        assert [case.rank for case in in_order[name].diagnosed] == [1, 1, 1], name
