"""The nursery: one warm process a run that imports what jobs share once and forks keepers on request.

**Why forking is safe here.** A fork copies only the thread that calls it: a lock that another thread holds at
that moment stays locked in the child for ever. So neither the nursery nor a keeper ever has a second thread.
The nursery is a fresh interpreter (not a fork of the controller, whose progress display may have threads),
starts no thread, and has the numeric libraries limited to one thread while it imports them, so that their
pools are not built before the fork; a job raises the limit after it. This is checked before each fork: with a
second thread the nursery and the keepers refuse.
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
    # Nobody waits for goldens any more; a keeper, in contrast, still ends its job's processes.
    for child in computing:
        os.kill(child, signal.SIGKILL)
    # Only now, so that no other process can get a keeper's id while the controller may still signal it.
    with suppress(ChildProcessError):
        while True:
            os.wait()
