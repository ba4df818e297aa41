"""Which backends there are, and the engine behind each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from pipeline.engines.base import Engine
from workloads.base import Workload

BACKENDS: Mapping[str, str] = {
    "emulator": "pipeline.engines.emulator:EmulatorEngine",
    "cann": "pipeline.engines.cann.engine:CannEngine",
    "pypto": "pipeline.engines.pypto.engine:PyptoEngine",
}
"""A backend's name in the matrix, and its engine's class; imported when it is used, not before."""


_TENSOR_LEVEL = frozenset({"cann"})
"""Backends that take the tensor-level programs, not the tile programs."""


def has_program(backend: str, workload: Workload, program: str) -> bool:
    """Whether there is a version of a program for a backend, be the backend here or not."""
    if backend not in _TENSOR_LEVEL:
        return True
    return workload.tensor_level is not None and program in workload.tensor_level.programs


def engine_for(backend: str) -> Engine:
    """A new engine of a backend."""
    module, _, name = BACKENDS[backend].partition(":")
    engine: Engine = getattr(import_module(module), name)()
    return engine
