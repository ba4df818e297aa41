"""Jobs on cards through a scheduler that stands in for `task-submit`: a client, and a server beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.ground.jobs import Job, Platform, PlatformKind, State
from pipeline.ground.results import Result
from pipeline.run.devices import DeviceError
from pipeline.run.listener import RunSummary
from pipeline.run.task import require

CARDS = Platform("a2a3", "pypto", "a2a3", devices=(0, 5), kind=PlatformKind.CARD)

# Hands its --run over to the server, which runs it outside our process tree, and waits for the exit code.
CLIENT = """\
#!{python}
import os, sys, time
from pathlib import Path
spool = Path({spool!r})
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
(spool / "options").write_text(repr(options))
name = str(os.getpid())
(spool / (name + ".tmp")).write_text(options["--run"])
(spool / (name + ".tmp")).rename(spool / (name + ".task"))
print("queued as", name, flush=True)
left = float(options["--timeout"])
while not (spool / (name + ".code")).exists():
    time.sleep(0.02)
    left -= 0.02
    if left < 0 and (spool / (name + ".task")).exists():
        (spool / (name + ".task")).unlink()
        sys.exit("no device became free")
sys.exit(int((spool / (name + ".code")).read_text()))
"""

SERVER = """\
import os, subprocess, sys, time
from pathlib import Path
spool, device = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
while float(sys.argv[3]) and not list(spool.glob("*.task")):
    time.sleep(0.02)
time.sleep(float(sys.argv[3]))
running = {}
while True:
    for task in spool.glob("*.task"):
        taken = task.rename(task.with_suffix(".taken"))
        environment = {"PATH": os.environ["PATH"], "TASK_DEVICE": device}
        running[task] = subprocess.Popen(["sh", "-c", taken.read_text()], env=environment)
    for task, process in list(running.items()):
        if process.poll() is not None:
            task.with_suffix(".tmp").write_text(str(process.returncode))
            task.with_suffix(".tmp").rename(task.with_suffix(".code"))
            del running[task]
    time.sleep(0.02)
"""


Serve = Callable[..., None]


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where client and server meet; the client is on PATH."""
    spool, executables = tmp_path / "spool", tmp_path / "bin"
    spool.mkdir()
    executables.mkdir()
    client = executables / "task-submit"
    client.write_text(CLIENT.format(python=sys.executable, spool=str(spool)))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{executables}:/usr/bin:/bin")
    return spool


@pytest.fixture
def serve(spool: Path, run: Callable[..., RunSummary]) -> Iterator[Serve]:
    """`serve(device, after)`: a server that lends `device`, so many seconds after the first task came."""
    servers: list[subprocess.Popen[bytes]] = []

    def start(device: str, after: float = 0.0) -> None:
        command = [sys.executable, "-c", SERVER, str(spool), device, str(after)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        servers.append(server)
        assert server.stdout is not None
        with server.stdout:
            assert server.stdout.readline() == b"ready\n"

    yield start
    for server in servers:  # before `run` looks for what is left
        assert server.poll() is None
        server.kill()
        server.wait()


Submit = Callable[..., Result]


@pytest.fixture
def submit(spool: Path, run: Callable[..., RunSummary], make_job: Callable[..., Job]) -> Submit:
    """`submit(work, queue=..., timeout=...)`: the result of one job on cards, through the scheduler."""

    def one(work: str, *, queue: float = 30.0, timeout: float = 60.0) -> Result:
        job = make_job(work, platform=CARDS, timeout=timeout)
        (result,) = run(job, queue=queue, retries=0, grace=2.0).results
        return result

    return one


def test_a_job_runs_on_the_card_it_is_lent(serve: Serve, submit: Submit, spool: Path) -> None:
    serve("5")
    result = submit("tells_device")
    assert (result.state, result.message, result.device) == (State.PASSED, "device 5", 5)
    assert float(result.facts["queue_s"]) >= 0
    assert float(result.facts["run_s"]) >= 0
    assert [Path(artefact).name for artefact in result.artefacts] == ["task-submit.log"]
    assert "queued as" in result.output
    options = (spool / "options").read_text()
    assert "'--device': 'auto', '--timeout': '30', '--max-time': '60', '--run': " in options


def test_the_wait_for_a_card_is_no_part_of_the_jobs_time(serve: Serve, submit: Submit) -> None:
    serve("0", after=8.0)
    result = submit("passes", timeout=7.5)
    assert result.state is State.PASSED
    assert float(result.facts["queue_s"]) > 7.5


def test_no_card_in_time_is_no_fault_of_the_kernel(submit: Submit) -> None:
    result = submit("passes", queue=0.3)
    assert result.state is State.INFRASTRUCTURE
    assert "task-submit ended with exit code 1 before the work began" in result.message
    assert result.message.endswith("at most 0.3 s in the queue): no device became free")


@pytest.mark.parametrize("device", ["7", "", "auto"])
def test_a_card_that_the_platform_does_not_have_is_not_used(
    serve: Serve, submit: Submit, device: str
) -> None:
    serve(device)
    result = submit("tells_device")
    assert result.state is State.INFRASTRUCTURE
    assert "exit code 4 before the work began" in result.message


def test_a_task_that_outlives_its_job_is_ended(serve: Serve, submit: Submit) -> None:
    """The client ends without telling the server: `run` sees that nothing with the mark is alive."""
    serve("0")
    assert submit("hangs_deaf", timeout=3.0, queue=3.0).state is State.TIMED_OUT


@pytest.mark.parametrize(
    ("work", "state", "message"),
    [
        ("ends_as:mismatch", State.MISMATCH, "ends as mismatch"),
        ("claims_sick:0", State.INFRASTRUCTURE, "device 0 is wedged"),
        ("exits_hard:3", State.CRASHED, "its task ended with exit code 3 and no result"),
    ],
)
def test_what_the_work_ends_with_comes_back(
    serve: Serve, submit: Submit, work: str, state: State, message: str
) -> None:
    serve("0")
    result = submit(work)
    assert (result.state, result.device) == (state, 0)
    assert message in result.message


def test_a_job_that_needs_no_card_is_no_task(
    spool: Path, run: Callable[..., RunSummary], make_job: Callable[..., Job]
) -> None:
    (result,) = run(make_job("passes"), queue=0.1).results
    assert result.state is State.PASSED
    assert list(spool.iterdir()) == []


def test_a_host_without_the_program_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="--launcher task-submit: task-submit is not on PATH"):
        require()
