"""Imported once by the process that jobs are forked from: does work that each emulator job needs."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

import numpy.ma  # `np.unique`, by which outputs are compared, else imports it in each job

from emulator.definitions import read_ahead
from golden.cache import sources_digest
from pipeline.engines import emulator
from pipeline.engines.walks import share_walks
from workloads.registry import SHIPPED, workload_named

__all__ = ["emulator", "numpy"]

_SHARED = "kernels.blocks"


def _read_kernels() -> None:
    """Import and read the kernels; if one cannot be imported, its own jobs report that."""
    factories = (
        program.factory.partition(":")[0]
        for name in SHIPPED
        for program in workload_named(name).programs
        if isinstance(program.factory, str)
    )
    for name in dict.fromkeys((_SHARED, *factories)):
        with suppress(Exception):
            read_ahead(str(import_module(name).__file__))


sources_digest()
_read_kernels()
share_walks()
