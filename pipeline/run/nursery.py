"""The nursery: one warm process per run. It imports once what jobs share, and forks keepers on request.

Forking is safe here for the reasons in `pipeline/ground/threads.py`. The nursery is a fresh interpreter (not
a fork of the controller, whose progress display may have threads), and starts no thread; a job raises the
limit of the libraries after the fork. The nursery checks that it has no second thread after its imports, a
keeper before each fork.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from pipeline.ground.threads import require_single_thread, thread_limits
from pipeline.run import goldens, keeper, processes, worker
from pipeline.run.goldens import Goldens, Wanted
from pipeline.run.keeper import KeeperClient

_CODE = "from pipeline.run.nursery import serve; serve(int(sys.argv[1]), sys.argv[2:])"
_CLOSE_PATIENCE = 5.0
_TASKS = (keeper.serve, goldens.serve)
"""What a process may be forked for. The request for it is its place here, in one byte."""


class Nursery:
    """The controller's side: starts the process when it is first needed, and again if it was killed."""

    def __init__(self, preload: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """`preload` are modules to import before forking; errors of all keepers are appended to `log`."""
        self._preload = preload
        self._environment = {
            **environment,
            **thread_limits(1),
            processes.MARK: processes.BLANK_MARK,
        }
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def new_keeper(self) -> KeeperClient:
        """A new keeper. If it cannot be started, `receive` soon returns a `Fault`."""
        return KeeperClient(self._new_process(keeper.serve))

    def new_goldens(self, missing: Mapping[str, Wanted]) -> Goldens:
        """A new process that computes goldens. If it cannot be started, nothing is waited for."""
        return Goldens(missing, self._new_process(goldens.serve))

    def _new_process(self, task: Callable[[socket.socket], None]) -> socket.socket:
        if self._process is None or self._process.poll() is not None:
            self._start()
        ours, theirs = socket.socketpair()
        with theirs, suppress(ConnectionError):
            socket.send_fds(self._socket, [bytes([_TASKS.index(task)])], [theirs.fileno()])
        return ours

    def _start(self) -> None:
        self.close()
        with self._log.open("ab") as log:
            self._process, self._socket = processes.start_interpreter(
                _CODE, self._preload, log, self._environment
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
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_PATIENCE)
        self._process.kill()  # does nothing if it has ended
        self._process.wait()


def serve(descriptor: int, preload: Sequence[str]) -> None:
    """Import the modules `preload`; then fork a process for each socket received over `descriptor`.

    Ends when the socket has closed and all of them have ended.

    Raises:
        RuntimeError: an import has started a thread.
    """
    for name in preload:
        import_module(name)
    require_single_thread()
    worker.prepare()
    control = socket.socket(fileno=descriptor)
    computing = []
    while True:
        asked, received, *_ = socket.recv_fds(control, 1, 1)
        if not received:
            break
        task = _TASKS[asked[0]]
        with socket.socket(fileno=received[0]) as connection:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    control.close()
                    task(connection)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(status)
        if task is goldens.serve:
            computing.append(child)
    # The goldens are no longer needed. Keepers are not killed: they still end their jobs' processes.
    for child in computing:
        os.kill(child, signal.SIGKILL)
    # Collected only now: before that, no new process can get the id of a keeper that may still be signalled.
    with suppress(ChildProcessError):
        while True:
            os.wait()
