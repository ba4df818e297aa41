"""The nursery: one warm process per run. It imports once what jobs share, and forks keepers on request.

**Why forking is safe here.** A fork copies only the thread that calls it: a lock that another thread holds at
that moment stays locked in the child for ever. So neither the nursery nor a keeper ever has a second thread.
The nursery is a fresh interpreter (not a fork of the controller, whose progress display may have threads),
and starts no thread. It imports the numeric libraries with a limit of one thread, so that they start no
thread pools before the fork; a job raises the limit afterwards. Nursery and keepers refuse to go on if they
have a second thread: the nursery checks after its imports, a keeper before each fork.
"""

from __future__ import annotations

import os
import signal
import socket
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from pipeline.run import goldens, keeper, processes
from pipeline.run.messages import Role

_SERVE = {Role.KEEPER: keeper.serve, Role.GOLDENS: goldens.serve}


def serve(descriptor: int, preload: Sequence[str]) -> None:
    """Import the modules `preload`; then fork a process for each socket received over `descriptor`.

    Ends when the socket has closed and all of them have ended.

    Raises:
        processes.ThreadsError: an import has started a thread.
    """
    for name in preload:
        import_module(name)
    processes.require_single_thread()
    control = socket.socket(fileno=descriptor)
    computing = []
    while True:
        role, received, *_ = socket.recv_fds(control, 1, 1)
        if not received:
            break
        child = os.fork()
        if child == 0:
            status = 1
            try:
                control.close()
                _SERVE[Role(role)](received[0])
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(received[0])
        if role == Role.GOLDENS.value:
            computing.append(child)
    # The goldens are no longer needed. Keepers are not killed: they still end their jobs' processes.
    for child in computing:
        os.kill(child, signal.SIGKILL)
    # Collected only now: before that, no new process can get the id of a keeper that may still be signalled.
    with suppress(ChildProcessError):
        while True:
            os.wait()
