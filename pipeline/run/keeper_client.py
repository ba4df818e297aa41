"""The controller's end of a keeper: start it, give it an order, take its report, see it die."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipeline.run import processes, threads
from pipeline.run.messages import Cancel, Lines, Order, Report, encode

_BOOT = "import sys; {path}; from pipeline.run.keeper import serve; serve(int(sys.argv[1]), sys.argv[2:])"

_CLOSE_PATIENCE = 5.0


@dataclass(frozen=True)
class KeeperLost:
    """A keeper ended by itself; `status` is its exit code or minus the signal that ended it."""

    status: int


class KeeperClient:
    """One keeper process, idle or with one order."""

    def __init__(self, preload: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start a keeper that imports `preload`. Its own complaints are appended to `log`."""
        self._socket, theirs = socket.socketpair()
        self._lines = Lines()
        path = [entry or str(Path.cwd()) for entry in sys.path]
        with theirs, log.open("ab") as errors:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    _BOOT.format(path=f"sys.path[:] = {path!r}"),
                    str(theirs.fileno()),
                    *preload,
                ],
                pass_fds=[theirs.fileno()],
                env={**environment, **threads.variables(1), processes.MARK: processes.blank_mark()},
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                # Ctrl-C reaches the whole foreground group; only the controller is to hear it.
                start_new_session=True,
            )

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` has something."""
        return self._socket.fileno()

    def give(self, order: Order) -> None:
        """Have the keeper execute `order`. A dead keeper is noticed by `receive`."""
        self._send(order)

    def cancel(self, grace: float) -> None:
        """Have the keeper end its job."""
        self._send(Cancel(grace))

    def _send(self, message: Order | Cancel) -> None:
        try:
            self._socket.sendall(encode(message) + b"\n")
        except ConnectionError:
            return

    def receive(self) -> Report | KeeperLost | None:
        """The report, if it is complete; to be called when readable."""
        try:
            data = self._socket.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            return KeeperLost(self._process.wait())
        for line in self._lines.feed(data):
            return msgspec.json.decode(line, type=Report)
        return None

    def kill(self) -> None:
        """End the keeper at once, whatever state it is in. Its job's processes are left to the caller."""
        self._process.kill()

    def close(self) -> None:
        """Let the keeper end, and its job if it has one, and wait for it."""
        self._socket.close()
        try:
            self._process.wait(_CLOSE_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
