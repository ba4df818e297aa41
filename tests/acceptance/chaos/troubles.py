"""Emulator jobs and devices in trouble, for the chaos test: what befalls each, and how it must end."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from golden.geometry import Conv, Geometry
from golden.specs import Array
from pipeline.engines.base import Done, InfrastructureError, Request
from pipeline.engines.emulator import EmulatorEngine
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import Blame, JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.work.stages import execute

DEVICES = (1, 2, 3, 4, 0, 5, 6)
"""The sick devices come first, so that they are tried as long as nothing is known."""

WRONG_DEVICE = 4

EMULATED = Platform("emu-a2a3", "emulator", "a2a3", devices=DEVICES)
_TINY = msgspec.to_builtins(Geometry(16, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)))
_KERNELS = ("first-tile-load", "fused", "first-tile-packed")


def _no_trouble() -> None:
    """A job without trouble."""


def _hang() -> None:
    time.sleep(600)


def _hang_deaf() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def _crash() -> None:
    ctypes.string_at(0)


def _exit_early() -> None:
    os._exit(0)


def _provoke() -> None:
    raise InfrastructureError("runtime error 507018", Blame.DEVICE)


def _be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _flood() -> None:
    for _ in range(100):
        os.write(1, b"\x00\x1b]]>\xff" * 20_000)


def _let_a_child_escape() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"])
        os._exit(0)


def _corrupt_the_result() -> None:
    number = os.environ["PIPELINE_JOB"].rstrip("_").rstrip("/").rpartition("/")[2]
    Path(f"../../../results/{number}.json").write_bytes(b'{"job": {"id"')
    os._exit(0)


TROUBLES: Mapping[str, tuple[Callable[[], None], State]] = {
    "none": (_no_trouble, State.PASSED),
    "hang": (_hang, State.TIMED_OUT),
    "hang-deaf": (_hang_deaf, State.TIMED_OUT),
    "crash": (_crash, State.CRASHED),
    "exit-early": (_exit_early, State.NO_RESULT),
    "be-killed": (_be_killed, State.KILLED),
    "flood": (_flood, State.PASSED),
    "escape": (_let_a_child_escape, State.PASSED),
    "corrupt": (_corrupt_the_result, State.NO_RESULT),
    "wrong": (_no_trouble, State.MISMATCH),
    "provoke": (_provoke, State.PROVOKED),
}
"""What happens before the work, and the end that must come of it."""


def _crash_like_no_other() -> None:
    raise RuntimeError("the ring does not answer")


def _compute_wrongly() -> None:
    """Add 1 to one element of each output from now on."""
    run = EmulatorEngine.run

    def wrong(engine: EmulatorEngine, request: Request, inputs: Mapping[str, Array]) -> Done:
        done = run(engine, request, inputs)
        outputs = {name: values.copy() for name, values in done.outputs.items()}
        for values in outputs.values():
            values.flat[0] += 1
        return replace(done, outputs=outputs)

    EmulatorEngine.run = wrong  # type: ignore[method-assign]


SICK: Mapping[int, tuple[str, Callable[[], None]]] = {
    1: ("raises 507018", _provoke),
    2: ("raises an unlisted text", _crash_like_no_other),
    3: ("hangs", _hang),
    WRONG_DEVICE: ("computes wrongly", _compute_wrongly),
}
"""What the sick devices do whenever they are used."""

_WRONG = "bias-missing-1"
_QUIET_SHARE = 2


def plan(count: int) -> list[Job]:
    """So many jobs; one in two has a trouble, each trouble in turn."""
    troubles = list(TROUBLES)
    jobs = []
    for number in range(count):
        name = troubles[number // _QUIET_SHARE % len(troubles)] if number % _QUIET_SHARE else "none"
        kernel = "fused" if name == "wrong" else _KERNELS[number % len(_KERNELS)]
        jobs.append(
            Job(
                id=f"device/emu-a2a3/tiny/{kernel}/{number}-{name}",
                lane=Lane.DEVICE,
                platform=EMULATED,
                workload=WorkloadName("conv-pair"),
                geometry_name="tiny",
                geometry=_TINY,
                kernel=kernel,
                profile="small",
                written_profile=f"{number}-{name}",
                timeout=2.0 if name.startswith("hang") else 10.0,
            )
        )
    return jobs


def trouble_of(job: Job) -> str:
    """The trouble of a job of `plan`."""
    return job.id.rpartition("/")[2].partition("-")[2]


def perform(job: Job, context: JobContext) -> Result:
    """Have the device's trouble, then the job's, then do its work."""
    if context.device in SICK:
        SICK[context.device][1]()
    name = trouble_of(job)
    TROUBLES[name][0]()
    return execute(job, replace(context, settings=Settings(inject=_WRONG if name == "wrong" else "")))
