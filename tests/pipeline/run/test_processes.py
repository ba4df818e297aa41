from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pipeline.run import processes
from tests.pipeline.run.conftest import alive

ROOT = Path(__file__).parents[3]

# Marks itself, then becomes: the same process, a fork of it without exec, or a program that it starts.
MARKED = """
import os, subprocess, sys, time
from pipeline.run import processes
processes.set_mark(sys.argv[1])
kind = sys.argv[2]
if kind == "fork" and os.fork():
    os._exit(0)
if kind == "exec":
    program = "print('ready', flush=True); import time; time.sleep(600)"
    os.execv(sys.executable, [sys.executable, "-c", program])
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def marked_process(request: pytest.FixtureRequest) -> Iterator[str]:
    """A process of the kind asked for; gives the fragment of its mark."""
    fragment = f"/test-{os.getpid()}-{request.param}/"
    environment = {**os.environ, processes.MARK: processes.BLANK_MARK}
    process = subprocess.Popen(
        [sys.executable, "-c", MARKED, fragment, request.param],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield fragment
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("marked_process", ["same", "fork", "exec"], indirect=True)
def test_marked_process_is_found_and_killed_however_it_came_to_be(marked_process: str) -> None:
    (found,) = processes.marked(marked_process)
    swept, left = processes.kill_marked(marked_process, 60.0)
    assert f"pid {found.pid} " in swept[0]
    assert left == []
    assert processes.marked(marked_process) == []
    assert not alive(found.pid)


def test_mark_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="mark of 129 characters: at most 128"):
        processes.set_mark("x" * 129)


def test_process_that_was_not_started_for_it_cannot_be_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(processes.MARK, "kept for restoring")
    with pytest.raises(RuntimeError, match="started without PIPELINE_JOB="):
        processes.set_mark("x")


def test_gone_process_is_neither_signalled_nor_an_error() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    process = psutil.Process(child.pid)
    child.wait()
    processes.send([process], signal.SIGKILL)
    assert processes.describe(process) == f"pid {child.pid} (gone)"
