from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.ground.jobs import ExpectedFailure, Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import (
    FINGERPRINT,
    NEW,
    QUEUED,
    RAN_IN,
    REPRODUCE,
    SINCE,
    Blame,
    Metric,
    Result,
    Source,
    StageResult,
)
from pipeline.ground.settings import Settings
from pipeline.history.past import Folders
from pipeline.results.performance import Reference
from pipeline.results.reproduce import interpreter
from pipeline.results.review import History, review


def job(expected: ExpectedFailure | None = None) -> Job:
    platform = Platform("emu", "emulator", "a2a3")
    return Job(
        "device/emu/mc62/fused/small",
        Lane.DEVICE,
        platform,
        WorkloadName("conv-pair"),
        "mc62",
        {},
        "fused",
        "small",
        60.0,
        expected,
    )


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(Folders(tmp_path))


@pytest.mark.parametrize("state", [State.MISMATCH, State.CRASHED, State.TIMED_OUT, State.INFRASTRUCTURE])
def test_a_failure_says_what_it_is_since_when_and_how_to_repeat_it(state: State, history: History) -> None:
    facts = review(Result(job(), state, "why", facts={"own": "kept"}), {}, history, Settings()).facts
    assert facts[FINGERPRINT] == f"{state.value} why"
    assert facts[SINCE] == NEW
    assert facts[REPRODUCE].startswith(f"{shlex.quote(interpreter())} -m pipeline run ")
    assert facts["own"] == "kept"


@pytest.mark.parametrize("state", [State.PASSED, State.SKIPPED])
def test_what_is_well_needs_nothing(state: State, history: History) -> None:
    assert not review(Result(job(), state), {}, history, Settings()).facts


def test_a_pass_that_will_be_red_says_how_to_repeat_it(history: History) -> None:
    expected = ExpectedFailure("known", "https://issues.example/1")
    assert set(review(Result(job(expected), State.PASSED), {}, history, Settings()).facts) == {REPRODUCE}


def test_a_pass_that_is_too_slow_is_a_failure_with_a_fingerprint(history: History) -> None:
    metrics = (Metric("cycles", 120, "cycles", Source.COST_MODEL),)
    stages = (StageResult("fused", State.PASSED, metrics=metrics),)
    references = {job().id: {"fused.cycles": Reference(100, 0, 0, "cycles")}}
    found = review(Result(job(), State.PASSED, stages=stages), references, history, Settings())
    assert found.state is State.PERFORMANCE
    assert found.facts[FINGERPRINT].startswith("performance fused.cycles is # cycles")


def test_a_chance_failure_is_repeated_as_often(history: History) -> None:
    result = Result(job(), State.NONDETERMINISTIC, "2 of 5 repeats differ", facts={"repeats": "5"})
    assert (
        review(result, {}, history, Settings(repeat=5))
        .facts[REPRODUCE]
        .endswith(" --profile small --repeat 5")
    )


@pytest.mark.parametrize(
    ("device", "facts", "pinned"),
    [(1, {}, True), (None, {}, False), (1, {QUEUED: "2.0"}, False)],
)
def test_the_device_is_pinned_if_the_run_chose_it(
    device: int | None, facts: dict[str, str], pinned: bool, history: History
) -> None:
    """A scheduler's card is not the user's to ask for."""
    result = Result(job(), State.DEVICE_DEPENDENT, "wrong on device 1", device=device, facts=facts)
    assert (" --devices 1" in review(result, {}, history, Settings()).facts[REPRODUCE]) == pinned


def test_of_an_interrupted_job_it_is_not_said_how_to_run_it_alone(history: History) -> None:
    assert REPRODUCE not in review(Result(job(), State.INTERRUPTED, "SIGINT"), {}, history, Settings()).facts


SKIPPED = Result(job(), State.SKIPPED, "no toolchain; install it")


class Ran(History):
    """A history in which every job ran in one run."""

    def ran_in(self, _job: Job, _settings: Settings) -> str:
        return "r1"


@pytest.fixture
def ran(tmp_path: Path) -> History:
    return Ran(Folders(tmp_path))


def test_a_job_that_ran_before_and_cannot_now_is_an_error_of_the_host(ran: History) -> None:
    found = review(SKIPPED, {}, ran, Settings())
    assert (found.state, found.blames) == (State.INFRASTRUCTURE, Blame.HOST)
    assert found.message == (
        "ran in run r1, cannot run now: no toolchain; install it; --allow-new-skips accepts it"
    )
    assert set(found.facts) == {RAN_IN, REPRODUCE, FINGERPRINT, SINCE}


def test_a_new_skip_that_is_allowed_says_that_it_is_new(ran: History) -> None:
    found = review(SKIPPED, {}, ran, Settings(allow_new_skips=True))
    assert (found.state, found.facts) == (State.SKIPPED, {RAN_IN: "r1"})
    assert found.message == "ran in run r1, cannot run now: no toolchain; install it"


def test_a_fault_that_has_no_place_in_a_job_is_no_new_skip(ran: History) -> None:
    executed = replace(SKIPPED, started="2026-03-10T04:00:00+00:00")
    assert review(executed, {}, ran, Settings(inject="unwritten")) == executed
    assert review(SKIPPED, {}, ran, Settings(inject="unwritten")).state is State.INFRASTRUCTURE
    assert review(executed, {}, ran, Settings()).state is State.INFRASTRUCTURE
