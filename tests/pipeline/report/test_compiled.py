from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import Metric, Result, Source, StageResult
from pipeline.report.compiled import COLUMNS, in_short, rows

MakeResult = Callable[..., Result]

Metrics = tuple[Metric, ...]


def moved(name: str, size: int) -> Metric:
    return Metric(name, size, "B", Source.COUNTER)


CANN = (
    moved("gm_read.mid", 5),
    moved("gm_read.windows", 70),
    moved("mid_gm_read", 75),
    moved("mid_gm_written", 60),
    Metric("l1_peak", 4096, "B", Source.COMPILER, 524_288),
    Metric("cycles", 1_086_901, "cycles", Source.COST_MODEL),
)
EMULATED = (
    moved("gm_read.x", 9),
    moved("gm_written.y", 8),
    Metric("l1_peak", 1024, "B", Source.COUNTER, 524_288),
    Metric("estimated_cycles.serial", 600.4, "cycles", Source.ESTIMATE),
    Metric("estimated_cycles.overlap", 400.4, "cycles", Source.ESTIMATE),
)


def handed_over(read: int, written: int) -> Metrics:
    return moved("mid_gm_read", read), moved("mid_gm_written", written)


def accepted(passes: int) -> Metric:
    return Metric("accepted_passes", passes, "passes", Source.VERIFIER, 2)


def stage(name: str, metrics: Metrics, state: State = State.PASSED, proved: str = "") -> StageResult:
    return StageResult(name, state, metrics=metrics, facts={"proved": proved} if proved else {})


@pytest.fixture
def of_engine(result_of: MakeResult) -> Callable[..., Result]:
    """Makes the result of a compile job of an engine, verified on `small` where a stage says so."""

    def make(engine: str, kernel: str, *stages: StageResult, state: State = State.PASSED) -> Result:
        made = result_of(f"compile/{engine}/mc62/{kernel}", state, stages=stages)
        platform = replace(made.job.platform, backend=engine)
        verified = any(each.name.startswith("verify-") for each in stages)
        return replace(made, job=replace(made.job, platform=platform, profile="small" if verified else None))

    return make


def test_a_row_has_what_the_engine_tells(of_engine: Callable[..., Result]) -> None:
    results = [
        of_engine(
            "cann",
            "fused",
            stage("fused", CANN, proved="no: for a reason"),
            stage("verify-fused", (*CANN, accepted(2))),
        ),
        of_engine("emulator", "fused", stage("fused", (*EMULATED, *handed_over(0, 0)), proved="yes")),
        of_engine("pypto", "fused", stage("fused", ())),
    ]
    assert [dict(zip(COLUMNS, row, strict=True)) for row in rows(results)] == [
        {
            "job, program": "compile/cann/mc62/fused fused",
            "engine": "cann",
            "L1 peak (bytes)": "4096 of 524288",
            "mid read from GM (bytes)": "75",
            "mid written to GM (bytes)": "60",
            "estimated cycles": "1086901, whole chip",
            "proved": "no: for a reason",
            "verified on": "small: exact, 2 of 2 passes accepted",
        },
        {
            "job, program": "compile/emulator/mc62/fused fused",
            "engine": "emulator",
            "L1 peak (bytes)": "1024 of 524288",
            "mid read from GM (bytes)": "0",  # counted, and none is of mid
            "mid written to GM (bytes)": "0",
            "estimated cycles": "400, one core",
            "proved": "yes",
            "verified on": "-",
        },
        {
            "job, program": "compile/pypto/mc62/fused fused",
            "engine": "pypto",
            "L1 peak (bytes)": "-",
            "mid read from GM (bytes)": "-",
            "mid written to GM (bytes)": "-",
            "estimated cycles": "-",
            "proved": "-",
            "verified on": "-",
        },
    ]


def test_the_handed_over_mid_is_counted(of_engine: Callable[..., Result]) -> None:
    passes = [
        stage("pass1", (*EMULATED, *handed_over(0, 77))),
        stage("pass2", (*EMULATED, *handed_over(99, 0))),
    ]
    found = rows([of_engine("emulator", "two-pass", *passes)])
    assert [row[3:5] for row in found] == [("0", "77"), ("99", "0")]


def test_a_workload_that_hands_nothing_over_has_no_traffic_of_mid(of_engine: Callable[..., Result]) -> None:
    found = rows([of_engine("emulator", "conv", stage("conv", EMULATED))])
    assert [row[3:5] for row in found] == [("-", "-")]


def test_what_is_wrong_or_was_not_verified_says_so(of_engine: Callable[..., Result]) -> None:
    passes = [
        stage("pass1", CANN),
        stage("pass2", (), State.COMPILE_ERROR),
        stage("verify-pass1", (accepted(1),), State.MISMATCH),
        stage("verify-pass2", (), State.SKIPPED),
    ]
    result = of_engine("cann", "two-pass", *passes, state=State.COMPILE_ERROR)
    assert [(row[0], row[-1]) for row in rows([result])] == [
        ("compile/cann/mc62/two-pass pass1", "small: mismatch, 1 of 2 passes accepted")
    ]
    assert in_short([result]) == ["programs compiled by cann: 1; not proved; verified: 1, exact: 0"]


def test_engines_are_told_apart_in_short(of_engine: Callable[..., Result], result_of: MakeResult) -> None:
    results = [
        of_engine("emulator", "two-pass", stage("pass1", EMULATED, proved="yes"), stage("pass2", EMULATED)),
        of_engine("cann", "fused", stage("fused", CANN), stage("verify-fused", ())),
        of_engine("pypto", "fused", state=State.SKIPPED),
        result_of("device/emu/mc62/fused/small", stages=(stage("fused", EMULATED),)),
    ]
    assert in_short(results) == [
        "programs compiled by emulator: 2; proved: 1; not verified",
        "programs compiled by cann: 1; not proved; verified: 1, exact: 1",
    ]
    assert len(rows(results)) == 3


def test_a_program_that_is_refuted_has_a_row(of_engine: Callable[..., Result]) -> None:
    refuted = stage("fused", EMULATED, State.REFUTED, "no: 3 of 8 elements are wrong")
    result = of_engine("emulator", "fused", refuted, state=State.REFUTED)
    assert [row[-2:] for row in rows([result])] == [("no: 3 of 8 elements are wrong", "-")]
    assert in_short([result]) == ["programs compiled by emulator: 1; refuted: 1; not verified"]
    proved = of_engine("emulator", "two-pass", stage("pass1", EMULATED, proved="yes"))
    assert in_short([result, proved]) == [
        "programs compiled by emulator: 2; proved: 1, refuted: 1; not verified"
    ]
