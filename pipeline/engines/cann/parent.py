"""This process's side of the warm parent: it has imported torch and the framework, and forks for each order.

The imports take most of the time of a small program. They are done once for all orders of a job, in a process
that does nothing else: `worker.py` is the other side. Each order has a fork of its own, so whatever a kernel
does to the framework, to Python or to its process, no other order sees it; and jobs share nothing at all.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from pipeline.engines.process import HELPERS, child_environment
from pipeline.ground.threads import thread_limits

_PATIENCE = 5.0
"""Seconds in which the parent ends once nobody asks it any more."""


class Errand(msgspec.Struct, frozen=True):
    """What the parent forks for: the order's file, the environment of its process, and where it prints."""

    order: str
    environment: dict[str, str]
    log: str


def clean_environment() -> dict[str, str]:
    """This process's environment without what the framework reads; its log goes to standard output."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND_", "TILE_FWK_"))}
    return {**own, "ASCEND_SLOG_PRINT_TO_STDOUT": "1"}


def perform(order: Path, environment: Mapping[str, str], log: Path) -> int:
    """Have an order done; gives the exit code of its process, or minus the signal that ended it.

    The process is in this process's group and works in the order's folder; what it prints goes to `log`. If
    the parent cannot start, what it says goes there, and the code is its own; the same if an order ends it.
    """
    global _parent
    if _parent is None:
        _parent = _Parent(log)
        HELPERS.callback(_end)
    code = _parent.perform(Errand(str(order), dict(environment), str(log)))
    if code is not None:
        return code
    ended, _parent = _parent, None
    return ended.end()


def _end() -> None:
    global _parent
    if _parent is not None:
        _parent.end()
        _parent = None


class _Parent:
    """A process that forks. It ends when the socket to it is closed, as it also is if this process ends."""

    def __init__(self, log: Path) -> None:
        """Start it; what it prints goes to `log`."""
        self._socket, theirs = socket.socketpair()
        with theirs, log.open("wb") as printed:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pipeline.engines.cann.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd="/",  # the folder of the first order is removed before the parent ends
                env=child_environment({**clean_environment(), **thread_limits(1)}),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
            )
        self._replies = self._socket.makefile("rb")

    def perform(self, errand: Errand) -> int | None:
        """The exit code, or None if the parent itself has ended."""
        with suppress(ConnectionError):
            self._socket.sendall(msgspec.json.encode(errand) + b"\n")
            if reply := self._replies.readline():
                return int(reply)
        return None

    def end(self) -> int:
        """Let it end, and give its exit code."""
        self._replies.close()
        self._socket.close()
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


_parent: _Parent | None = None
