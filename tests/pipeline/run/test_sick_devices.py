"""Runs in which a device is sick or a kernel makes devices fail: who is blamed, and that nobody else is."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipeline.ground.jobs import Job, Platform, State
from pipeline.ground.results import Result
from pipeline.ground.settings import Settings
from pipeline.run.begin import resume_run
from pipeline.run.devices import DevicePool
from pipeline.run.listener import RunSummary
from pipeline.run.options import Host, RunOptions

Run = Callable[..., RunSummary]
MakeJob = Callable[..., Job]


def states(results: Sequence[Result]) -> list[str]:
    return [result.state.value for result in results]


def starts(watcher: Any, job: Job) -> list[int]:
    """The devices on which processes of a job were started, probes not counted."""
    return [device for started, device, _ in watcher.started if started == job.id]


def mark_for(code: str) -> str:
    return f"raises:rtStreamSynchronize failed: {code}"


def limit(work: str, seconds: float = 0.3) -> float:
    """The time of jobs: it is short only if they hang. On a busy machine others may need longer to end."""
    return seconds if "hangs" in work else 60.0


# A kernel's fault


@pytest.mark.parametrize("devices", [(0,), (0, 1)])
@pytest.mark.parametrize("code", ["507018", "507015"])
def test_a_job_that_provokes_a_device_error_everywhere_is_red_and_the_devices_are_kept(
    run: Run, make_job: MakeJob, code: str, devices: tuple[int, ...]
) -> None:
    ties = make_job(mark_for(code), devices=devices)
    others = [make_job("passes", devices=devices) for _ in range(6)]
    summary = run(ties, *others, jobs=2)
    first, *rest = summary.results
    assert first.state is State.PROVOKED
    assert first.message.startswith("the job itself provokes it, other jobs pass there (device ")
    assert code in first.message
    assert states(rest) == ["passed"] * 6
    assert (summary.set_aside, summary.undecided, summary.exit_code) == ({}, {}, 1)


def test_two_jobs_that_provoke_device_errors_do_not_retire_two_devices(run: Run, make_job: MakeJob) -> None:
    jobs = [make_job(mark_for("507018"), devices=(0, 1)) for _ in range(2)]
    summary = run(*jobs, *(make_job("passes", devices=(0, 1)) for _ in range(6)), jobs=2)
    assert states(summary.results) == ["provoked"] * 2 + ["passed"] * 6
    assert (summary.set_aside, summary.exit_code) == ({}, 1)


def test_an_error_with_an_unlisted_code_everywhere_is_the_kernels(run: Run, make_job: MakeJob) -> None:
    jobs = [make_job(mark_for("507053"), devices=(0, 1)) for _ in range(2)]
    summary = run(*jobs, *(make_job("passes", devices=(0, 1)) for _ in range(4)), jobs=1)
    assert states(summary.results) == ["crashed"] * 2 + ["passed"] * 4
    assert (summary.set_aside, summary.exit_code) == ({}, 1)


@pytest.mark.parametrize(
    ("work", "state"),
    [
        ("raises:address out of range", State.CRASHED),
        ("dies_by:SIGKILL", State.KILLED),
        ("exits:0", State.NO_RESULT),
        ("is_wrong", State.MISMATCH),
        ("hangs", State.TIMED_OUT),
    ],
)
def test_a_kernels_fault_costs_one_extra_run_and_is_not_blamed_on_a_device(
    run: Run, make_job: MakeJob, watcher: Any, work: str, state: State
) -> None:
    broken = [make_job(work, devices=(0, 1), timeout=limit(work)) for _ in range(3)]
    passing = [make_job("passes", devices=(0, 1)) for _ in range(3)]
    plan = [job for pair in zip(passing, broken, strict=True) for job in pair]
    summary = run(*plan, jobs=1)
    ends = {result.job.id: result for result in summary.results}
    assert [ends[job.id].state for job in broken] == [state] * 3
    assert [ends[job.id].state for job in passing] == [State.PASSED] * 3
    assert sorted(len(starts(watcher, job)) for job in plan) == [1, 1, 1, 1, 1, 2]
    assert ends[broken[0].id].facts["devices"] == "failed in the same way on device 0 and device 1"
    assert ends[broken[0].id].attempts == 2
    assert (summary.set_aside, summary.undecided, summary.exit_code) == ({}, {}, 1)
    # Those that fail one after the other at the end may be checked by a probe.
    assert sum(remark.startswith("probe: ") for remark in watcher.remarks) <= 1


def test_the_wrong_output_of_a_first_try_is_what_its_job_ends_with(run: Run, make_job: MakeJob) -> None:
    """The second opinion is no other result: its files are kept, and the first one's are named."""
    (result,) = run(make_job("writes:10,mismatch", devices=(0, 1))).results
    assert (result.state, result.device) == (State.MISMATCH, 0)
    assert result.artefacts[0].endswith("/1/trace.bin")


# A device's fault


SICK = {
    "raises:lost its way": "crashed",
    "hangs": "timed-out",
    "dies_by:SIGKILL": "killed",
    "claims_sick:1": "infrastructure",
    mark_for("507018"): "infrastructure",
}


@pytest.mark.parametrize("work", SICK)
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_a_device_that_fails_every_job_is_named_and_its_jobs_pass_elsewhere(
    run: Run, make_job: MakeJob, watcher: Any, work: str, workers: int
) -> None:
    jobs = [make_job(f"on:1={work}", devices=(1, 0), timeout=limit(work, 2.0)) for _ in range(8)]
    summary = run(*jobs, jobs=workers)
    assert {(result.state, result.device) for result in summary.results} == {(State.PASSED, 0)}
    assert (list(summary.set_aside), summary.exit_code) == (["emulated-1"], 0)
    reason = summary.set_aside["emulated-1"]
    assert f", which passed on device 0, ends here as {SICK[work]}: " in reason
    assert sum(len(starts(watcher, job)) for job in jobs) == 9
    (tried,) = (result for result in summary.results if result.attempts == 2)
    assert tried.facts["attempt_1"].startswith("emulated-1: ")
    assert watcher.remarks[-1] == f"device emulated-1 is set aside: {reason}"
    assert watcher.remarks[0].startswith("probe: does device emulated-1 pass device/emu/")


def test_a_device_that_computes_wrongly_is_named_and_a_wrong_output_never_becomes_a_pass(
    run: Run, make_job: MakeJob
) -> None:
    jobs = [make_job("on:1=is_wrong", devices=(1, 0)) for _ in range(8)]
    summary = run(*jobs, jobs=2)
    red = [result for result in summary.results if result.state is not State.PASSED]
    assert [(result.state, result.device) for result in red] == [(State.DEVICE_DEPENDENT, 1)]
    assert red[0].message == "wrong on device 1, right on device 0: bad"
    assert [diff.actual_sha for stage in red[0].stages for diff in stage.diffs] == ["bad"]
    assert {result.device for result in summary.results if result.state is State.PASSED} == {0}
    assert list(summary.set_aside) == ["emulated-1"]
    assert "ends here as mismatch" in summary.set_aside["emulated-1"]
    assert summary.exit_code == 1


def test_a_crash_on_one_of_two_good_devices_is_the_jobs(run: Run, make_job: MakeJob) -> None:
    early = make_job("passes", devices=(1,))
    summary = run(early, make_job("on:1=raises:oh", devices=(1, 0)), jobs=1)
    assert states(summary.results) == ["passed", "device-dependent"]
    assert summary.results[1].message == (
        f"crashed on device 1, passed on device 0; device 1 passes {early.id}: ValueError: oh"
    )
    assert (summary.set_aside, summary.exit_code) == ({}, 1)


@pytest.mark.parametrize(
    ("work", "state"), [("hangs", State.TIMED_OUT), (mark_for("507018"), State.INFRASTRUCTURE)]
)
def test_the_only_device_is_set_aside_after_three_jobs_that_hang_or_are_refused(
    run: Run, make_job: MakeJob, work: str, state: State
) -> None:
    jobs = [make_job(f"on:1={work}", devices=(1,), timeout=limit(work)) for _ in range(8)]
    summary = run(*jobs, jobs=2)
    assert list(summary.set_aside) == ["emulated-1"]
    assert summary.set_aside["emulated-1"].startswith("3 jobs in a row, and none passed; the last ended as ")
    assert states(summary.results)[3:] == ["infrastructure"] * 5
    assert "no device is left (emulated-1: 3 jobs in a row" in summary.results[7].message
    assert {result.state for result in summary.results[:3]} == {state}


def test_a_hanging_kernel_does_not_retire_the_only_device(run: Run, make_job: MakeJob) -> None:
    """Jobs of another kernel come before the third that hangs."""
    hanging = [make_job("hangs", devices=(0,), timeout=0.3) for _ in range(4)]
    summary = run(*hanging, *(make_job("passes", devices=(0,)) for _ in range(2)), jobs=1)
    assert states(summary.results) == ["timed-out"] * 4 + ["passed"] * 2
    assert summary.set_aside == {}


@pytest.mark.parametrize("work", ["raises:boom", "is_wrong"])
def test_crashes_alone_do_not_retire_the_only_device_but_the_summary_says_so(
    run: Run, make_job: MakeJob, work: str
) -> None:
    summary = run(*(make_job(work, devices=(0,)) for _ in range(4)))
    assert {result.state for result in summary.results} == {
        State.CRASHED if work == "raises:boom" else State.MISMATCH
    }
    assert summary.set_aside == {}
    assert summary.undecided == {
        "emulated-0": "all 4 jobs on it failed, and no other device could tell it from the kernels"
    }


def test_a_device_that_the_probe_finds_sick_voids_what_crashed_there(
    run: Run, make_job: MakeJob, tmp_path: Any
) -> None:
    """The only device passes one job, then fails all: a crash there says nothing, a wrong output stays."""
    flag = tmp_path / "sick"
    jobs = [make_job(f"until:{flag}", devices=(0,)) for _ in range(3)]
    summary = run(*jobs, jobs=1)
    assert states(summary.results) == ["passed", "infrastructure", "infrastructure"]
    assert "which passed on device 0, ends here as crashed" in summary.set_aside["emulated-0"]
    assert summary.exit_code == 6


@pytest.mark.parametrize(("limit", "left"), [(2000, 1200), (1000, 600), (500, 0)])
def test_what_a_failed_probe_leaves_counts_towards_the_limit(
    limit: int, left: int, run: Run, make_job: MakeJob, tmp_path: Any
) -> None:
    """A job and the probe that follows leave 600 bytes each."""
    jobs = [make_job(f"until:{tmp_path / 'sick'}", devices=(0,)) for _ in range(2)]
    summary = run(*jobs, jobs=1, artefact_bytes=limit)
    assert list(summary.set_aside) == ["emulated-0"]
    assert sum(file.stat().st_size for file in summary.folder.rglob("*.bin")) == left
    assert set(summary.dropped) <= {job.id for job in jobs}


def test_what_fails_on_all_devices_of_a_row_is_told_from_a_device_that_hangs(
    run: Run, make_job: MakeJob
) -> None:
    """Device 1 hangs, and so does a kernel: the kernel's hang is no alibi for the device."""
    kernel = make_job("hangs", devices=(1, 0), timeout=0.5)
    jobs = [make_job("on:1=hangs", devices=(1, 0), timeout=2.0) for _ in range(8)]
    summary = run(kernel, *jobs, jobs=1)
    assert states(summary.results) == ["timed-out"] + ["passed"] * 8
    assert list(summary.set_aside) == ["emulated-1"]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_device_that_fails_fast_draws_no_work_while_nothing_has_passed(
    run: Run, make_job: MakeJob, workers: int
) -> None:
    """Two kernels fail before any passes, each in a way of its own, so that all devices are suspect."""
    pool, oh = (2, 0, 1), "2=raises:oh"
    works = [f"on:{oh},0=hangs,1=hangs", f"on:{oh},0=is_wrong,1=is_wrong", f"on:{oh}"]
    plan = [make_job(work, devices=pool, timeout=limit(work, 0.7)) for work in works for _ in range(4)]
    summary = run(*plan, jobs=workers)
    assert states(summary.results) == ["timed-out"] * 4 + ["mismatch"] * 4 + ["passed"] * 4
    assert list(summary.set_aside) == ["emulated-2"]


def test_a_second_opinion_from_a_sick_device_does_not_count(run: Run, make_job: MakeJob) -> None:
    """Device 1 computes wrongly, device 2 crashes; both are found, and the job is right on device 0."""
    other = [make_job("passes", devices=(0,))]
    jobs = [make_job("on:1=is_wrong,2=raises:oh", devices=(1, 2, 0)) for _ in range(6)]
    summary = run(*other, *jobs, jobs=3)
    assert set(summary.set_aside) == {"emulated-1", "emulated-2"}
    assert {(one.state, one.device) for one in summary.results} <= {
        (State.PASSED, 0),
        (State.DEVICE_DEPENDENT, 1),
    }
    assert states(summary.results).count("device-dependent") == 1


def test_a_full_disk_is_nobodys_trouble(run: Run, make_job: MakeJob, watcher: Any) -> None:
    full = make_job("raises:[Errno 28] No space left on device", devices=(0, 1))
    summary = run(full, *(make_job("passes", devices=(0, 1)) for _ in range(3)), jobs=1)
    assert states(summary.results) == ["infrastructure"] + ["passed"] * 3
    assert (summary.set_aside, watcher.remarks, summary.exit_code) == ({}, [], 6)


# How often, and when it ends early


def test_without_retries_the_probe_still_decides_about_the_device(run: Run, make_job: MakeJob) -> None:
    jobs = [make_job(f"on:1={mark_for('507018')}", devices=(1, 0)) for _ in range(4)]
    summary = run(*jobs, jobs=1, retries=0)
    assert states(summary.results).count("infrastructure") == 1
    assert list(summary.set_aside) == ["emulated-1"]
    assert summary.exit_code == 6


def test_repeats_stay_on_one_device(run: Run, make_job: MakeJob, watcher: Any) -> None:
    jobs = [make_job("passes", devices=(0, 1)) for _ in range(2)]
    run(*jobs, jobs=2, settings=Settings(repeat=4))
    for job in jobs:
        assert len(starts(watcher, job)) == 4
        assert len(set(starts(watcher, job))) == 1


def test_a_second_opinion_is_repeated_as_often(run: Run, make_job: MakeJob, watcher: Any) -> None:
    job = make_job("on:0=is_wrong", devices=(0, 1))
    (result,) = run(job, settings=Settings(repeat=3)).results
    assert starts(watcher, job)[:6] == [0, 0, 0, 1, 1, 1]
    assert result.state is State.DEVICE_DEPENDENT


@pytest.mark.parametrize(("work", "state"), [("is_wrong", "mismatch"), ("raises:oh", "crashed")])
def test_a_run_that_is_stopped_keeps_the_first_verdict(
    run: Run, make_job: MakeJob, watcher: Any, work: str, state: str
) -> None:
    job = make_job(f"on:0={work},1=hangs", devices=(0, 1))

    def interrupt(_job: Job) -> None:
        if len(watcher.started) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    watcher.on_start = interrupt
    summary = run(job, make_job("passes", devices=(2,)), jobs=1)
    assert summary.results[0].state.value == state
    assert summary.results[0].device == 0


def test_a_resumed_run_probes_with_what_passed_before(
    run: Run, make_job: MakeJob, options: RunOptions, host: Host, watcher: Any
) -> None:
    early = make_job("passes", devices=(1, 0))
    late = make_job("on:1=raises:oh", devices=(1, 0))
    watcher.on_start = lambda job: os.kill(os.getpid(), signal.SIGINT) if job == late else None
    first = run(early, late, jobs=1)
    assert states(first.results) == ["passed", "interrupted"]
    watcher.on_start = lambda _job: None
    summary = resume_run(first.run_id, options, [watcher], host)
    assert states(summary.results) == ["passed", "device-dependent"]
    assert summary.results[1].message.endswith(f"; device 1 passes {early.id}: ValueError: oh")


def test_a_second_opinion_waits_for_a_device_that_others_hold(
    run: Run, make_job: MakeJob, tmp_path: Any
) -> None:
    others = DevicePool(tmp_path / "locks")
    assert others.acquire(Platform("emu", "emulator", "a2a3"), [1]) is not None
    threading.Timer(1.0, others.close).start()
    jobs = [make_job("is_wrong", devices=(0, 1)), *(make_job("passes", devices=(0, 1)) for _ in range(3))]
    summary = run(*jobs, jobs=2)
    assert states(summary.results) == ["mismatch"] + ["passed"] * 3
    assert summary.results[0].facts["devices"] == "failed in the same way on device 0 and device 1"
    assert (summary.set_aside, summary.exit_code) == ({}, 1)
