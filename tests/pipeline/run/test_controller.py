from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, State
from pipeline.ground.patterns import Pattern
from pipeline.ground.results import Blame, Result
from pipeline.ground.settings import Settings
from pipeline.run.begin import run_jobs
from pipeline.run.folders import JOURNAL, read_run
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.local import LocalExecutor
from pipeline.run.options import Host, RunOptions
from pipeline.run.processes import wait_until
from pipeline.run.verdict import DEFAULT_MARKS, Mark
from tests.pipeline.run.conftest import alive

Run = Callable[..., RunSummary]
MakeJob = Callable[..., Job]


def only(summary: RunSummary) -> Result:
    (result,) = summary.results
    assert summary.problems == ()
    return result


# What a run is


def test_every_job_ends_with_the_result_its_process_wrote(run: Run, make_job: MakeJob, watcher: Any) -> None:
    jobs = [make_job("passes:hello"), make_job("ends_as:mismatch"), make_job("passes")]
    summary = run(*jobs)
    assert [result.job for result in summary.results] == jobs
    assert [result.state for result in summary.results] == [State.PASSED, State.MISMATCH, State.PASSED]
    assert summary.results[0].message == "hello"
    assert summary.exit_code == 1
    assert summary.problems == ()
    assert sorted(result.job.id for result in watcher.finished) == sorted(job.id for job in jobs)
    assert len(watcher.started) == 3
    assert watcher.infos[0].plan == tuple(jobs)
    assert watcher.summaries == [summary]


def test_plan_with_the_same_id_twice_is_refused(options: RunOptions, host: Host, make_job: MakeJob) -> None:
    job = make_job()
    with pytest.raises(ValueError, match=f"two jobs of the plan have the id {job.id}"):
        run_jobs([job, make_job(), job], options, [], host)


def test_nothing_executed_is_an_error_whatever_was_skipped(
    run: Run, make_job: MakeJob, options: RunOptions, watcher: Any
) -> None:
    assert run().exit_code == 5
    host = Host(available=lambda _job: Availability("no simulator", "install it"))
    summary = run_jobs([make_job(), make_job()], options, [watcher], host)
    assert summary.exit_code == 5
    assert {(result.state, result.message) for result in summary.results} == {
        (State.SKIPPED, "no simulator; install it")
    }
    assert watcher.started == []


def test_the_next_job_begins_before_listeners_are_told_of_the_last(
    options: RunOptions, host: Host, make_job: MakeJob, watcher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [make_job(), make_job()]
    begun: list[bool] = []

    def finished(result: Result) -> None:
        watcher.finished.append(result)
        following = watcher.infos[0].folder / "jobs" / jobs[1].id.replace("/", "+") / "1"
        begun.append(wait_until(following.is_dir, 60.0))

    monkeypatch.setattr(watcher, "job_finished", finished)
    run_jobs(jobs, replace(options, jobs=1), [watcher], host)
    assert begun == [True, True]
    assert [job for job, *_ in watcher.started] == [job.id for job in jobs]


def test_skip_on_a_required_platform_is_an_error(options: RunOptions, make_job: MakeJob) -> None:
    job = make_job()
    required = replace(job, platform=replace(job.platform, required=True))
    host = Host(available=lambda _job: Availability("no simulator"))
    result = only(run_jobs([required], options, [], host))
    assert result.state is State.INFRASTRUCTURE
    assert result.message == "required platform emu is not available: no simulator"


def test_job_process_is_set_up(run: Run, make_job: MakeJob) -> None:
    summary = run(make_job("facts:numpy"), preload=("numpy",), jobs=1)
    result = only(summary)
    assert result.facts["stdin"] == "''"
    assert result.facts["cwd"] == result.facts["folder"]
    assert result.facts["loaded"] == "True"
    assert summary.run_id in result.facts["mark"]
    assert int(result.facts["openmp"]) == len(os.sched_getaffinity(0))


def test_processors_are_shared_between_jobs_that_run_together(run: Run, make_job: MakeJob) -> None:
    summary = run(make_job("facts"), make_job("facts"), jobs=2)
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert {result.facts["openmp"] for result in summary.results} == {str(share)}


def test_a_result_has_the_most_memory_that_a_process_of_its_job_had(run: Run, make_job: MakeJob) -> None:
    """One keeper after the other job, so that none has the memory of an earlier one."""
    much = 150_000_000
    jobs = [make_job(work) for work in (f"holds:{much}", "passes", f"holds_elsewhere:{much}", "passes")]
    one, small, other, last = (result.peak_memory for result in run(*jobs, jobs=1).results)
    assert much < one < 2 * much
    assert much < other < 2 * much
    assert 0 < small < much
    assert 0 < last < much


def test_preloaded_module_that_starts_threads_is_refused(
    run: Run, make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    summary = run(make_job(), preload=("threaded",))
    assert summary.exit_code == 3
    assert "nursery.log" in summary.problems[0]
    assert "2 threads: forking is not safe" in (summary.folder / "nursery.log").read_text()
    assert summary.results[0].state is State.NO_RESULT


def test_locks_that_may_not_hold_are_told_of(
    run: Run, make_job: MakeJob, watcher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.run.local.network_warning", lambda folder: f"{folder} is far away")
    run(make_job())
    assert any(note.endswith("is far away") for note in watcher.infos[0].notes)


def test_listener_that_fails_is_named_and_stops_nobody(
    options: RunOptions, host: Host, make_job: MakeJob, watcher: Any
) -> None:
    class Broken:
        def job_finished(self, result: Result) -> None:
            raise OSError("disk full")

        def __getattr__(self, _name: str) -> Callable[..., None]:
            return lambda *_: None

    summary = run_jobs([make_job()], options, [Broken(), watcher], host)
    assert summary.exit_code == 3
    assert summary.problems == ("Broken failed: OSError: disk full",)
    assert watcher.finished[0].state is State.PASSED


def test_a_journal_that_somebody_empties_costs_its_results_and_no_report(
    options: RunOptions, host: Host, make_job: MakeJob, watcher: Any
) -> None:
    class Meddler:
        def run_started(self, run: RunInfo) -> None:
            self.journal = run.folder / JOURNAL

        def job_finished(self, result: Result) -> None:
            os.truncate(self.journal, 0)

        def __getattr__(self, _name: str) -> Callable[..., None]:
            return lambda *_: None

    summary = run_jobs([make_job(), make_job()], options, [Meddler(), watcher], host)
    assert summary.exit_code == 3
    (problem,) = summary.problems
    assert "was changed while the run used it" in problem
    assert {result.state for result in summary.results} == {State.INTERRUPTED}
    assert [one.exit_code for one in watcher.summaries] == [3]


def test_fault_of_the_pipeline_ends_the_run_with_all_jobs_accounted_for(
    options: RunOptions, make_job: MakeJob, watcher: Any
) -> None:
    jobs = [make_job(), make_job()]

    def available(job: Job) -> Availability:
        if job == jobs[1]:
            raise RuntimeError("probe is broken")
        return Availability()

    summary = run_jobs(jobs, options, [watcher], Host(available=available))
    assert summary.exit_code == 3
    assert "probe is broken" in summary.problems[0]
    assert {result.state for result in summary.results} == {State.INTERRUPTED}
    assert len(watcher.finished) == 2


# How processes end


def test_hang_is_reported_with_every_stack_and_the_last_output(run: Run, make_job: MakeJob) -> None:
    result = only(run(make_job("hangs", timeout=2.0)))
    assert result.state is State.TIMED_OUT
    assert result.message == "did not end within 2 s"
    assert "in hangs" in result.details
    assert "in _wait_in_thread" in result.details
    assert result.output == "last words"


def test_process_that_does_not_heed_term_is_killed(run: Run, make_job: MakeJob) -> None:
    summary = run(make_job("hangs_deaf", timeout=0.3), make_job("stops_itself", timeout=0.3))
    assert {result.state for result in summary.results} == {State.TIMED_OUT}


def test_each_end_of_a_process_is_told_apart(run: Run, make_job: MakeJob) -> None:
    no_result, crashed = State.NO_RESULT, State.CRASHED
    ends = {
        "exits:0": (no_result, "exit code 0, but it wrote no result"),
        "exits_hard:0": (no_result, "exit code 0, but it wrote no result"),
        "exits:3": (crashed, "exit code 3; it wrote no result"),
        "exits_hard:9": (crashed, "exit code 9; it wrote no result"),
        "dies_by:SIGABRT": (crashed, "crashed by SIGABRT"),
        "dies_by:SIGKILL": (State.KILLED, "killed from outside by SIGKILL (out of memory?)"),
        "dies_by:SIGINT": (State.KILLED, "killed from outside by SIGINT"),
        "dies_by:40": (State.KILLED, "killed from outside by signal 40"),
        "raises:boom": (crashed, "ValueError: boom"),
        "ends_as:running": (no_result, "exit code 0, but its result claims the state running"),
        "ends_as:nondeterministic": (
            no_result,
            "exit code 0, but its result claims the state nondeterministic",
        ),
        "speaks_for_another:device/emu/0": (
            no_result,
            "exit code 0, but its result file is damaged: it is the result of device/emu/0",
        ),
        "passes:well": (State.PASSED, "well"),
    }
    summary = run(*(make_job(work) for work in ends))
    assert {one.job.kernel: (one.state, one.message) for one in summary.results} == ends
    assert summary.exit_code == 1


def test_segmentation_fault_carries_its_stack(run: Run, make_job: MakeJob) -> None:
    result = only(run(make_job("segfaults")))
    assert (result.state, result.message) == (State.CRASHED, "crashed by SIGSEGV")
    assert "in segfaults" in result.details


def test_a_stack_is_no_part_of_what_the_next_job_of_the_same_keeper_says(run: Run, make_job: MakeJob) -> None:
    summary = run(make_job("segfaults"), make_job("exits:1"), jobs=1)
    first, second = summary.results
    assert "in segfaults" in first.details
    assert second.state is State.CRASHED
    assert second.details == ""


def test_exception_carries_its_traceback(run: Run, make_job: MakeJob) -> None:
    assert "in raises" in only(run(make_job("raises:boom"))).details


def test_too_little_memory_is_said_in_a_line(run: Run, make_job: MakeJob) -> None:
    result = only(run(make_job("lacks_memory:Unable to allocate 12 TiB")))
    assert result.state is State.INFRASTRUCTURE
    assert result.message == (
        "this host's memory is too small for the geometry: Unable to allocate 12 TiB; "
        "run it with --jobs 1 or on a larger host, or choose a smaller geometry"
    )
    assert not result.details


def test_damaged_result_file_is_no_result(run: Run, make_job: MakeJob) -> None:
    contents = ["", "{", '{"job": 1}', "[]", "\x00" * 100]
    summary = run(*(make_job(f"corrupts_result:{content}") for content in contents))
    assert {one.state for one in summary.results} == {State.NO_RESULT}
    assert all("its result file is damaged: " in one.message for one in summary.results)


def test_killed_keeper_does_not_leave_its_job_running(run: Run, make_job: MakeJob, tmp_path: Path) -> None:
    summary = run(make_job(f"kills_keeper:{tmp_path / 'pid'}"), make_job(), jobs=1)
    assert summary.results[0].state is State.INFRASTRUCTURE
    assert summary.results[0].message == "its keeper was killed"
    assert summary.results[1].state is State.PASSED
    assert not alive((tmp_path / "pid").read_text())


def test_killed_nursery_is_replaced(run: Run, make_job: MakeJob, tmp_path: Path) -> None:
    works = ["kills_nursery", f"kills_keeper:{tmp_path / 'pid'}", "passes"]
    summary = run(*(make_job(work) for work in works), jobs=1)
    assert [result.state for result in summary.results] == [State.PASSED, State.INFRASTRUCTURE, State.PASSED]
    assert summary.problems == ()


def test_keeper_that_does_not_answer_is_given_up(
    run: Run, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.run.executor.MARGIN", 0.5)
    result = only(run(make_job("stops_keeper", timeout=2.0)))
    assert result.state is State.TIMED_OUT
    assert "its keeper did not reply" in result.message


# What a process prints


def test_hostile_output_and_text_become_plain_text(run: Run, make_job: MakeJob) -> None:
    result = only(run(make_job("garbage")))
    assert result.state is State.PASSED
    assert result.message == "bad \\udcff text"
    assert result.output == "\x1b[31m\x00\\xff\\xfe]]>\\xed\\xa0\\x80\nsurrogate \\udcff"


def test_flood_of_output_keeps_head_and_tail(run: Run, make_job: MakeJob) -> None:
    output = only(run(make_job("floods:20"))).output
    assert output.startswith("first xxx")
    assert output.endswith("xxx last")
    assert "of 20,000,011 bytes left out" in output
    assert len(output) < 70_000


def test_what_c_code_prints_is_captured(run: Run, make_job: MakeJob) -> None:
    assert only(run(make_job("c_code_prints"))).output == "from C\nand the rest"


# What a process leaves behind


def test_whatever_a_job_leaves_behind_is_killed(run: Run, make_job: MakeJob) -> None:
    works = ["leaves_child", "leaves_setsid", "leaves_daemon", "leaves_deaf_daemon"]
    for result in run(*(make_job(work) for work in works)).results:
        assert result.state is State.PASSED
        assert not alive(result.message)
        assert f"pid {result.message}" in result.facts["swept_processes"]


def test_tree_of_a_hanging_job_is_killed(run: Run, make_job: MakeJob, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    assert only(run(make_job(f"hangs_with_daemon:{pid}", timeout=2.0))).state is State.TIMED_OUT
    assert not alive(pid.read_text())


def test_descriptors_and_threads_of_the_runner_stay_what_they_were(run: Run, make_job: MakeJob) -> None:
    run(make_job())
    before = psutil.Process().num_fds(), threading.active_count()
    run(make_job(), make_job("exits:1"), make_job("hangs", timeout=0.2))
    assert (psutil.Process().num_fds(), threading.active_count()) == before


# Devices and infrastructure errors


def test_device_is_recorded_and_handed_to_the_job(run: Run, make_job: MakeJob, watcher: Any) -> None:
    job = make_job("facts", devices=(3,))
    result = only(run(job))
    assert result.device == 3
    assert result.facts["device"] == "3"
    assert watcher.started == [(job.id, 3, 1)]


def test_a_device_has_one_job_at_a_time(run: Run, make_job: MakeJob, tmp_path: Path) -> None:
    jobs = [make_job(f"holds_device:{tmp_path}", devices=(0, 1)) for _ in range(8)]
    summary = run(*jobs, jobs=4)
    assert {result.state for result in summary.results} == {State.PASSED}
    assert {result.device for result in summary.results} == {0, 1}


def test_what_waits_for_a_build_holds_up_no_job_that_needs_none(
    options: RunOptions, host: Host, make_job: MakeJob, watcher: Any
) -> None:
    """It can begin on one device only, where another job runs; the other device is free for the next job."""

    class Building(LocalExecutor):
        def ready(self, job: Job, names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if job.platform.backend != "cann" or name.endswith("-0"))

    first, last = make_job("sleeps:1", devices=[0]), make_job(devices=[0, 1])
    waits = make_job(platform=replace(last.platform, backend="cann"))
    options, host = replace(options, jobs=3), replace(host, executor=Building)
    summary = run_jobs([first, waits, last], options, [watcher], host)
    assert {one.state for one in summary.results} == {State.PASSED}
    assert [job for job, _, _ in watcher.started] == [first.id, last.id, waits.id]


def test_pools_of_the_options_replace_those_of_the_matrix(run: Run, make_job: MakeJob) -> None:
    assert only(run(make_job("facts", devices=(0, 1, 2)), pools={"emu": (2,)})).device == 2


def test_infrastructure_error_is_retried_on_another_device(run: Run, make_job: MakeJob) -> None:
    summary = run(make_job("claims_sick:0", devices=(0, 1)))
    result = only(summary)
    assert (result.state, result.device, result.attempts) == (State.PASSED, 1, 2)
    assert result.facts["attempt_1"] == "emulated-0: device 0 is wedged"
    assert list(summary.set_aside) == ["emulated-0"]
    assert summary.exit_code == 0


@pytest.mark.parametrize(
    ("whom", "words"),
    [
        ("device", "no golden: the device says: No space left on device"),
        ("host", "runtime error 507018"),
        ("nothing", "runtime error 507018"),
    ],
)
def test_a_device_is_set_aside_by_what_an_error_blames_not_by_its_words(
    run: Run, make_job: MakeJob, whom: str, words: str
) -> None:
    summary = run(*(make_job(f"blames:{whom}:{words}", devices=(0, 1)) for _ in range(2)), jobs=1)
    assert {(result.state, result.device) for result in summary.results} == {(State.PASSED, 1)}
    assert list(summary.set_aside) == (["emulated-0"] if whom == "device" else [])


@pytest.mark.parametrize(
    ("printed", "aside"),
    [("507018", ["emulated-0"]), ("507018, then: No space left on device", []), ("E4 of the lab", [])],
)
def test_a_mark_says_what_it_blames(run: Run, make_job: MakeJob, printed: str, aside: list[str]) -> None:
    marks = (*DEFAULT_MARKS, Mark(Pattern("E4 of the lab"), Blame.HOST))
    jobs = [make_job(f"prints_and_exits:{printed}", devices=(0,)) for _ in range(3)]
    summary = run(*jobs, retries=0, marks=marks)
    assert {result.state for result in summary.results} == {State.INFRASTRUCTURE}
    assert list(summary.set_aside) == aside


def test_retries_end_and_only_infrastructure_errors_exit_6(run: Run, make_job: MakeJob) -> None:
    summary = run(make_job("claims_sick:0,1", devices=(0, 1)), make_job("passes"), retries=2)
    assert summary.results[0].state is State.INFRASTRUCTURE
    assert summary.results[0].attempts == 3
    assert summary.exit_code == 6


def test_jobs_without_a_device_left_end(run: Run, make_job: MakeJob) -> None:
    jobs = [make_job("claims_sick:0", devices=(0,)) for _ in range(3)]
    summary = run(*jobs, jobs=1, retries=1)
    assert {result.state for result in summary.results} == {State.INFRASTRUCTURE}
    assert "no device is left (emulated-0: 3 jobs in a row" in summary.results[2].message


def test_pattern_in_the_output_of_a_crash_is_an_infrastructure_error(run: Run, make_job: MakeJob) -> None:
    result = only(run(make_job("prints_and_exits:aclrtSynchronize failed: 507018"), retries=1))
    assert (result.state, result.attempts) == (State.INFRASTRUCTURE, 2)
    assert "crashed: exit code 1" in result.message


def test_a_pattern_that_other_engines_search_for_all_night_does_not_hold_up_the_run(
    run: Run, make_job: MakeJob
) -> None:
    job = make_job(f"prints_and_exits:{'a' * 60}b 507018")
    marks = tuple(Mark(Pattern(text)) for text in ("(a+)+$", "(a|a)+$", "507018"))
    result = only(run(job, retries=0, marks=marks))
    assert result.state is State.INFRASTRUCTURE
    assert result.message.startswith("infrastructure pattern 507018 (crashed: ")


def test_full_disk_is_the_hosts_fault_and_is_not_retried(run: Run, make_job: MakeJob) -> None:
    full = make_job("prints_and_exits:OSError: [Errno 28] No space left on device: 'y.npy'", devices=(0,))
    summary = run(full, retries=2)
    assert (summary.results[0].state, summary.results[0].attempts) == (State.INFRASTRUCTURE, 1)
    assert (summary.set_aside, summary.exit_code) == ({}, 6)


def test_mismatch_is_never_taken_for_an_infrastructure_error(run: Run, make_job: MakeJob) -> None:
    result = only(run(make_job("prints_and_mismatches:507018")))
    assert (result.state, result.attempts) == (State.MISMATCH, 1)


# Libraries of the jobs


def test_pictures_of_jobs_leave_nothing_outside_the_run(
    make_job: MakeJob, options: RunOptions, host: Host, tmp_path: Path
) -> None:
    """Without a home, matplotlib makes itself a temporary folder, unless it is given one."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    kept = {name: value for name, value in host.environment.items() if not name.startswith(("MPL", "XDG"))}
    homeless = replace(host, environment={**kept, "HOME": "/dev/null/none", "TMPDIR": str(temporary)})
    result = only(run_jobs([make_job("draws")], options, [], homeless))
    assert (result.state, result.output) == (State.PASSED, "")
    assert list(temporary.iterdir()) == []


# Repeats and expectations


def test_repeats_whose_outputs_differ_are_nondeterministic(
    run: Run, make_job: MakeJob, tmp_path: Path
) -> None:
    differ = "of 3 repeats differ from the first, in fused"
    ends = {
        "good good good": (State.PASSED, "good"),
        "bad bad bad": (State.MISMATCH, "bad"),
        "good bad good": (State.NONDETERMINISTIC, f"1 {differ}, fused: y, verdict"),
        "bad worse worse": (State.NONDETERMINISTIC, f"2 {differ}: y"),
        "good crash": (State.CRASHED, "repeat 2: exit code 9; it wrote no result"),
    }
    for outputs in ends:
        (tmp_path / outputs).write_text(outputs)
    summary = run(
        *(make_job(f"hashes:{tmp_path / outputs}") for outputs in ends), settings=Settings(repeat=3)
    )
    assert [(one.state, one.message) for one in summary.results] == list(ends.values())


# Ending early


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_ends_in_good_order(
    run: Run, make_job: MakeJob, watcher: Any, number: signal.Signals
) -> None:
    watcher.on_start = lambda job: os.kill(os.getpid(), number) if job.kernel == "hangs" else None
    jobs = [make_job("passes"), make_job("hangs", devices=(0,)), make_job("hangs"), make_job("passes")]
    summary = run(*jobs, jobs=1)
    assert [result.state for result in summary.results] == [State.PASSED] + [State.INTERRUPTED] * 3
    assert summary.results[1].message == f"interrupted by {number.name}"
    assert summary.exit_code == 2
    assert len(watcher.finished) == 4
    assert read_run(summary.folder.parent, summary.run_id).exit_code is not None
    assert signal.getsignal(number) is not None


def test_deadline_ends_the_whole_run_with_a_report(run: Run, make_job: MakeJob, watcher: Any) -> None:
    summary = run(make_job("hangs"), make_job("hangs_deaf"), make_job("passes"), deadline=1.0)
    assert [result.state for result in summary.results] == [State.INTERRUPTED] * 3
    assert summary.results[2].message == "the run's deadline of 1 s"
    assert summary.exit_code == 2
    assert len(watcher.finished) == 3


def test_interrupted_repeats_do_not_count_as_a_pass(run: Run, make_job: MakeJob, watcher: Any) -> None:
    starts: list[str] = []

    def interrupt(job: Job) -> None:
        starts.append(job.id)
        if len(starts) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    watcher.on_start = interrupt
    assert only(run(make_job("passes"), settings=Settings(repeat=50))).state is State.INTERRUPTED


# Artefacts


def test_artefacts_are_named_relative_to_the_run(run: Run, make_job: MakeJob) -> None:
    summary = run(make_job("writes:10,passed", id="device/emu/a@1"))
    (artefact,) = only(summary).artefacts
    assert artefact == "jobs/device+emu+a@1/1/trace.bin"
    assert (summary.folder / artefact).stat().st_size == 10


def test_artefacts_over_the_cap_go_failures_last(run: Run, make_job: MakeJob) -> None:
    jobs = [
        make_job("writes:400,passed"),
        make_job("writes:400,mismatch"),
        make_job("writes:400,mismatch"),
        make_job("writes:400,mismatch"),
    ]
    summary = run(*jobs, jobs=1, artefact_bytes=1000)
    kept = [bool(result.artefacts) for result in summary.results]
    assert kept == [False, True, True, False]
    assert summary.dropped == (jobs[0].id, jobs[3].id)
    assert "over the run's limit of 1,000 bytes" in summary.results[0].facts["artefacts"]
    recorded = read_run(summary.folder.parent, summary.run_id).all_results()
    assert [bool(result.artefacts) for result in recorded] == kept
    assert sum(file.stat().st_size for file in (summary.folder / "jobs").rglob("*.bin")) == 800
