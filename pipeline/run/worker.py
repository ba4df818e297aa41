"""A job's own process: does the work of one order and writes its result.

Usually it is forked from a keeper. `python -m pipeline.run.worker ORDER.json` does the same in a fresh
interpreter, to run a single job under a debugger and as the reference of benchmarks/worker_start.py.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import msgspec

from golden.inputs import InputsError
from golden.reference import TorchError
from pipeline.engines.base import InfrastructureError
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Blame, JobContext, Result
from pipeline.run import processes
from pipeline.run.messages import Order, encode, write_atomically
from workloads.own import shipped_line

STACKS_SIGNAL = signal.SIGUSR1
"""Makes a worker write the stacks of all its threads, even during C code that holds the GIL."""

_IOLBF = 1  # stdio.h of glibc and musl: line buffered


def prepare() -> None:
    """In the process from which keepers are forked: do once what is the same for all jobs.

    It costs a job more than it seems: each page that a job writes to is first copied.
    """
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    # Unbuffered (C code: line buffered), so that output survives a crash.
    sys.stdout = _writer(1)
    sys.stderr = _writer(2)
    if processes.SUPPORTED:
        stdout = ctypes.c_void_p.in_dll(processes.LIBC, "stdout")
        processes.LIBC.setvbuf(stdout, None, _IOLBF, 0)
        processes.find_mark()
    # If a job collects garbage, it then writes only to what it made itself.
    gc.collect()
    gc.freeze()


def main_of_fork(order: Order, output: int) -> NoReturn:
    """Run `order` in a process just forked from its keeper. Prints to `output`; never returns."""
    status = 1
    try:
        processes.die_with_parent()
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        processes.set_mark(order.marker)
        Path(order.folder).mkdir(parents=True, exist_ok=True)
        # Files that a toolchain writes to its working directory are then among the job's artefacts.
        os.chdir(order.folder)
        if order.threads > 1:  # the libraries were loaded with a limit of one
            processes.limit_threads(order.threads)
        perform(order)
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        sys.stderr.write(f"the work called sys.exit({leaving.code!r})\n")
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            processes.LIBC.fflush(None)
        finally:
            # Skip the keeper's cleanup, which is not ours to do, and the libraries' atexit, which may hang.
            os._exit(status & 0xFF)


def _writer(descriptor: int) -> io.TextIOWrapper:
    file = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", write_through=True)


def perform(order: Order) -> None:
    """Do the work of `order` in this process and write its result.

    An exception of the work becomes a result too: `infrastructure` for an `InfrastructureError`, if memory is
    short, and if torch or the user's tensors (valid when the run began) are missing for the golden, else
    `crashed`, with the line of the shipped file that led to it, if one did.
    """
    job = order.job
    try:
        result = _work(order)
    except InfrastructureError as error:
        result = Result(job, State.INFRASTRUCTURE, str(error), traceback.format_exc(), blames=error.blames)
    except (InputsError, TorchError) as error:
        message = f"no golden: {error}"
        result = Result(job, State.INFRASTRUCTURE, message, traceback.format_exc(), blames=Blame.HOST)
    except MemoryError as error:
        short = f"this host's memory is too small for the geometry: {str(error) or 'out of memory'}"
        message = f"{short}; run it with --jobs 1 or on a larger host, or choose a smaller geometry"
        result = Result(job, State.INFRASTRUCTURE, message, blames=Blame.HOST)
    except Exception as error:
        said = (shipped_line(error), type(error).__name__, str(error))
        result = Result(job, State.CRASHED, ": ".join(filter(None, said)), traceback.format_exc())
    write_atomically(Path(order.result), encode(result))


def _work(order: Order) -> Result:
    if order.queue is not None:
        # Imported here because it imports the device locks, which a job's process rarely needs.
        from pipeline.run.task import work_in_task

        return work_in_task(order, order.queue)
    context = JobContext(Path(order.folder), order.device, Path(order.cache), order.settings)
    module, _, name = order.target.partition(":")
    target: Callable[[Job, JobContext], Result] = getattr(import_module(module), name)
    return target(order.job, context)


def main(arguments: Sequence[str]) -> int:
    """Perform the order in the file that the only argument names."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m pipeline.run.worker ORDER.json\n")
        return 4
    order = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Order)
    processes.limit_threads(order.threads)
    perform(order)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
