"""What kernels there are: the programs each is made of, and how every program is built and called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from kernels.plan import Plan

_CONV1 = ("filter1", "bias1", "scale1")
_CONV2 = ("filter2", "bias2", "scale2")


@dataclass(frozen=True)
class TileProgram:
    """One tile program: its factory (`module:function`), and the inputs and the one output of its `main`.

    The factory is imported when it is called, so that one kernel under repair keeps no other from running.
    """

    name: str
    factory: str
    inputs: tuple[str, ...]
    output: str

    def build(self, pl: Any, plan: Plan) -> Any:
        """The program that the factory makes of the DSL and a plan; raises as the engine's reader does.

        Raises:
            SyntaxError: the factory's file is not Python.
        """
        module, _, function = self.factory.partition(":")
        return getattr(import_module(module), function)(pl, plan)

    def output_shape(self, plan: Plan) -> tuple[int, int]:
        """Shape [rows, channels] of the int8 output."""
        geometry = plan.geometry
        return {
            "y": (geometry.out_height * geometry.out_width, geometry.cout),
            "mid": (geometry.mid_height * geometry.mid_width, geometry.cmid),
            "tile": (plan.conv1.positions, geometry.cmid),
        }[self.output]


PROGRAMS: Mapping[str, TileProgram] = {
    program.name: program
    for program in (
        TileProgram("fused", "kernels.fused_conv2d:build_fused", ("x", *_CONV1, *_CONV2), "y"),
        TileProgram("pass1", "kernels.unfused_conv2d:build_pass1", ("x", *_CONV1), "mid"),
        TileProgram("pass2", "kernels.unfused_conv2d:build_pass2", ("mid", *_CONV2), "y"),
        TileProgram("first-tile-load", "kernels.first_tile:build_first_tile_load", ("x", *_CONV1), "tile"),
        TileProgram(
            "first-tile-packed", "kernels.first_tile:build_first_tile_packed", ("x_band", *_CONV1), "tile"
        ),
        TileProgram(
            "first-tile-fused-alloc",
            "kernels.first_tile:build_first_tile_fused_alloc",
            ("x", *_CONV1, *_CONV2),
            "tile",
        ),
    )
}


def import_kernels() -> Iterator[ModuleType]:
    """Import the kernels ahead of their jobs; one that cannot be imported is left to its jobs to report."""
    yield import_module("kernels.blocks")
    for name in dict.fromkeys(program.factory.partition(":")[0] for program in PROGRAMS.values()):
        with suppress(Exception):
            yield import_module(name)


KERNELS: Mapping[str, tuple[str, ...]] = {
    "fused": ("fused",),
    "two-pass": ("pass1", "pass2"),
    "first-tile-load": ("first-tile-load",),
    "first-tile-packed": ("first-tile-packed",),
    "first-tile-fused-alloc": ("first-tile-fused-alloc",),
}
"""Programs of each kernel, in the order they run."""
