"""All troubles at once: jobs that hang, crash, exit early, let children escape, corrupt their results, or
provoke device errors, on devices of which four are sick in different ways and one is held by others for a
while, in a run whose runner is killed and resumed, again and again. It shows who was blamed for each trouble.

`CHAOS_JOBS` sets how many jobs there are (default 40; the session `chaos` takes 300).
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import junitparser
import psutil
import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES, Outcome
from pipeline.run import processes
from pipeline.run.devices import DevicePool
from pipeline.run.folders import read_run

HERE = Path(__file__).parent
KILLS = 4
HELD, HELD_SECONDS = 5, 4.0
"""The device that another run holds when the last runner starts, and for how long."""


@contextmanager
def runner(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A runner at work, and its run's id."""
    command = [sys.executable, str(HERE / "runner.py"), str(folder), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[2]), str(HERE)])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


def kill(process: subprocess.Popen[str], *, keepers_too: bool) -> None:
    """Kill a runner without a warning, maybe with all that keeps its jobs."""
    victims = [psutil.Process(process.pid)]
    if keepers_too:
        nursery = victims[0].children()
        victims += nursery + [keeper for one in nursery for keeper in one.children()]
    processes.send(victims, signal.SIGSTOP)
    processes.send(victims, signal.SIGKILL)


def alive_in(folder: Path) -> list[psutil.Process]:
    """Living processes that work in `folder`, as all jobs of a run do, however they came to be."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(folder):
                found.append(process)
    return found


@pytest.mark.thorough
@pytest.mark.usefixtures("torch_installed")
def test_run_in_all_troubles_at_once_ends_with_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    import troubles

    count = int(os.environ.get("CHAOS_JOBS", "40"))
    draw = random.Random(count)
    resumed: list[str] = []
    ended_before = 0
    for number in range(KILLS):
        with runner(tmp_path, str(count), *resumed) as (process, run_id):
            assert process.stdout is not None
            fresh = draw.randrange(1, max(2, count // (KILLS + 1)))
            for _ in range(ended_before + fresh):
                process.stdout.readline()
            kill(process, keepers_too=bool(number % 2))
        resumed = [run_id]
        ended_before = len(read_run(tmp_path / "runs", run_id).finished)
    pool = DevicePool(tmp_path / "locks")
    assert pool.acquire(troubles.EMULATED, [HELD]) is not None
    threading.Timer(HELD_SECONDS, pool.close).start()
    with runner(tmp_path, str(count), *resumed) as (process, run_id):
        assert process.stdout is not None
        said = process.stdout.read().splitlines()

    assert process.returncode == 1
    assert not [line for line in said if line.startswith("problem")]
    assert sorted(line for line in said if line.startswith("device/")) == sorted(
        job.id for job in troubles.plan(count)
    )
    record = read_run(tmp_path / "runs", run_id)
    assert record.exit_code is not None
    results = record.all_results()
    assert [result.job for result in results] == troubles.plan(count)
    for result in results:
        right = troubles.TROUBLES[troubles.trouble_of(result.job)][1]
        if result.state is State.DEVICE_DEPENDENT:
            # What the sick device computed is shown, and is never turned into a pass.
            assert (right, result.device) == (State.PASSED, troubles.WRONG_DEVICE), result.message
            assert result.message.startswith(f"wrong on device {troubles.WRONG_DEVICE}, right on device ")
            continue
        assert result.state is right, f"{result.job.id}: {result.message}"
        if result.state is State.PASSED:
            assert result.device in set(troubles.DEVICES) - set(troubles.SICK)
            assert all(diff.clean for stage in result.stages for diff in stage.diffs)
            assert result.stages

    report = junitparser.JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    outcomes = Counter(OUTCOMES[result.state].outcome for result in results)
    assert (report.tests, report.failures, report.errors, sum(suite.skipped for suite in report)) == (
        count,
        outcomes[Outcome.FAILURE],
        outcomes[Outcome.ERROR],
        0,
    )

    assert processes.wait_until(lambda: alive_in(tmp_path) == [], 60.0)
    pool = DevicePool(tmp_path / "locks")
    held = [pool.acquire(troubles.EMULATED, [device]) for device in troubles.DEVICES]
    assert None not in held
    pool.close()

    # In none of the runs was a healthy device set aside. At the end all sick ones are named of which the last
    # run saw more than what its jobs do anywhere.
    sick = {f"emulated-{device}" for device in troubles.SICK}
    journal = (tmp_path / "runs" / run_id / "journal.jsonl").read_text()
    last = [json.loads(line) for line in journal.rpartition('{"type":"Resumed"')[2].splitlines()[1:]]
    ended = {event["result"]["job"]["id"] for event in last if event["type"] == "Finished"}
    seen = {
        one.device
        for result in results
        for one in result.tries
        if result.job.id in ended and one.state is not troubles.TROUBLES[troubles.trouble_of(result.job)][1]
    }
    named = {line.removeprefix("set aside ") for line in said if line.startswith("set aside")}
    assert seen & sick
    assert seen & sick <= named <= sick
    assert named <= set(re.findall(r"device (emulated-\d) is set aside", journal)) <= sick
    properties = {each.name: each.value for suite in report for each in suite.properties()}
    summary = (tmp_path / "summary.md").read_text()
    for name in named:
        (reason,) = {
            line.partition(": ")[2] for line in said if line.startswith(f"remark device {name} is set")
        }
        assert properties[f"set-aside {name}"] == reason
        assert f"**Device `{name}` was set aside:** `{reason}`" in summary
    swept = sum("swept_processes" in result.facts for result in results)
    retried = sum(result.attempts > 1 for result in results)
    states = ", ".join(
        f"{number} {state}" for state, number in sorted(Counter(one.state.value for one in results).items())
    )
    blamed: dict[str, Counter[str]] = {}
    for result in results:
        blamed.setdefault(troubles.trouble_of(result.job), Counter())[result.state.value] += 1
    with capsys.disabled():
        sys.stdout.write(
            f"\nchaos: {count} jobs, runner killed {KILLS} times: {states};"
            f" {retried} tried on another device, {swept} swept of what they left\n"
        )
        for trouble, ends in blamed.items():
            told = ", ".join(f"{number} {state}" for state, number in ends.items())
            sys.stdout.write(f"  a job with the trouble {trouble}: {told}\n")
        for device, (trouble, _) in troubles.SICK.items():
            reasons = re.findall(f"device (emulated-{device} is set aside: .*)", "\n".join(said))
            reason = "; ".join(reasons) or "was used in the last run for nothing that shows it"
            sys.stdout.write(f"  a device that {trouble}: {reason}\n")
