"""What is left of a run whose runner was killed, and of two runs on the same host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pipeline.ground.jobs import Platform, State
from pipeline.run import processes
from pipeline.run.devices import DevicePool
from pipeline.run.folders import read_run
from tests.pipeline.run.conftest import alive

HERE = Path(__file__).parent
EMULATED = Platform("emu", "emulator", "a2a3", devices=(0,))

StartRunner = Callable[..., "Runner"]


class Runner:
    """A process of runner.py."""

    def __init__(self, folder: Path, *works: str) -> None:
        self.root = folder / "runs"
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "runner.py"), str(self.root), str(folder / "locks"), *works],
            env={**os.environ, "PYTHONPATH": str(HERE.parents[2])},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.run_id = self.wait_for("run ").split()[1]

    def wait_for(self, beginning: str) -> str:
        """Read lines until one begins so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line
        pytest.fail(f"the runner ended without saying {beginning!r}")

    def kill(self, *, keepers_too: bool = False) -> None:
        victims = [psutil.Process(self.process.pid)]
        if keepers_too:
            victims += victims[0].children(recursive=True)
            processes.send(victims, signal.SIGSTOP)
        processes.send(victims, signal.SIGKILL)
        self.process.wait()

    def rest(self) -> list[str]:
        """All it still says until its end."""
        assert self.process.stdout is not None
        with self.process.stdout:
            lines = self.process.stdout.read().splitlines()
        self.process.wait()
        return lines


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[StartRunner]:
    started: list[Runner] = []

    def start(*works: str) -> Runner:
        started.append(Runner(tmp_path, *works))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        if one.process.stdout is not None:
            one.process.stdout.close()
        assert processes.wait_until(lambda one=one: not processes.marked(f"/{one.run_id}/"), 60.0)  # type: ignore[misc]


def wait_for_file(path: Path) -> str:
    assert processes.wait_until(lambda: path.exists() and path.read_text() != "", 60.0)
    return path.read_text()


def test_killed_runner_leaves_nothing_alive_and_loses_only_what_ran(
    runner: StartRunner, tmp_path: Path
) -> None:
    killed = runner("passes", f"hangs_with_daemon:{tmp_path / 'pid'}@0", "ends_as:mismatch", "passes")
    for _ in range(3):
        killed.wait_for("finished ")
    wait_for_file(tmp_path / "pid")
    killed.kill()
    assert processes.wait_until(lambda: not processes.marked(f"/{killed.run_id}/"), 60.0)
    pool = DevicePool(tmp_path / "locks")
    assert pool.acquire(EMULATED, [0]) is not None
    pool.close()
    states = [result.state for result in read_run(killed.root, killed.run_id).all_results()]
    assert states == [State.PASSED, State.INTERRUPTED, State.MISMATCH, State.PASSED]


def test_killed_run_is_resumed_with_the_rest_only(runner: StartRunner, tmp_path: Path) -> None:
    killed = runner("ends_as:mismatch", f"hangs_once:{tmp_path / 'flag'}", "passes:late")
    killed.wait_for("finished passes:late")
    wait_for_file(tmp_path / "flag")
    killed.kill()
    with (killed.root / killed.run_id / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"type":"Finished","result":{"job"')
    lines = runner("--resume", killed.run_id).rest()
    assert [line for line in lines if line.startswith("started")] == [
        f"started hangs_once:{tmp_path / 'flag'} None"
    ]
    assert sorted(line.split()[2] for line in lines if line.startswith("finished")) == [
        "mismatch",
        "passed",
        "passed",
    ]
    assert lines[-1] == "end 1"
    record = read_run(killed.root, killed.run_id)
    assert record.exit_code is not None
    assert [result.state for result in record.all_results()] == [State.MISMATCH, State.PASSED, State.PASSED]


def test_device_of_a_killed_run_is_swept_before_the_next_job_gets_it(
    runner: StartRunner, tmp_path: Path
) -> None:
    killed = runner(f"hangs_with_daemon:{tmp_path / 'pid'}@0")
    daemon = psutil.Process(int(wait_for_file(tmp_path / "pid")))
    killed.kill(keepers_too=True)
    assert daemon.is_running()
    lines = runner("passes@0").rest()
    assert "finished passes passed" in lines
    assert not alive(daemon.pid)


def test_two_runs_share_the_devices_of_the_host(runner: StartRunner, tmp_path: Path) -> None:
    (tmp_path / "proof").mkdir()
    works = [f"holds_device:{tmp_path / 'proof'}@0,1"] * 12
    runs = [runner(*works), runner(*works)]
    for one in runs:
        lines = one.rest()
        assert [line.split()[2] for line in lines if line.startswith("finished")] == ["passed"] * 12
        assert lines[-1] == "end 0"


def test_run_waits_for_a_device_that_another_run_holds(runner: StartRunner, tmp_path: Path) -> None:
    pool = DevicePool(tmp_path / "locks")
    device = pool.acquire(EMULATED, [0])
    assert device is not None
    waiting = runner("passes@0")
    time.sleep(0.3)
    assert read_run(waiting.root, waiting.run_id).results == {}
    pool.release(device)
    assert waiting.rest()[-1] == "end 0"
