"""Which backends there are, and the engine behind each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from pipeline.engines.base import Engine

BACKENDS: Mapping[str, str] = {
    "emulator": "pipeline.engines.emulator:EmulatorEngine",
    "cann": "pipeline.engines.cann.engine:CannEngine",
    "pypto": "pipeline.engines.pypto.engine:PyptoEngine",
}
"""A backend's name in the matrix, and its engine's class; imported when it is used, not before."""


def engine_for(backend: str) -> Engine:
    """A new engine of a backend."""
    module, _, name = BACKENDS[backend].partition(":")
    engine: Engine = getattr(import_module(module), name)()
    return engine
