"""What refuses a tile program, for the engines that read it as the emulator does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.errors import KernelError
from kernels.plan import PlanError
from pipeline.engines.base import CompileError
from workloads.base import WorkloadError


@contextmanager
def refusing() -> Iterator[None]:
    """Turns what refuses a program into a `CompileError`, with the file and line of what is not Python."""
    try:
        yield
    except SyntaxError as error:
        place = f"{Path(error.filename or '').name}:{error.lineno}"
        raise CompileError(f"{place}: not Python: {error.msg}") from error
    except (KernelError, PlanError, WorkloadError) as error:
        raise CompileError(str(error)) from error
