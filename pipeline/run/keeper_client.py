"""The controller's side of nursery and keepers: starts them, sends orders, reads reports, notices deaths."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipeline.run import processes, threads
from pipeline.run.messages import Cancel, Fault, Hello, Lines, Order, Report, Role, encode

_BOOT = "import sys; {path}; from pipeline.run.nursery import serve; serve(int(sys.argv[1]), sys.argv[2:])"
_CLOSE_PATIENCE = 5.0
_MESSAGES = msgspec.json.Decoder(Hello | Report | Fault)


@dataclass(frozen=True)
class KeeperLost:
    """A keeper ended. `fault` is its error, or empty; `born` is False if it died before its Hello message."""

    fault: str
    born: bool


class KeeperClient:
    """One keeper process, idle or with one order."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lines = Lines()
        self._pid: int | None = None
        self._fault = ""

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` has something."""
        return self._socket.fileno()

    def give(self, order: Order) -> None:
        """Send `order` to the keeper. If the keeper is dead, `receive` will say so."""
        self._send(order)

    def cancel(self, grace: float) -> None:
        """Tell the keeper to end its job."""
        self._send(Cancel(grace))

    def _send(self, message: Order | Cancel) -> None:
        with suppress(ConnectionError):
            self._socket.sendall(encode(message) + b"\n")

    def receive(self) -> Report | KeeperLost | None:
        """The report, if it has arrived completely; to be called when the socket is readable."""
        data = b""
        with suppress(ConnectionError):
            data = self._socket.recv(65536)
        if not data:
            return KeeperLost(self._fault, born=self._pid is not None)
        report = None
        for line in self._lines.feed(data):
            message = _MESSAGES.decode(line)
            if isinstance(message, Hello):
                self._pid = message.pid
            elif isinstance(message, Fault):
                self._fault = message.text
            else:
                report = message
        return report

    def kill(self) -> None:
        """Kill the keeper at once, in any state. The caller has to end its job's processes."""
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the keeper end, with its job if it has one, and wait for it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while select.select([self._socket], [], [], _CLOSE_PATIENCE)[0] and self._socket.recv(65536):
                pass
        self._socket.close()


class Nursery:
    """The process that forks the others; started when first needed, and again if it was killed."""

    def __init__(self, preload: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """`preload` are modules to import before forking; errors of all keepers are appended to `log`."""
        self._preload = preload
        self._environment = {
            **environment,
            **threads.variables(1),
            processes.MARK: processes.blank_mark(),
        }
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def new_keeper(self) -> KeeperClient:
        """A new keeper. If it cannot be started, `receive` soon returns `KeeperLost`."""
        return KeeperClient(self.new_process(Role.KEEPER))

    def new_process(self, role: Role) -> socket.socket:
        """The socket to a new process with that role; if it cannot start, the socket soon closes."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        ours, theirs = socket.socketpair()
        with theirs, suppress(ConnectionError):
            socket.send_fds(self._socket, [role.value], [theirs.fileno()])
        return ours

    def _start(self) -> None:
        self.close()
        self._socket, theirs = socket.socketpair()
        path = [entry or str(Path.cwd()) for entry in sys.path]
        boot = _BOOT.format(path=f"sys.path[:] = {path!r}")
        with theirs, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", boot, str(theirs.fileno()), *self._preload],
                pass_fds=[theirs.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C signals the whole foreground group, but only the controller must get it.
                start_new_session=True,
            )

    def fault(self) -> str:
        """Why the nursery ended before a keeper was started; empty if it was killed."""
        if self._process is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_PATIENCE)
        status = self._process.returncode or 0
        return f"exit code {status}, see {self._log}" if status > 0 else ""

    def close(self) -> None:
        """Let the nursery end, and wait for it."""
        if self._process is None:
            return
        self._socket.close()
        try:
            self._process.wait(_CLOSE_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
