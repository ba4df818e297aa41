"""A bounded search for the tiling of which the cost model estimates the fewest cycles.

One number of the tiling is changed at a time, always the cheapest value kept, until nothing improves or the
budget of compilations is spent. The cost model is deterministic, so the same search gives the same plan.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from golden.geometry import C0, Geometry
from kernels.tensor import programs
from kernels.tensor.canvas import canvas_of
from kernels.tensor.plan import PROGRAMS, Product, Tiling, may_fit, tiling_by_rule
from pipeline.engines.base import CompileError, InfrastructureError
from pipeline.engines.cann import child
from pipeline.engines.cann.engine import CAPACITIES
from pipeline.engines.cann.order import Order, Work
from pipeline.engines.cann.readings import read_cycles
from pipeline.ground.jobs import WorkloadName

_TASKS = (24, 20, 22, 18, 12)
_SPREAD_TASKS = (24, 20, 16, 12)
"""Into how many tasks rows may be cut: there are 24 cube cores, and scheduling a task costs as much as it."""

_VEC_TILES = (2, 1)
"""Vector tiles that may make a cube task."""


@dataclass(frozen=True)
class Found:
    """The cheapest tiling of a program, and its cycles."""

    tiling: Tiling
    cycles: int


def search(
    geometry: Geometry, folder: Path, budget: int, tell: Callable[[str], None] = lambda line: None
) -> dict[str, Found]:
    """Search a tiling for every program of a geometry.

    Args:
        geometry: the shapes of the pair.
        folder: scratch for the compilations; exists, and is empty again afterwards.
        budget: compilations a program may take; at least 1.
        tell: is told of every compilation in a line.

    Raises:
        TilingError: where the geometry cannot be cut.
        CompileError: where the tiling by rule, from which the search starts, is refused.
    """
    start = tiling_by_rule(geometry, CAPACITIES)
    return {program: _Search(program, geometry, folder, budget, tell).descend(start) for program in PROGRAMS}


@dataclass
class _Search:
    """The search for one program; `tried` holds the cycles of each tiling, None where it was refused."""

    program: str
    geometry: Geometry
    folder: Path
    budget: int
    tell: Callable[[str], None]
    tried: dict[Tiling, int | None] = field(default_factory=dict)

    def descend(self, start: Tiling) -> Found:
        """Follow the steepest change of one number after the other."""
        best = Found(start, self._compiled(start))
        while True:
            before = best.cycles
            for changes in self._coordinates():
                for tiling in changes(best.tiling):
                    cycles = self._cycles(tiling)
                    if cycles is not None and cycles < best.cycles:
                        best = Found(tiling, cycles)
            if best.cycles == before:
                return best

    def _coordinates(self) -> Iterator[Callable[[Tiling], Iterator[Tiling]]]:
        canvas = canvas_of(self.geometry)
        if self.program != "pass2":
            pixels = self.geometry.mid_height * self.geometry.mid_width
            yield from _of_product("conv1", canvas.rows if self.program == "fused" else pixels)
        else:
            yield lambda tiling: _with_spread_rows(tiling, canvas.plane_rows)
        if self.program != "pass1":
            yield from _of_product("conv2", canvas.out_rows)

    def _cycles(self, tiling: Tiling) -> int | None:
        if tiling in self.tried:
            return self.tried[tiling]
        if len(self.tried) >= self.budget or not may_fit(self.geometry, tiling, CAPACITIES):
            return None
        try:
            return self._compiled(tiling)
        except (CompileError, InfrastructureError) as error:
            # Many tilings are refused, and some crash the compiler: either way they are no candidates.
            self.tried[tiling] = None
            self._tell(tiling, str(error).splitlines()[0])
            return None

    def _compiled(self, tiling: Tiling) -> int:
        scratch = self.folder / "candidate"
        order = Order(
            Work.COST,
            self.program,
            WorkloadName("conv-pair"),
            msgspec.to_builtins(self.geometry),
            msgspec.to_builtins(tiling),
            Path(programs.__file__),
            scratch,
        )
        try:
            cycles = read_cycles(child.run(order))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self.tried[tiling] = cycles
        self._tell(tiling, f"{cycles} cycles")
        return cycles

    def _tell(self, tiling: Tiling, found: str) -> None:
        self.tell(f"{self.program} {len(self.tried)}/{self.budget}: {tiling.describe()}: {found}")


def _of_product(conv: str, rows: int) -> Iterator[Callable[[Tiling], Iterator[Tiling]]]:
    yield lambda tiling: _with_rows(tiling, conv, rows)
    yield lambda tiling: _with_k_step(tiling, conv)


def _with_rows(tiling: Tiling, conv: str, rows: int) -> Iterator[Tiling]:
    for tiles in _VEC_TILES:
        for tasks in _TASKS:
            vec_rows = -(-rows // (tasks * tiles))
            yield _changed(tiling, conv, cube_rows=vec_rows * tiles, vec_rows=vec_rows)


def _with_k_step(tiling: Tiling, conv: str) -> Iterator[Tiling]:
    product: Product = getattr(tiling, conv)
    for k_step in range(C0, product.k_depth + 1, C0):
        if product.k_depth % k_step == 0:
            yield _changed(tiling, conv, k_step=k_step)


def _with_spread_rows(tiling: Tiling, plane_rows: int) -> Iterator[Tiling]:
    for tasks in _SPREAD_TASKS:
        yield replace(tiling, spread_rows=-(-plane_rows // tasks))


def _changed(tiling: Tiling, conv: str, **numbers: int) -> Tiling:
    product = replace(getattr(tiling, conv), **numbers)
    if conv == "conv1":
        return replace(tiling, conv1=product, spread_rows=product.vec_rows)
    return replace(tiling, conv2=product)
