from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.diff.compare import compare
from pipeline.ground.jobs import ExpectedFailure, Platform, PlatformKind, State
from pipeline.ground.results import DIAGNOSIS, REPRODUCE, Diff, Metric, Result, Source, StageResult
from pipeline.report.cases import MOST_ATTACHED, Attachments, Case, cases_of, states_of, suite_of

MakeResult = Callable[..., Result]
NONE = Attachments(Path("/run"))


@pytest.fixture(scope="module")
def wrong() -> Diff:
    golden = np.zeros((36, 32), np.int8)
    actual = golden.copy()
    actual[24:] = 1
    return compare("y", actual, golden, width=4, band_rows=3, sentinel=None)


@pytest.fixture(scope="module")
def clean() -> Diff:
    golden = np.zeros((36, 32), np.int8)
    return compare("y", golden, golden, width=4, band_rows=3, sentinel=None)


def only(result: Result, attachments: Attachments = NONE) -> Case:
    (case,) = cases_of(result, attachments)
    return case


def test_a_name_holds_what_is_stable_and_the_record_what_is_not(result_of: MakeResult) -> None:
    case = only(result_of("device/emu-a2a3/mc62/fused/full-range@7", seconds=1.23456, device=3, attempts=2))
    assert (case.classname, case.name) == ("device.emu-a2a3.mc62", "device/emu-a2a3/mc62/fused/full-range@7")
    for line in (
        "platform=emu-a2a3",
        "device=3",
        "profile=full-range@7",
        "seed=7",
        "seconds=1.235",
        "attempts=2",
    ):
        assert line in case.out.splitlines()


def test_facts_of_stages_are_lines_of_the_job_that_holds_them(result_of: MakeResult) -> None:
    stage = StageResult("fused", State.PASSED, facts={"x_read": "2351104 bytes"})
    case = only(result_of("device/emu/mc62/fused/small", stages=(stage,), facts={"seed": "7", "a=b": "c\nd"}))
    assert {"seed=7", "fused.x_read=2351104 bytes", "a-b=c d"} <= set(case.out.splitlines())


def test_a_passed_job_records_its_diff_and_both_hashes(result_of: MakeResult, clean: Diff) -> None:
    stage = StageResult("fused", State.PASSED, diffs=(clean,))
    case = only(result_of("device/emu/mc62/fused/small", stages=(stage,)))
    assert "y: 0 of 1152 elements differ" in case.out
    assert f"actual sha256 {clean.actual_sha}" in case.out
    assert f"golden sha256 {clean.golden_sha}" in case.out


def test_a_mismatch_says_where_in_message_body_and_record(result_of: MakeResult, wrong: Diff) -> None:
    stage = StageResult("fused", State.MISMATCH, diffs=(wrong,))
    case = only(result_of("device/emu/mc62/fused/small", State.MISMATCH, stages=(stage,)))
    assert "only in band 2 (last) rows 6..8" in case.message
    for text in (case.body, case.out):
        assert "(6, 0, 0): actual 1, expected 0" in text


def test_the_body_of_a_mismatch_begins_with_its_diagnosis(result_of: MakeResult, wrong: Diff) -> None:
    facts = {DIAGNOSIS: "band-up: in words"}
    stage = StageResult("fused", State.MISMATCH, diffs=(wrong,), facts=facts)
    for lane, name in (("device", "mc62/fused/small"), ("compare", "mc62/small")):
        result = result_of(f"{lane}/emu/{name}", State.MISMATCH, stages=(stage,), facts=facts)
        for case in cases_of(result, NONE):
            assert case.body.splitlines()[0] == "most likely: band-up: in words"


def test_the_compare_lane_has_a_case_a_stage_and_counts_each_second_once(
    result_of: MakeResult, wrong: Diff
) -> None:
    stages = (
        StageResult("fused", State.MISMATCH, seconds=2.0, diffs=(wrong,)),
        StageResult("pass1", State.PASSED, seconds=1.0),
        StageResult("pass2", State.SKIPPED, message="stage tile"),
    )
    result = result_of(
        "compare/emu/mc62/small",
        State.MISMATCH,
        message="first wrong: fused",
        stages=stages,
        seconds=3.5,
    )
    cases = list(cases_of(result, NONE))
    assert [(case.name, case.state, case.seconds) for case in cases] == [
        ("compare/emu/mc62/small", State.MISMATCH, 0.5),
        ("compare/emu/mc62/small/fused", State.MISMATCH, 2.0),
        ("compare/emu/mc62/small/pass1", State.PASSED, 1.0),
        ("compare/emu/mc62/small/pass2", State.SKIPPED, 0.0),
    ]
    assert [case.state for case in cases] == states_of(result)
    assert "pass2: skipped: stage tile" in cases[0].body
    assert "only in band 2" in cases[1].message


def test_an_excused_job_excuses_its_stages_with_it(result_of: MakeResult, wrong: Diff) -> None:
    """Else the report of a run that ended with exit code 0 has failures."""
    stages = (
        StageResult("fused", State.MISMATCH, diffs=(wrong,)),
        StageResult("pass1", State.PASSED),
        StageResult("pass2", State.SKIPPED, message="stage tile"),
        StageResult("pass3", State.COMPILE_ERROR, "L1 is full"),
    )
    result = result_of("compare/emu/mc62/small", State.EXPECTED_FAILURE, message="known", stages=stages)
    excused = State.EXPECTED_FAILURE
    ends = [excused, excused, State.PASSED, State.SKIPPED, excused]
    cases = list(cases_of(result, NONE))
    assert [case.state for case in cases] == states_of(result) == ends
    assert cases[1].message.startswith("expected, see the job: y: ")
    assert "state=expected-failure" in cases[1].out.splitlines()
    assert "first" in cases[1].body
    red = replace(result, state=State.MISMATCH)
    assert states_of(red)[1:] == [stage.state for stage in stages]


@pytest.mark.parametrize("state", [state for state in State if state not in {*list(State)[:3]}])
def test_every_end_state_has_a_message_even_where_nobody_gave_one(
    result_of: MakeResult, state: State
) -> None:
    assert only(result_of("device/emu/mc62/fused/small", state, message=" \n")).message == state.value


def test_what_a_crashed_job_printed_last_is_in_its_body(result_of: MakeResult) -> None:
    result = result_of("device/emu/mc62/fused/small", State.CRASHED, output="x" * 60_000 + "the end")
    case = only(result)
    assert case.body.endswith("the end")
    assert case.out.endswith("the end")
    assert len(case.out) < 20_000


def test_an_expected_failure_says_why_and_where_it_is_followed_up(result_of: MakeResult) -> None:
    result = result_of("device/emu/mc62/fused/small", State.EXPECTED_FAILURE)
    job = replace(
        result.job, expected_failure=ExpectedFailure("offset read unsigned", "https://example.org/1")
    )
    assert (
        "expected-failure=offset read unsigned (https://example.org/1)" in only(replace(result, job=job)).out
    )


def test_artefacts_are_attached_as_each_consumer_wants_them(result_of: MakeResult) -> None:
    result = result_of("device/emu/mc62/fused/small", State.CRASHED, artefacts=("jobs/1/heat.png",))
    jenkins = only(result, Attachments(Path("/ci/run")))
    gitlab = only(result, Attachments(Path("/ci/run"), relative_to=Path("/ci")))
    assert "[[ATTACHMENT|/ci/run/jobs/1/heat.png]]" in jenkins.out.splitlines()
    assert "[[ATTACHMENT|run/jobs/1/heat.png]]" in gitlab.out.splitlines()


def test_in_the_compare_lane_each_stage_attaches_its_own_files(result_of: MakeResult) -> None:
    left = ("jobs/x/1/fused/diff.json", "jobs/x/1/fused/aicore/a.cpp", "jobs/x/1/fused/channels.png")
    stages = (
        StageResult("fused", State.MISMATCH, artefacts=left),
        StageResult("pass1", State.PASSED, artefacts=("jobs/x/1/pass1/listing.txt",)),
    )
    own = ("jobs/x/1/inputs.npz",)
    result = result_of("compare/emu/mc62/small", State.MISMATCH, stages=stages, artefacts=own)
    assert [attached(case) for case in cases_of(result, NONE)] == [
        ["inputs.npz"],
        ["channels.png", "diff.json", "a.cpp"],  # GitLab shows the first one only
        [],
    ]


def attached(case: Case) -> list[str]:
    """Names of the files that a case attaches."""
    lines = (line for line in case.out.splitlines() if line.startswith("[[ATTACHMENT|"))
    return [Path(line.removesuffix("]]")).name for line in lines]


@pytest.mark.parametrize(
    ("state", "names"),
    [
        (State.PASSED, []),
        (State.MISMATCH, ["inputs.npz", "pypto.log"]),
        (State.COMPILE_ERROR, ["inputs.npz", "pypto.log"]),
        (State.CRASHED, ["inputs.npz", "pypto.log"]),
        (State.EXPECTED_FAILURE, ["inputs.npz", "pypto.log"]),
    ],
)
def test_what_engines_leave_is_attached_unless_the_job_passed(
    result_of: MakeResult, state: State, names: list[str]
) -> None:
    stages = (StageResult("fused", State.PASSED, artefacts=("1/fused/pypto.log",)),)
    result = result_of("device/emu/mc62/fused/small", state, stages=stages, artefacts=("1/inputs.npz",))
    assert attached(only(result)) == names


def test_a_case_attaches_so_many_files_and_says_how_many_it_left_out(result_of: MakeResult) -> None:
    many = tuple(f"1/fused/{number}.cpp" for number in range(MOST_ATTACHED + 3))
    stages = (StageResult("fused", State.MISMATCH, artefacts=many),)
    case = only(result_of("device/emu/mc62/fused/small", State.MISMATCH, stages=stages))
    assert len(attached(case)) == MOST_ATTACHED
    assert "not_attached=3 files more in the folder of the run" in case.out.splitlines()


def test_every_failed_case_says_how_to_repeat_it(result_of: MakeResult) -> None:
    stages = (StageResult("fused", State.MISMATCH), StageResult("pass1", State.PASSED))
    result = result_of(
        "compare/emu/mc62/small", State.MISMATCH, stages=stages, facts={REPRODUCE: "python -m it"}
    )
    told = ["reproduce=python -m it" in case.out.splitlines() for case in cases_of(result, NONE)]
    assert told == [True, True, False]


def test_a_suite_is_named_by_its_jobs_ids(result_of: MakeResult) -> None:
    assert suite_of(result_of("device/emu/mc62/fused/small")) == "device.emu"
    assert suite_of(result_of("compare/emu+a5sim/mc62/small")) == "compare.emu+a5sim"


def test_the_name_is_the_id_also_where_a_night_gave_the_seed(result_of: MakeResult) -> None:
    """History is keyed by it, so the seed of a night must not be in it."""
    result = result_of("device/emu/mc62/fused/small@nightly")
    job = replace(result.job, profile="small@20260310", written_profile="small@nightly")
    case = only(replace(result, job=job))
    assert (case.classname, case.name) == ("device.emu.mc62", "device/emu/mc62/fused/small@nightly")
    assert "profile=small@20260310" in case.out.splitlines()


def test_causes_that_explain_alike_are_one_fact(result_of: MakeResult) -> None:
    explained = result_of("device/emu/mc62/fused/small", State.MISMATCH, causes=("band-up", "scale32"))
    assert "cause=band-up or scale32" in only(explained).out.splitlines()
    unexplained = result_of("device/emu/mc62/fused/small", State.MISMATCH)
    assert "cause=" not in only(unexplained).out


def test_the_metrics_of_a_stage_are_facts_of_its_job(result_of: MakeResult) -> None:
    peak = Metric("l1_peak", 1024, "B", Source.COMPILER, 524_288)
    stages = (StageResult("fused", State.PASSED, facts={"tiling": "x"}, metrics=(peak,)),)
    out = only(result_of("compile/emu/mc62/fused", stages=stages)).out.splitlines()
    assert {"fused.l1_peak=1024 of 524288", "fused.tiling=x"} <= set(out)
    *_, of_stage = cases_of(result_of("compare/emu/mc62/small", stages=stages), NONE)
    assert "l1_peak=1024 of 524288" in of_stage.out.splitlines()


def test_each_stage_of_two_platforms_says_its_own_platform_engine_variant_and_device(
    result_of: MakeResult,
) -> None:
    emulator = Platform("emu", "emulator", "a5", "half-away")
    card = Platform("card", "pypto", "a2a3", devices=(3,), kind=PlatformKind.CARD)
    stages = tuple(
        StageResult(name, State.PASSED, platforms=platforms)
        for name, platforms in (
            ("k-on-emu", (emulator,)),
            ("k-on-card", (card,)),
            ("emu-vs-card", (emulator, card)),
        )
    )
    result = result_of("compare/emu+card/mc62/small", stages=stages, device=3)
    job = replace(result.job, platform=card, other=emulator, other_first=True)
    told = [
        [dict(line.split("=", 1) for line in case.out.splitlines())[key] for key in WHERE]
        for case in cases_of(replace(result, job=job), NONE)
    ]
    both = ["emu+card", "emulator+pypto", "half-away+vreq8", "none+3"]
    assert told == [both, ["emu", "emulator", "half-away", "none"], ["card", "pypto", "vreq8", "3"], both]


WHERE = ("platform", "engine", "variant", "device")
