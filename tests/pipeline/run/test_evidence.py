from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Blame, Result
from pipeline.run.evidence import Evidence, Next
from pipeline.run.tries import Try

A, B, C = "npu-0", "npu-1", "npu-2"
NUMBERS = {A: 0, B: 1, C: 2}


class Night:
    """Evidence of jobs that can run on three devices; `aside` can be written."""

    def __init__(self, make_job: Callable[..., Job], steered: bool = True) -> None:
        self.jobs = [make_job(f"kernel-{number}") for number in range(12)]
        self.aside: dict[str, str] = {}
        self.evidence = Evidence({job.id: (A, B, C) for job in self.jobs} if steered else {}, self.aside)

    def end(
        self, job: int, device: str, state: str = "passed", message: str = "", seconds: float = 1.0
    ) -> Try:
        """A job ends on a device; `refused` is an infrastructure error that blames it."""
        refused = state == "refused"
        result = Result(
            self.jobs[job],
            State.INFRASTRUCTURE if refused else State(state),
            message,
            seconds=seconds,
            device=NUMBERS.get(device),
            blames=Blame.DEVICE if refused else Blame.NOTHING,
        )
        return self.evidence.note(device, result)

    def decide(self, *tries: Try, **changes: Any) -> Result | Next:
        """What follows; by default another device, and two retries, are left."""
        given = {"elsewhere": True, "alone": False, "retries": 2, "final": False, **changes}
        return self.evidence.decide(tries, **given)

    def state(self, *tries: Try, **changes: Any) -> State:
        decision = self.decide(*tries, **changes)
        assert isinstance(decision, Result)
        return decision.state

    def probe(self, device: str, state: State = State.PASSED) -> str:
        job = self.evidence.probes()[device]
        (planned,) = (each for each in self.jobs if each.id == job)
        fault = self.evidence.probed(device, Result(planned, state, "oh"))
        return fault.reason if fault is not None else ""


@pytest.fixture
def night(make_job: Callable[..., Job]) -> Night:
    return Night(make_job)


FAILED = ["mismatch", "nondeterministic", "crashed", "timed-out", "killed", "no-result"]


@pytest.mark.parametrize("state", ["passed", "compile-error", "performance", "skipped"])
def test_what_says_nothing_about_a_device_is_the_result(night: Night, state: str) -> None:
    assert night.state(night.end(0, A, state)) is State(state)
    assert night.evidence.choose((A, B), idle=False) == (A, B)
    assert night.evidence.probes() == {}


@pytest.mark.parametrize("state", FAILED)
def test_what_fails_in_the_same_way_on_two_devices_is_the_jobs_fault(night: Night, state: str) -> None:
    first = night.end(0, A, state, "y: 3 wrong")
    assert night.decide(first) is Next.AGAIN
    assert night.evidence.choose((A, B), idle=True) == (B,)  # nothing more for the suspect
    assert night.state(first, night.end(0, B, state, "y: 4 wrong")) is State(state)
    assert night.evidence.choose((A, B), idle=False) == (A, B)
    # One sample a kind and device, and both devices have had it.
    night.end(1, A)
    night.end(2, B)
    assert night.state(night.end(3, A, state, "y: 5 wrong")) is State(state)
    assert night.state(night.end(4, B, state, "y: 5 wrong")) is State(state)


@pytest.mark.parametrize("state", FAILED)
@pytest.mark.parametrize("sick", [True, False])
def test_what_passes_elsewhere_is_decided_by_the_probe(night: Night, state: str, sick: bool) -> None:
    night.end(1, B)
    first = night.end(0, A, state, "oh")
    assert night.decide(first) is Next.AGAIN
    assert night.evidence.probes() == {}  # the second opinion comes first
    second = night.end(0, B)
    decision = night.decide(first, second)
    wrong = state in ("mismatch", "nondeterministic")
    assert isinstance(decision, Result) if wrong else decision is Next.WAIT
    reason = night.probe(A, State.CRASHED if sick else State.PASSED)
    if sick:
        assert reason == f"{night.jobs[1].id}, which passed on device 1, ends here as crashed: oh"
        night.aside[A] = reason
    else:
        assert reason == ""
    dependent = State.NONDETERMINISTIC if state == "nondeterministic" else State.DEVICE_DEPENDENT
    assert night.state(first, second) is (State.PASSED if sick and not wrong else dependent)


@pytest.mark.parametrize("probe", [State.PASSED, State.CRASHED])
def test_what_a_device_refused_and_another_passed_is_the_devices(night: Night, probe: State) -> None:
    night.end(1, B)
    first = night.end(0, A, "refused", "507018")
    assert night.decide(first) is Next.AGAIN
    assert night.state(first, night.end(0, B)) is State.PASSED
    assert bool(night.probe(A, probe)) == (probe is State.CRASHED)


def test_another_job_clears_a_device_whatever_passed_there_before_it(night: Night) -> None:
    first = night.end(0, A, "crashed", "oh")
    assert night.decide(first) is Next.AGAIN
    for job in (0, 0, 1, 2):  # its own pass says nothing about the device
        night.end(job, A)
    decision = night.decide(first, night.end(0, B))
    assert isinstance(decision, Result)
    assert decision.state is State.DEVICE_DEPENDENT
    assert f"device 0 passes {night.jobs[1].id}" in decision.message


def test_a_probe_is_the_quickest_job_that_passed_there_else_elsewhere(night: Night) -> None:
    night.end(0, B, seconds=0.1)
    night.end(1, B, seconds=0.5)
    first = night.end(5, A, "crashed", "oh")
    night.decide(first, elsewhere=False)
    assert night.evidence.probes() == {A: night.jobs[0].id}
    night.end(2, A, seconds=9.0)
    night.end(3, A, seconds=7.0)
    assert night.evidence.probes() == {}  # what passes there clears it as well
    night.decide(night.end(6, A, "crashed", "another"), elsewhere=False)
    assert night.evidence.probes() == {A: night.jobs[3].id}


@pytest.mark.parametrize("state", ["mismatch", "timed-out", "crashed", "no-result", "killed"])
def test_a_probe_that_fails_in_any_way_convicts(night: Night, state: str) -> None:
    night.end(0, A)
    night.end(1, A, "refused")
    assert "which passed on device 0, ends here as" in night.probe(A, State(state))


def test_a_probe_on_a_full_disk_says_nothing_and_is_not_run_for_ever(night: Night) -> None:
    night.end(0, A)
    refused = night.end(1, B, "refused")
    assert night.probe(B, State.INFRASTRUCTURE) == ""
    assert night.evidence.probes() == {}
    night.end(2, B, "refused")
    assert night.evidence.probes() == {}
    # Nothing was learnt, so the job is not said to be at fault.
    assert night.state(refused, night.end(1, A)) is State.PASSED


def test_an_error_that_blames_no_device_leaves_a_pass_a_pass(night: Night) -> None:
    full = night.end(0, A, "infrastructure", "the disk is full")
    assert night.decide(full) is Next.AGAIN
    night.end(1, A)
    assert night.state(full, night.end(0, B)) is State.PASSED


def test_an_error_is_provoked_only_where_both_devices_are_known_to_be_good(night: Night) -> None:
    first = night.end(0, A, "refused", "507018")
    assert night.decide(first) is Next.AGAIN
    second = night.end(0, B, "refused", "507018")
    assert night.decide(first, second) is Next.WAIT
    night.end(1, A)
    assert night.decide(first, second) is Next.WAIT
    night.end(2, B)
    assert night.state(first, second) is State.PROVOKED


def test_an_error_on_a_sick_device_does_not_count_against_the_job(night: Night) -> None:
    night.end(1, B)
    first, second = night.end(0, A, "refused", "507018"), night.end(0, B, "refused", "507018")
    night.aside[A] = "sick"
    assert night.probe(B) == ""
    assert night.decide(first, second) is Next.AGAIN


def test_the_only_device_needs_two_tries_and_other_jobs_that_pass_after_each(night: Night) -> None:
    first = night.end(0, A, "refused")
    assert night.decide(first, alone=True, elsewhere=False) is Next.AGAIN
    night.end(1, A)
    second = night.end(0, A, "refused")
    assert night.decide(first, second, alone=True, elsewhere=False) is Next.WAIT
    assert night.probe(A) == ""
    assert night.state(first, second, alone=True, elsewhere=False) is State.PROVOKED


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_retries_end(night: Night, retries: int) -> None:
    tries = []
    for _ in range(retries):
        tries.append(night.end(0, A, "refused"))
        assert night.decide(*tries, retries=retries, final=True) is Next.AGAIN
    tries.append(night.end(0, B, "refused"))
    assert night.state(*tries, retries=retries, final=True) is State.INFRASTRUCTURE


def test_cards_of_a_scheduler_are_not_steered_but_a_job_can_provoke_their_errors(
    make_job: Callable[..., Job],
) -> None:
    night = Night(make_job, steered=False)
    first, second = (night.end(0, device, "refused", "507018") for device in (A, B))
    assert night.decide(first, second, elsewhere=False) is Next.WAIT
    night.end(1, A)
    night.end(2, B)
    assert night.state(first, second, elsewhere=False) is State.PROVOKED
    assert night.evidence.probes() == {}
    crashed = night.end(3, A, "crashed")
    assert night.state(crashed, elsewhere=False) is State.CRASHED
    refused = night.end(4, A, "refused")
    assert night.state(refused, night.end(4, B), elsewhere=False) is State.PASSED


def test_three_jobs_in_a_row_make_a_device_suspect_whatever_their_kind(night: Night) -> None:
    night.end(0, A)
    night.end(0, B)
    for number in range(1, 4):
        agreed = night.end(number, A, "crashed", "oh")
        night.decide(agreed, night.end(number, B, "crashed", "oh"))
        night.end(9, B)
        assert (A in night.evidence.probes()) == (number == 3)


def test_the_same_job_in_a_row_is_one(night: Night) -> None:
    for _ in range(4):
        night.end(0, A, "refused")
    assert night.evidence.refuses(A, ()) is None
    assert night.evidence.undecided() == {}


@pytest.mark.parametrize(("state", "dead"), [("timed-out", True), ("refused", True), ("crashed", False)])
def test_a_device_that_never_passed_is_given_up_only_if_it_hangs_or_refuses(
    night: Night, state: str, dead: bool
) -> None:
    for number in range(3):
        assert night.evidence.refuses(A, ()) is None
        night.decide(night.end(number, A, state, "oh"), elsewhere=False, retries=0)
    assert bool(night.evidence.refuses(A, night.jobs[:3])) == dead
    assert night.evidence.refuses(A, night.jobs[:4]) is None  # another kernel may pass there
    assert list(night.evidence.undecided()) == [A]


def test_a_device_that_can_be_tested_is_not_given_up_untested(night: Night) -> None:
    night.end(9, B)
    for number in range(3):
        night.decide(night.end(number, A, "timed-out"), elsewhere=False)
    assert night.evidence.refuses(A, ()) is None
    assert A in night.evidence.probes()


def test_different_failures_on_two_devices_wait_for_what_the_devices_are(night: Night) -> None:
    first, second = night.end(0, A, "mismatch", "y"), night.end(0, B, "crashed", "oh")
    assert night.decide(first, second) is Next.WAIT
    assert night.state(first, second, final=True) is State.MISMATCH
    night.end(9, C)
    assert set(night.evidence.probes()) == {A, B}
    night.aside[B] = "sick"
    assert night.decide(first, second) is Next.AGAIN  # the first one has no valid second opinion yet
    assert night.state(first, second, night.end(0, C, "mismatch", "y")) is State.MISMATCH


def test_a_wrong_output_of_a_sick_device_is_shown_although_all_others_are_right(night: Night) -> None:
    first, second = night.end(0, A, "mismatch", "y"), night.end(0, B, "crashed", "oh")
    night.aside |= {A: "sick", B: "sick"}
    assert night.decide(first, second) is Next.AGAIN
    decision = night.decide(first, second, night.end(0, C))
    assert isinstance(decision, Result)
    assert (decision.state, decision.device) == (State.DEVICE_DEPENDENT, 0)
    assert decision.message == "wrong on device 0, right on device 2: y"


def test_a_crash_on_a_device_that_is_set_aside_is_no_verdict(night: Night) -> None:
    first = night.end(0, A, "crashed", "oh")
    night.aside[A] = "it fails"
    decision = night.decide(first, elsewhere=False)
    assert isinstance(decision, Result)
    assert decision.state is State.INFRASTRUCTURE
    assert decision.message == "device 0 was set aside: it fails (crashed: oh)"


def test_a_refused_job_is_retried_where_it_was_if_the_other_device_was_sick(night: Night) -> None:
    refused, wrong = night.end(0, A, "refused"), night.end(0, B, "mismatch")
    night.aside[B] = "sick"
    assert night.decide(refused, wrong, elsewhere=False, alone=True) is Next.AGAIN
    assert night.state(refused, wrong, elsewhere=False, alone=True, retries=0) is State.MISMATCH


def test_an_idle_run_goes_on_with_a_suspect_that_cannot_be_tested(night: Night) -> None:
    night.end(0, A, "refused")
    assert night.evidence.choose((A, B), idle=False) == (B,)
    assert night.evidence.choose((A, B), idle=True) == (B, A)
    assert night.evidence.choose((A,), idle=False) == (A,)
    night.end(1, B)
    assert night.evidence.choose((A, B), idle=True) == (B,)  # it can be tested now


def test_a_device_that_fails_fast_draws_no_work(night: Night) -> None:
    """All are suspect and nothing has passed: the one with the fewest failures is waited for."""
    night.end(0, A, "refused")
    night.end(1, B, "refused")
    night.end(2, A, "refused")
    assert night.evidence.choose((A, B), idle=False) == (B,)
    assert night.evidence.choose((A, B), idle=True) == (B, A)


def test_what_fails_on_a_device_where_nothing_ever_passed_waits_for_news(night: Night) -> None:
    first, second = night.end(0, A, "crashed", "oh"), night.end(0, B, "timed-out", "late")
    assert night.decide(first, second) is Next.WAIT
    third = night.end(1, A, "crashed", "oh")
    assert night.decide(third) is Next.WAIT
    assert night.state(third, alone=True, elsewhere=False) is State.CRASHED
    night.end(2, B)
    assert night.probe(A, State.CRASHED)
    night.aside[A] = "sick"
    assert night.decide(third) is Next.AGAIN


def test_at_the_end_the_devices_of_open_verdicts_are_probed(night: Night) -> None:
    night.decide(first := night.end(0, A, "crashed", "oh"))
    night.decide(first, night.end(0, B, "crashed", "oh"))
    third = night.end(1, A, "crashed", "oh")
    assert night.decide(third) is Next.WAIT
    assert not night.evidence.question([third])
    night.end(2, B)
    assert night.evidence.probes() == {}
    assert night.evidence.question([third])
    assert night.probe(A) == ""
    assert night.state(third) is State.CRASHED


def test_what_rests_on_an_untested_device_at_the_end_is_tried_elsewhere(night: Night) -> None:
    first, second = night.end(0, A, "crashed", "oh"), night.end(0, B, "timed-out", "late")
    third = night.end(1, A, "crashed", "oh")
    assert night.decide(first, second) is Next.WAIT
    assert night.decide(third) is Next.WAIT
    assert night.decide(third, final=True) is Next.AGAIN
    assert night.state(third, final=True, elsewhere=False) is State.CRASHED


def test_devices_on_which_jobs_passed_come_first(night: Night) -> None:
    night.end(0, B)
    assert night.evidence.choose((A, B), idle=False) == (B, A)


def test_kernels_that_failed_where_nothing_passed_come_later(night: Night) -> None:
    night.end(0, A, "timed-out")
    assert night.evidence.failing_kernels() == {night.jobs[0].kernel}
    night.end(1, A)
    assert night.evidence.failing_kernels() == frozenset()
