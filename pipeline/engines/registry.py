"""The backends, the engine of each, and what its jobs can run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipeline.ground.jobs import PlatformKind
from workloads.base import Workload

if TYPE_CHECKING:  # `list` reads this table at every start
    from pipeline.engines.base import Engine


@dataclass(frozen=True)
class Backend:
    """The engine's class as `module:name`, imported when used, and what its jobs need.

    If there are several `kinds` of platform, the matrix has to say the kind of each. With `tiles` it runs the
    tile programs, otherwise the tensor-level ones. With `any_variant` it requantises as it is told.

    `seconds` is what a job takes, roughly, and what a billion multiply-accumulates add to that: nothing but
    the order of jobs depends on it. `memory` is the like in bytes, of the largest of a job's processes: only
    what a job asks of a cluster depends on it. `builds` is a `module:function` that says what the first job
    builds for all later ones: empty if that is done. `toolchain` is one that says what its jobs compile with
    in an environment: versions by name, empty if there is nothing.
    """

    engine: str
    kinds: tuple[PlatformKind, ...] = (PlatformKind.HOST,)
    tiles: bool = True
    any_variant: bool = False
    seconds: tuple[float, float] = (0.1, 0.5)
    memory: tuple[float, float] = (100e6, 0.0)
    builds: str = ""
    toolchain: str = ""


BACKENDS: Mapping[str, Backend] = {
    "emulator": Backend("pipeline.engines.emulator:EmulatorEngine", any_variant=True),
    "cann": Backend(
        "pipeline.engines.cann.engine:CannEngine",
        tiles=False,
        seconds=(3.0, 10.0),
        memory=(300e6, 600e6),
        builds="pipeline.engines.cann.engine:to_build",
        toolchain="pipeline.engines.cann.calculator:versions",
    ),
    "pypto": Backend(
        "pipeline.engines.pypto.engine:PyptoEngine",
        (PlatformKind.CARD, PlatformKind.SIMULATOR),
        seconds=(10.0, 10.0),
        memory=(1e9, 0.0),  # a guess: no host of ours has it all
        toolchain="pipeline.engines.pypto.toolchain:built_with",
    ),
    "isa": Backend(
        "pipeline.engines.isa.engine:IsaEngine",
        (PlatformKind.SIMULATOR,),
        seconds=(6.0, 1.0),
        memory=(200e6, 0.0),
        toolchain="pipeline.engines.isa.toolchain:versions",
    ),
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
    engine: Engine = _named(BACKENDS[backend].engine)()
    return engine


def to_build(backend: str) -> str:
    """What the first job on a backend builds here for all later ones; empty if there is nothing to build."""
    builds = BACKENDS[backend].builds if backend in BACKENDS else ""
    return str(_named(builds)()) if builds else ""


def compiles(backend: str) -> bool:
    """Whether the jobs of a backend compile with a toolchain of the host."""
    return backend in BACKENDS and bool(BACKENDS[backend].toolchain)


def toolchain(backend: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    """What the jobs of a backend compile with: versions by name; empty if there is none."""
    return _named(BACKENDS[backend].toolchain)(environment) if compiles(backend) else {}


def _named(what: str) -> Any:
    module, _, name = what.partition(":")
    return getattr(import_module(module), name)
