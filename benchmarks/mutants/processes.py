"""Work in processes that import `kernels` from a folder of their own."""

from __future__ import annotations

import importlib
import multiprocessing
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.mutants.mutant import KERNELS

Result = TypeVar("Result")

FORK = multiprocessing.get_context("fork")
ORIGINAL = KERNELS.parent
"""The folder that has `kernels/` without edits."""

SECONDS = 60
"""Processor time that one piece of work may take: an edit can loop for ever."""

_MEMORY = 8 * 2**30


def in_copy(folder: Path, work: Callable[..., Result], *given: Any) -> Result:
    """What a function gives in a fork of this process, in which `kernels` is that of a folder.

    Raises:
        TimeoutError: it took too long, or its process died.
    """
    for name in ("kernels", "workloads", "pipeline"):
        assert name not in sys.modules, f"{name} is imported before the fork"
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_work, args=(folder, there, work, *given))
    process.start()
    there.close()
    try:
        result: Result = here.recv()
    except EOFError as error:
        process.join()
        late = process.exitcode == -signal.SIGXCPU
        said = f"no result in {SECONDS} s of processor time" if late else "its process died"
        raise TimeoutError(said) from error
    finally:
        process.kill()
        process.join()
        here.close()
    return result


def _work(folder: Path, there: Any, work: Callable[..., Any], *given: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    assert Path(str(importlib.import_module("kernels").__file__)).parent == folder / "kernels"
    there.send(work(*given))
