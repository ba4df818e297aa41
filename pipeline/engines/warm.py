"""Imported once by the process that jobs are forked from: does what each emulator job would do for itself."""

from __future__ import annotations

from emulator.reader import read_ahead
from golden.cache import sources_digest
from kernels.catalogue import import_kernels
from pipeline.engines import emulator

__all__ = ["emulator"]

sources_digest()
for _kernel in import_kernels():
    read_ahead(str(_kernel.__file__))
