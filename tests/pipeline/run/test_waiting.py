"""What a run says of devices that other processes hold; clocks and processes are the test's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest

from pipeline.ground.jobs import Job, State
from pipeline.run.devices import DevicePool
from pipeline.run.listener import RunSummary
from pipeline.run.waiting import LockWaits, holder_of

BEGUN = datetime(2026, 12, 1, 9, 12, 31, tzinfo=timezone.utc)
LOCKS = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); "
HOLDS = f"{LOCKS} print('held', flush=True); time.sleep(600)"
HANDS_ON = f"{LOCKS} import os; os.fork() and os._exit(0); print(os.getpid(), flush=True); time.sleep(600)"


@dataclass
class Waiting:
    """A run's waits, with a clock that the test moves and holders that it names."""

    seconds: float = 0.0
    holders: dict[str, str] = field(default_factory=lambda: {"npu-0": "A", "npu-1": "A", "npu-2": "B"})

    def __post_init__(self) -> None:
        self.waits = LockWaits(
            self.holders.__getitem__, lambda: BEGUN + timedelta(seconds=self.seconds), lambda: self.seconds
        )

    def after(self, seconds: float, *names: str) -> str:
        self.seconds = seconds
        return self.waits.observe(names)


def test_a_wait_is_said_after_a_second_and_once_a_minute() -> None:
    run = Waiting()
    said = "waiting for device npu-0, npu-1 since 09:12:31 UTC: held by A"
    answers = {at: run.after(at, "npu-0", "npu-1") for at in (0, 0.8, 1.0, 1.2, 60.8, 61.0, 61.2, 121.0)}
    assert {at for at, answer in answers.items() if answer} == {1.0, 61.0, 121.0}
    assert {answer for answer in answers.values() if answer} == {said}


def test_holders_are_told_apart() -> None:
    run = Waiting()
    run.after(0, "npu-0", "npu-2")
    assert run.after(1, "npu-0", "npu-2") == (
        "waiting for device npu-0, npu-2 since 09:12:31 UTC: npu-0 held by A; npu-2 held by B"
    )


def test_a_device_that_is_held_later_is_said_after_its_own_second() -> None:
    run = Waiting()
    run.after(0, "npu-0")
    assert run.after(1, "npu-0", "npu-2") == "waiting for device npu-0 since 09:12:31 UTC: held by A"
    assert run.after(1.8, "npu-0", "npu-2") == ""
    assert "npu-0, npu-2 since 09:12:31" in run.after(2, "npu-0", "npu-2")


def test_a_wait_that_ended_is_forgotten() -> None:
    run = Waiting()
    run.after(0, "npu-0")
    assert run.after(1, "npu-0")
    assert run.after(2) == ""
    assert run.waits.reason(["npu-0"]) == ""
    assert run.after(10, "npu-0") == ""
    assert run.after(11, "npu-0") == "waiting for device npu-0 since 09:12:41 UTC: held by A"


def test_a_reason_names_only_devices_that_are_waited_for() -> None:
    run = Waiting()
    run.after(0, "npu-0", "npu-2")
    assert run.waits.reason(["npu-2", "npu-5"]) == "waiting for device npu-2 since 09:12:31 UTC: held by B"
    assert run.waits.reason([]) == ""


@pytest.fixture
def other() -> Iterator[Callable[..., tuple[int, str]]]:
    """Run code in another process that prints one line once it holds the lock; gives its id and that line."""
    started: list[subprocess.Popen[str]] = []
    handed_on: list[int] = []

    def call(code: str, path: Path) -> tuple[int, str]:
        path.touch()
        process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout
        with process.stdout as printed:
            line = printed.readline().strip()
        if line.isdecimal():  # it has handed the lock on and ends
            handed_on.append(int(line))
            process.wait()
        return process.pid, line

    yield call
    for pid in handed_on:
        os.kill(pid, signal.SIGKILL)
    for process in started:
        process.kill()
        process.wait()


def test_a_holder_is_named_with_its_user_and_its_command(
    other: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    pid, _ = other(HOLDS, tmp_path / "lock")
    command = " ".join([sys.executable, "-c", *HOLDS.split()])
    assert holder_of(tmp_path / "lock") == f"process {pid} of user {getuser()} ({command[:80]}...)"


def test_a_holder_that_only_has_the_lock_open_is_found(
    other: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """The process that took the lock has ended; a child of its has it now, as with `flock 9` in a shell."""
    ended, child = other(HANDS_ON, tmp_path / "lock")
    assert holder_of(tmp_path / "lock").startswith(f"process {child} of user {getuser()} (")
    assert str(ended) != child


@pytest.mark.parametrize("name", ["lock", "nowhere"])
def test_a_holder_that_cannot_be_found_is_not_invented(tmp_path: Path, name: str) -> None:
    (tmp_path / "lock").touch()
    said = "a process that cannot be seen from here (of another user, container or host)"
    assert holder_of(tmp_path / name) == said


# The run

Run = Callable[..., RunSummary]
MakeJob = Callable[..., Job]


def test_a_run_says_what_it_waits_for_and_goes_on_when_it_is_free(
    run: Run, make_job: MakeJob, watcher: Any, other: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "locks").mkdir()
    pid, _ = other(HOLDS, tmp_path / "locks" / "emulated-0.lock")
    watcher.on_remark = lambda _text: os.kill(pid, signal.SIGKILL)
    summary = run(make_job(devices=[0]), make_job(devices=[0]), make_job())
    assert [result.state for result in summary.results] == [State.PASSED] * 3
    (remark,) = watcher.remarks
    assert remark.startswith("waiting for device emulated-0 since ")
    assert f" UTC: held by process {pid} of user {getuser()} (" in remark
    journal = (summary.folder / "journal.jsonl").read_text()
    assert journal.count('"type":"Remark"') == 1


@pytest.mark.parametrize("end", ["deadline", "interrupt"])
def test_jobs_that_wait_when_the_run_ends_say_for_what(
    run: Run,
    make_job: MakeJob,
    watcher: Any,
    other: Callable[..., tuple[int, str]],
    tmp_path: Path,
    end: str,
) -> None:
    (tmp_path / "locks").mkdir()
    pid, _ = other(HOLDS, tmp_path / "locks" / "emulated-1.lock")
    if end == "interrupt":
        watcher.on_remark = lambda _text: os.kill(os.getpid(), signal.SIGINT)
    summary = run(make_job(devices=[1]), deadline=5.0 if end == "deadline" else None)
    (result,) = summary.results
    assert result.state is State.INTERRUPTED
    reason = "the run's deadline of 5 s" if end == "deadline" else "interrupted by SIGINT"
    assert result.message.startswith(f"{reason}; waiting for device emulated-1 since ")
    assert f"held by process {pid} of user" in result.message
    assert summary.exit_code == 2


def test_a_run_that_waits_for_its_own_jobs_says_nothing(run: Run, make_job: MakeJob, watcher: Any) -> None:
    """Two workers and one device: the second job waits for the first one of the same run."""
    summary = run(make_job("sleeps:1.5", devices=[0]), make_job(devices=[0]))
    assert summary.exit_code == 0
    assert watcher.remarks == []


def test_what_another_holds_is_told_from_what_this_run_holds(tmp_path: Path, make_job: MakeJob) -> None:
    pool, other_pool = DevicePool(tmp_path), DevicePool(tmp_path)
    platform = make_job(devices=[0, 1]).platform
    mine, theirs = pool.acquire(platform, [0]), other_pool.acquire(platform, [1])
    assert mine is not None
    assert theirs is not None
    assert pool.acquire(platform, [0, 1]) is None
    assert pool.held_elsewhere(["emulated-0", "emulated-1"]) == ("emulated-1",)
    pool.close()
    other_pool.close()
