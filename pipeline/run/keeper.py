"""A keeper forks a job's process, watches it, and ends its whole process tree; one job at a time.

The controller talks to each keeper over a socket. A keeper is forked from the nursery, with all its imports.
A job's process is forked from the keeper: clean, and ready in milliseconds (`nursery.py`: why that is safe).

**When the controller dies**, for whatever reason, the socket closes, and the keeper kills its job's process
tree and ends.
"""

from __future__ import annotations

import faulthandler
import os
import select
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from typing import IO

import msgspec
import psutil

from pipeline.ground.jobs import State
from pipeline.ground.threads import require_single_thread
from pipeline.run import processes, worker
from pipeline.run.messages import Cancel, Channel, Fault, Hello, Order, Report, plain_text
from pipeline.run.processes import SignalWatch

_STACKS_LIMIT = 256 * 1024
_STACKS_PATIENCE = 1.0
_SETTLE = 0.1
_CLOSE_PATIENCE = 5.0
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in the unit in which a system says how much of a process was in memory."""


class KeeperClient(Channel[Hello | Report | Fault]):
    """The controller's side of one keeper, which is idle or has one order.

    `pid` is its process id, or None before it has said Hello.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, msgspec.json.Decoder(Hello | Report | Fault))
        self.pid: int | None = None
        self._fault = Fault("")

    def receive(self) -> Report | Fault | None:
        """The report, if it has arrived completely; to be called when the socket is readable.

        If the keeper has ended, its fault instead, with an empty text if it was killed.
        """
        if not self.read():
            return self._fault
        report = None
        while self.arrived:
            message = self.arrived.popleft()
            if isinstance(message, Hello):
                self.pid = message.pid
            elif isinstance(message, Fault):
                self._fault = message
            else:
                report = message
        return report

    def kill(self) -> None:
        """Kill the keeper at once, in any state. The caller has to end its job's processes."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the keeper end, with its job if it has one, and wait for it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while select.select([self._socket], [], [], _CLOSE_PATIENCE)[0] and self._socket.recv(65536):
                pass
        super().close()


def serve(connection: socket.socket) -> None:
    """Do the orders that arrive until the other end closes. A keeper's own error is sent as `Fault`."""
    control = Channel[Order | Cancel](connection, msgspec.json.Decoder(Order | Cancel))
    try:
        processes.become_subreaper()
        with tempfile.TemporaryFile() as stacks:
            # Jobs inherit this, so none of them has to do it again.
            faulthandler.enable(stacks)
            faulthandler.register(worker.STACKS_SIGNAL, stacks, all_threads=True)
            control.send(Hello(os.getpid()))
            while (message := control.next()) is not None:
                # A cancellation can arrive after its job has ended and was reported; it is ignored.
                if isinstance(message, Order):
                    control.send(_Execution(message, control, stacks).report())
    except Exception:
        control.send(Fault(traceback.format_exc()))
        raise


class Capture:
    """Captures the first and last bytes of any amount of output, in constant memory."""

    def __init__(self, kept: int = 32 * 1024) -> None:
        """Keep so many bytes of the head, and as many of the tail."""
        self._kept = kept
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def feed(self, data: bytes) -> None:
        """Add the next piece of output."""
        self.size += len(data)
        room = self._kept - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        del self._tail[: -self._kept]

    def text(self) -> str:
        """Head and tail as text; if bytes between them were left out, a line there says how many."""
        missing = self.size - len(self._head) - len(self._tail)
        gap = f"\n[... {missing:,} of {self.size:,} bytes left out ...]\n".encode() if missing else b""
        return plain_text(bytes(self._head) + gap + bytes(self._tail))


class _Execution:
    """One order, from the fork to the end of the last descendant."""

    def __init__(self, order: Order, control: Channel[Order | Cancel], stacks: IO[bytes]) -> None:
        """`stacks` is the empty file to which faulthandler writes."""
        self._order = order
        self._control = control
        self._stacks = stacks
        self._capture = Capture()
        self._status: int | None = None
        self._childless = False
        self._peak_memory = 0
        self._grace = order.grace
        self._ended: State | None = None

    def report(self) -> Report:
        """Execute the order."""
        require_single_thread()
        started = time.monotonic()
        reading, writing = os.pipe()
        self._leader = os.fork()
        if self._leader == 0:
            os.close(reading)
            self._control.close()
            worker.main_of_fork(self._order, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        try:
            self._watch(reading, started + self._order.limit)
            seconds = time.monotonic() - started
            if self._ended is State.TIMED_OUT:
                self._ask_for_stacks()
            swept, alive = self._end_tree()
            while self._take(reading):
                pass
        finally:
            os.close(reading)
        written = self._written()
        status = self._status if self._status is not None else -signal.SIGKILL
        text = self._capture.text()
        return Report(status, self._ended, seconds, text, written, swept, alive, self._peak_memory)

    def _watch(self, reading: int, deadline: float) -> None:
        """Return when the leader has ended, or when it has to be ended."""
        with selectors.DefaultSelector() as selector, SignalWatch(signal.SIGCHLD) as children:
            selector.register(reading, selectors.EVENT_READ)
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(children, selectors.EVENT_READ)
            self._reap()
            told = bool(self._control.arrived)
            while self._status is None:
                left = deadline - time.monotonic()
                if told or left <= 0:
                    self._ended = State.INTERRUPTED if told else State.TIMED_OUT
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
        with suppress(BlockingIOError):
            data = os.read(reading, 65536)
            self._capture.feed(data)
            return data
        return None

    def _reap(self) -> bool:
        """Collect children that have ended, also adopted ones. True when none is left."""
        while not self._childless:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                break
            if pid == 0:
                break
            # It counts the children for which a process itself has waited.
            self._peak_memory = max(self._peak_memory, usage.ru_maxrss * _RSS_UNIT)
            if pid == self._leader:
                self._status = os.waitstatus_to_exitcode(status)
        return self._childless

    def _written(self) -> str:
        """The stacks that were written. Their file is empty afterwards."""
        if not self._stacks_size():
            return ""
        self._stacks.seek(0)
        written = plain_text(self._stacks.read(_STACKS_LIMIT))
        self._stacks.seek(0)
        self._stacks.truncate()
        return written

    def _stacks_size(self) -> int:
        return os.fstat(self._stacks.fileno()).st_size

    def _ask_for_stacks(self) -> None:
        """Make the leader write the stack of every thread, and wait until it has stopped writing."""
        with suppress(ProcessLookupError):
            os.kill(self._leader, signal.SIGCONT)
            os.kill(self._leader, worker.STACKS_SIGNAL)
        sizes = [0, 0]

        def written() -> bool:
            self._reap()
            sizes.append(self._stacks_size())
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
        patience = max(self._grace, _STACKS_PATIENCE)
        alive = processes.kill(lambda: [] if self._reap() else self._living(), swept, patience)
        swept.pop(self._leader, None)
        return tuple(swept.values()), tuple(alive)

    def _living(self) -> list[psutil.Process]:
        found = [*psutil.Process().children(recursive=True), *processes.marked(self._order.marker)]
        return list({process.pid: process for process in found}.values())
