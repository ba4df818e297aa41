"""A keeper forks a job's process, watches it, and ends its whole process tree; one job at a time.

The controller talks to each keeper over a socket. A keeper is forked from the nursery, with all its imports.
A job's process is forked from the keeper: clean, and ready in milliseconds (`nursery.py`: why that is safe).

**When the controller dies**, for whatever reason, the socket closes, and the keeper kills its job's process
tree and ends.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import tempfile
import time
import traceback
from collections import deque
from contextlib import suppress
from typing import IO

import msgspec
import psutil

from pipeline.run import processes, worker
from pipeline.run.capture import Capture
from pipeline.run.messages import Cancel, Ended, Fault, Hello, Lines, Order, Report, encode, plain_text
from pipeline.run.signals import SignalWatch

_STACKS_LIMIT = 256 * 1024
_STACKS_PATIENCE = 1.0
_SETTLE = 0.1
_MESSAGES = msgspec.json.Decoder(Order | Cancel)


def serve(descriptor: int) -> None:
    """Do the orders from the socket `descriptor` until it closes. A keeper's own error is sent as `Fault`."""
    control = _Control(descriptor)
    try:
        processes.become_subreaper()
        control.send(Hello(os.getpid()))
        while (message := control.next()) is not None:
            # A cancellation can arrive after its job has ended and was reported; it is ignored.
            if isinstance(message, Order):
                control.send(_Execution(message, control).report())
    except Exception:
        control.send(Fault(traceback.format_exc()))
        raise


class _Control:
    """The socket to the controller, message by message."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._lines = Lines()
        self._messages: deque[Order | Cancel] = deque()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def waiting(self) -> bool:
        """True if a message has been read but not taken; the descriptor is then not readable."""
        return bool(self._messages)

    def next(self) -> Order | Cancel | None:
        """Wait for the next message. None: the controller has ended."""
        while not self._messages:
            data = b""
            with suppress(ConnectionError):
                data = self._socket.recv(65536)
            if not data:
                return None
            self._messages.extend(_MESSAGES.decode(line) for line in self._lines.feed(data))
        return self._messages.popleft()

    def send(self, message: Hello | Report | Fault) -> None:
        with suppress(ConnectionError):  # the controller has ended: the next read shows it
            self._socket.sendall(encode(message) + b"\n")

    def close(self) -> None:
        self._socket.close()


class _Execution:
    """One order, from the fork to the end of the last descendant."""

    def __init__(self, order: Order, control: _Control) -> None:
        self._order = order
        self._control = control
        self._capture = Capture()
        self._status: int | None = None
        self._childless = False
        self._grace = order.grace
        self._ended = Ended.ITSELF

    def report(self) -> Report:
        """Execute the order."""
        processes.require_single_thread()
        started = time.monotonic()
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as stacks:
            self._leader = os.fork()
            if self._leader == 0:
                os.close(reading)
                self._control.close()
                worker.main_of_fork(self._order, writing, stacks)
            os.close(writing)
            os.set_blocking(reading, False)
            try:
                self._watch(reading, started + self._order.limit)
                seconds = time.monotonic() - started
                if self._ended is Ended.TIMED_OUT:
                    self._ask_for_stacks(stacks)
                swept, alive = self._end_tree()
                while self._take(reading):
                    pass
            finally:
                os.close(reading)
            stacks.seek(0)
            written = plain_text(stacks.read(_STACKS_LIMIT))
        status = self._status if self._status is not None else -signal.SIGKILL
        return Report(status, self._ended, seconds, self._capture.text(), written, swept, alive)

    def _watch(self, reading: int, deadline: float) -> None:
        """Return when the leader has ended, or when it has to be ended."""
        with selectors.DefaultSelector() as selector, SignalWatch(signal.SIGCHLD) as children:
            selector.register(reading, selectors.EVENT_READ)
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(children, selectors.EVENT_READ)
            self._reap()
            told = self._control.waiting
            while self._status is None:
                left = deadline - time.monotonic()
                if told or left <= 0:
                    self._ended = Ended.CANCELLED if told else Ended.TIMED_OUT
                    break
                for key, _ in selector.select(left):
                    if key.fileobj is children:
                        children.take()
                        self._reap()
                    elif key.fileobj is self._control:
                        told = True
                    elif self._take(reading) == b"":
                        selector.unregister(reading)
        if told:
            message = self._control.next()
            self._grace = message.grace if message is not None else 0.0

    def _take(self, reading: int) -> bytes | None:
        """Read one piece of output, and only one, so that deadlines are still checked. None: nothing now."""
        try:
            data = os.read(reading, 65536)
        except BlockingIOError:
            return None
        self._capture.feed(data)
        return data

    def _reap(self) -> bool:
        """Collect children that have ended, also adopted ones. True when none is left."""
        while not self._childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                break
            if pid == 0:
                break
            if pid == self._leader:
                self._status = os.waitstatus_to_exitcode(status)
        return self._childless

    def _ask_for_stacks(self, stacks: IO[bytes]) -> None:
        """Make the leader write the stack of every thread, and wait until it has stopped writing."""
        with suppress(ProcessLookupError):
            os.kill(self._leader, signal.SIGCONT)
            os.kill(self._leader, worker.STACKS_SIGNAL)
        sizes = [0, 0]

        def written() -> bool:
            self._reap()
            sizes.append(os.fstat(stacks.fileno()).st_size)
            return 0 < sizes[-3] == sizes[-1] or self._status is not None

        processes.wait_until(written, _STACKS_PATIENCE)

    def _end_tree(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """End the job's processes: TERM, grace, KILL. Returns which were swept and which are still alive."""
        # After the leader has ended, its helpers (such as resource trackers) end by themselves soon after.
        if processes.wait_until(self._reap, _SETTLE if self._status is not None else 0.0):
            return (), ()
        victims = self._living()
        swept = {victim.pid: processes.describe(victim) for victim in victims}
        processes.send(victims, signal.SIGTERM)
        processes.send(victims, signal.SIGCONT)
        processes.wait_until(self._reap, self._grace)
        alive: list[psutil.Process] = []

        def none_left() -> bool:
            if self._reap():
                alive.clear()
                return True
            alive[:] = self._living()
            swept.update((one.pid, processes.describe(one)) for one in alive if one.pid not in swept)
            processes.send(alive, signal.SIGKILL)
            return False

        processes.wait_until(none_left, max(self._grace, _STACKS_PATIENCE))
        swept.pop(self._leader, None)
        return tuple(swept.values()), tuple(processes.describe(one) for one in alive)

    def _living(self) -> list[psutil.Process]:
        found = {one.pid: one for one in processes.descendants()}
        found.update((one.pid, one) for one in processes.marked(self._order.marker))
        return list(found.values())
