"""The backends, the engine of each, and what its jobs can run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from pipeline.ground.jobs import PlatformKind
from workloads.base import Workload

if TYPE_CHECKING:  # `list` reads this table at every start
    from pipeline.engines.base import Engine


@dataclass(frozen=True)
class Backend:
    """The engine's class as `module:name`, imported when used, and what its jobs need.

    If there are several `kinds` of platform, the matrix has to say the kind of each. With `tiles` it runs the
    tile programs, otherwise the tensor-level ones. With `any_variant` it requantises as it is told.
    """

    engine: str
    kinds: tuple[PlatformKind, ...] = (PlatformKind.HOST,)
    tiles: bool = True
    any_variant: bool = False


BACKENDS: Mapping[str, Backend] = {
    "emulator": Backend("pipeline.engines.emulator:EmulatorEngine", any_variant=True),
    "cann": Backend("pipeline.engines.cann.engine:CannEngine", tiles=False),
    "pypto": Backend(
        "pipeline.engines.pypto.engine:PyptoEngine", (PlatformKind.CARD, PlatformKind.SIMULATOR)
    ),
    "isa": Backend("pipeline.engines.isa.engine:IsaEngine", (PlatformKind.SIMULATOR,)),
}
"""The backends by their names in the matrix."""


def takes_tiles(backend: str) -> bool:
    """Whether a backend runs the tile programs, and so only what can be tiled."""
    return backend not in BACKENDS or BACKENDS[backend].tiles


def has_program(backend: str, workload: Workload, program: str) -> bool:
    """Whether a program has a version for a backend, even if the backend is not available here."""
    return takes_tiles(backend) or program in workload.tensor_programs


def engine_for(backend: str) -> Engine:
    """A new engine of a backend."""
    module, _, name = BACKENDS[backend].engine.partition(":")
    engine: Engine = getattr(import_module(module), name)()
    return engine
