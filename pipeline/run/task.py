"""Jobs on shared cards: a job's work is done in a task of `task-submit`, which lends it a card.

The job's process submits the task, waits for it, and reads its result. What runs in the task is `in_task`.
The scheduler may run the task outside our process tree, anywhere on this host. So the task carries the job's
mark, by which it is found and ended when its job ends first.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from pipeline.engines.base import InfrastructureError
from pipeline.ground.jobs import State
from pipeline.ground.results import QUEUED, Result
from pipeline.run import processes
from pipeline.run.devices import DeviceError
from pipeline.run.messages import Order, encode, plain_text, read_result, write_atomically

PROGRAM = "task-submit"
LOG = "task-submit.log"

BEGUN = "task-begun.json"
"""The file in the job's folder by which a task says that its work begins."""

_ORDER, _RESULT = "task.json", "task-result.json"
_PATIENCE = 2.0
_LOG_SHOWN = 64 * 1024


class Begun(msgspec.Struct, frozen=True):
    """What a task writes when its work begins: its card, and the time (seconds since the epoch)."""

    device: int
    at: float


def require() -> None:
    """Raise `DeviceError` if this host has no `task-submit`."""
    if shutil.which(PROGRAM) is None:
        raise DeviceError(f"--launcher {PROGRAM}: {PROGRAM} is not on PATH; use --launcher local")


def work_in_task(order: Order, queue: float) -> Result:
    """In a job's process: do its work in a task, after waiting up to `queue` seconds for a card.

    The result's facts give the time in the queue and the time of the run; the scheduler's log is attached.

    Raises:
        InfrastructureError: the scheduler gave no card.
    """
    folder = Path(order.folder)
    inner = msgspec.structs.replace(order, queue=None, result=str(folder / _RESULT))
    write_atomically(folder / _ORDER, encode(inner))
    submitted = time.time()
    code, swept = _submit(order, queue, folder)
    ended = time.time()
    said = plain_text((folder / LOG).read_bytes())
    sys.stdout.write(said[-_LOG_SHOWN:])
    try:
        begun = msgspec.json.decode((folder / BEGUN).read_bytes(), type=Begun)
    except FileNotFoundError:
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "it printed nothing")
        raise InfrastructureError(
            f"{PROGRAM} ended with exit code {code} before the work began"
            f" ({ended - submitted:.0f} s, at most {queue:g} s in the queue): {last}"
        ) from None
    result = _result(order, code, ended - begun.at)
    facts = {**result.facts, QUEUED: f"{begun.at - submitted:.1f}", "run_s": f"{ended - begun.at:.1f}"}
    if swept:
        facts["swept_processes"] = "; ".join(swept)
    return replace(result, device=begun.device, facts=facts, artefacts=(*result.artefacts, LOG))


def _submit(order: Order, queue: float, folder: Path) -> tuple[int, list[str]]:
    """Submit the task and wait for it. Returns its exit code and the leftover processes that were killed."""
    inside = [
        "env",
        f"{processes.MARK}={os.environ[processes.MARK]}",
        f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}",
        sys.executable,
        *("-m", "pipeline.run.in_task", str(folder / _ORDER)),
    ]
    command = [
        *(PROGRAM, "--device", "auto"),
        *("--timeout", str(math.ceil(queue))),
        *("--max-time", str(math.ceil(order.job.timeout))),
        *("--run", shlex.join(inside)),
    ]
    with (folder / LOG).open("wb") as log:
        try:
            client = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        except OSError as error:
            raise InfrastructureError(f"{PROGRAM}: {error.strerror}") from error
    signal.signal(signal.SIGTERM, _leave)
    try:
        code = client.wait()
    finally:
        client.terminate()  # this and `kill` do nothing if it has ended
        with suppress(subprocess.TimeoutExpired):
            client.wait(_PATIENCE)
        client.kill()
        swept, _ = processes.kill_marked(order.marker, _PATIENCE)
    return code, swept


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Exit through the clean-up above: the keeper is ending the job, and allows a grace for that."""
    sys.exit(128 + number)


def _result(order: Order, code: int, seconds: float) -> Result:
    """The result that the task wrote; if there is none, one that says how it ended after `seconds`."""
    try:
        return read_result(Path(order.folder) / _RESULT, order.job)
    except FileNotFoundError:
        if seconds >= order.job.timeout - 1:
            return Result(order.job, State.TIMED_OUT, f"did not end within {order.job.timeout:g} s in a task")
        return Result(order.job, State.CRASHED, f"its task ended with exit code {code} and no result")
