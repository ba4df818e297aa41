"""Performance references: bounds, device models, what a change is shown as, and the file they live in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import Metric, Result, Source, StageResult
from pipeline.results.performance import (
    Reference,
    ReferencesError,
    judge,
    load_references,
    save_references,
    updated,
)

JOB = "compile/cann-a2a3/mc62/fused"
CYCLES = Reference(1000, 0, 0, "cycles")


def cycles(value: float) -> Metric:
    return Metric("cycles", value, "cycles", Source.COST_MODEL)


def time(value: float, model: str = "910B3") -> Metric:
    return Metric("device_us", value, "us", Source.DEVICE_CLOCK, model=model)


def result(*metrics: Metric, state: State = State.PASSED) -> Result:
    job = Job(
        JOB,
        Lane.COMPILE,
        Platform("cann-a2a3", "cann", "a2a3"),
        WorkloadName("conv-pair"),
        "mc62",
        {},
        "fused",
        None,
        60,
    )
    return Result(job, state, stages=(StageResult("fused", state, metrics=metrics),))


def references(metric: str, reference: Reference) -> dict[str, dict[str, Reference]]:
    return {JOB: {metric: reference}}


@pytest.mark.parametrize(
    ("now", "state"),
    [(1000, State.PASSED), (1001, State.PERFORMANCE), (999, State.PERFORMANCE)],
)
def test_cycles_compare_exactly(now: int, state: State) -> None:
    judged = judge(result(cycles(now)), references("fused.cycles", Reference(1000, 0, 0, "cycles")))
    assert judged.state is state
    if state is State.PERFORMANCE:
        assert str(now) in judged.message
        assert "1000 cycles" in judged.message


@pytest.mark.parametrize(
    ("now", "state"),
    [(90, State.PASSED), (105, State.PASSED), (89.9, State.PERFORMANCE), (105.1, State.PERFORMANCE)],
)
def test_device_times_may_move_within_their_bounds(now: float, state: State) -> None:
    known = references("fused.device_us", Reference(100, -10, 5, "us", "910B3"))
    assert judge(result(time(now)), known).state is state


def test_a_time_is_not_compared_with_another_device_models() -> None:
    known = references("fused.device_us", Reference(100, -10, 5, "us", "910B3"))
    judged = judge(result(time(500, "910B1")), known)
    assert judged.state is State.PASSED
    assert "910B3" in judged.facts["reference.fused.device_us"]


def test_a_metric_that_was_not_measured_is_red_and_says_why() -> None:
    known = references("fused.device_us", Reference(100, -10, 5, "us", "910B3"))
    untimed = result()
    stage = replace(untimed.stages[0], facts={"timing": "unavailable: no such symbol"})
    judged = judge(replace(untimed, stages=(stage,)), known)
    assert judged.state is State.PERFORMANCE
    assert judged.message == (
        "fused.device_us was not measured (unavailable: no such symbol), "
        "but has the reference 100 us -10 % +5 %; --update-references removes it"
    )
    assert "pass1.cycles was not measured" in judge(result(), references("pass1.cycles", CYCLES)).message


def test_stages_that_were_not_asked_for_are_not_missed() -> None:
    known = {JOB: {"pass1.cycles": CYCLES, "fused.cycles": CYCLES}}
    assert judge(result(cycles(1000)), known, whole=False).state is State.PASSED
    assert "fused.cycles was not measured" in judge(result(), known, whole=False).message
    assert updated(known, [result(cycles(1000))], whole=False) == (known, ())


def test_an_update_removes_what_was_not_measured() -> None:
    known = {JOB: {"pass1.cycles": CYCLES, "fused.cycles": CYCLES}, "other": {"fused.cycles": CYCLES}}
    new, changes = updated(known, [result(cycles(1000), state=State.PERFORMANCE)])
    assert new == {JOB: {"fused.cycles": CYCLES}, "other": {"fused.cycles": CYCLES}}
    assert changes == (f"{JOB} pass1.cycles: 1000 cycles -> removed, it was not measured",)
    assert updated(known, [result(state=State.PERFORMANCE)])[0] == {"other": {"fused.cycles": CYCLES}}
    assert updated(known, [result(state=State.MISMATCH)]) == (known, ())


def test_a_mismatch_is_never_mixed_up_with_a_regression() -> None:
    known = references("fused.cycles", Reference(1000, 0, 0, "cycles"))
    assert judge(result(cycles(5000), state=State.MISMATCH), known).state is State.MISMATCH


def test_an_update_shows_each_change_and_keeps_bounds_that_were_set() -> None:
    known = references("fused.cycles", Reference(1000, -1, 2, "cycles"))
    new, changes = updated(known, [result(cycles(1500), state=State.PERFORMANCE)])
    assert changes == (f"{JOB} fused.cycles: 1000 cycles -> 1500 cycles",)
    assert new[JOB]["fused.cycles"] == Reference(1500, -1, 2, "cycles")
    again, unchanged = updated(new, [result(cycles(1500))])
    assert (again, unchanged) == (new, ())


def test_a_first_value_is_recorded_but_not_that_of_a_job_that_failed() -> None:
    new, changes = updated({}, [result(cycles(7), Metric("timed_rounds", 20, "rounds", Source.DEVICE_CLOCK))])
    assert new == references("fused.cycles", Reference(7, 0, 0, "cycles"))
    assert changes == (f"{JOB} fused.cycles: no reference -> 7 cycles",)
    assert updated({}, [result(cycles(7), state=State.MISMATCH)]) == ({}, ())


@pytest.mark.parametrize("metric", [cycles(1000.0), time(45.0)])
def test_a_later_update_leaves_what_an_earlier_one_wrote(tmp_path: Path, metric: Metric) -> None:
    """A review then shows nothing but what changed."""
    path = tmp_path / "references.json"
    recorded, _ = updated({}, [result(metric)])
    save_references(path, recorded)
    written = path.read_text()
    save_references(path, load_references(path))
    assert path.read_text() == written


def test_a_file_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    known = references("fused.cycles", Reference(1000, 0, 0, "cycles"))
    save_references(tmp_path / "references.json", known)
    assert load_references(tmp_path / "references.json") == known
    assert load_references(tmp_path / "missing.json") == {}
    with pytest.raises(ReferencesError, match=r"missing\.json: the references cannot be read: No such"):
        load_references(tmp_path / "missing.json", must_exist=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"job": {"fused.cycles": {"value": "1000"}}}',
        '{"job": {"fused.cycles": {"value": -1, "lower": 0, "upper": 0, "unit": "cycles"}}}',
        '{"job": {"fused.cycles": {"value": 1, "lower": 5, "upper": 0, "unit": "cycles"}}}',
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "references.json"
    path.write_text(text)
    with pytest.raises(ReferencesError, match=r"references\.json") as caught:
        load_references(path)
    assert len(str(caught.value).splitlines()) == 1
