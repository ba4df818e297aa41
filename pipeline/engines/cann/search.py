"""A bounded search for the tiling with the fewest cycles by the cost model's estimate.

One number of the tiling is changed at a time, and the cheapest value is kept, until nothing improves or the
budget of compilations is used up. The cost model is deterministic, so the same search gives the same plan.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from golden.errors import UserError
from kernels.tensor.plan import TilingError
from pipeline.engines.base import CompileError, InfrastructureError
from pipeline.engines.cann import child
from pipeline.engines.cann.child import Order, Work
from pipeline.engines.cann.engine import CAPACITIES
from pipeline.engines.cann.readings import read_cycles
from pipeline.ground.jobs import WorkloadName
from workloads.base import Workload
from workloads.tensor_level import TilingSearch


class SearchError(UserError):
    """A workload declares no search."""


@dataclass(frozen=True)
class Found:
    """The cheapest tiling of a program, and its cycles."""

    tiling: Any
    cycles: int


def search_of(workload: Workload) -> TilingSearch:
    """The search that a workload declares for its tilings. Raises `SearchError` if it declares none."""
    level = workload.level
    if level is None or level.search is None:
        raise SearchError(
            f"workload {workload.name} has no search for tilings: its tensor-level programs are cut by rule"
        )
    return level.search


def search(
    named: WorkloadName,
    workload: Workload,
    geometry: Any,
    folder: Path,
    budget: int,
    tell: Callable[[str], None],
) -> dict[str, Found]:
    """Search the best tiling of a geometry for every tensor-level program of its workload.

    Compiles in `folder`, which exists and is empty again afterwards, at most `budget` times for each program
    and at least once, and calls `tell` with a line each time. The geometry is the user's; tilings are of what
    programs compute for it.

    Raises:
        SearchError: the workload declares no search.
        TilingError: the geometry cannot be tiled.
        CompileError: the tiling by rule, from which the search starts, is refused.
    """
    declared, level = search_of(workload), workload.level
    assert level is not None  # `search_of` refused it otherwise
    packing, kernels = workload.packing(geometry), str(level.source)
    device = packing.device
    try:
        start = declared.start(device, CAPACITIES)
    except TilingError as error:
        raise TilingError(packing.explained(str(error))) from error
    orders = [Order(Work.COST, program, named, geometry, start, kernels) for program in level.programs]
    scratch = folder / "candidate"
    return {
        order.program: _Search(declared, device, order, scratch, budget, tell).descend() for order in orders
    }


@dataclass
class _Search:
    """The search for one program; `tried` holds the cycles of each tiling, None if it was refused."""

    declared: TilingSearch
    device: Any
    order: Order
    scratch: Path
    budget: int
    tell: Callable[[str], None]
    tried: dict[Any, int | None] = field(default_factory=dict)

    def descend(self) -> Found:
        """Improve one number of the order's tiling after the other, and always keep the cheapest value."""
        best = Found(self.order.tiling, self._compiled(self.order.tiling))
        while True:
            before = best.cycles
            for changes in self.declared.numbers(self.order.program, self.device):
                for tiling in changes(best.tiling):
                    cycles = self._cycles(tiling)
                    if cycles is not None and cycles < best.cycles:
                        best = Found(tiling, cycles)
            if best.cycles == before:
                return best

    def _cycles(self, tiling: Any) -> int | None:
        if tiling in self.tried:
            return self.tried[tiling]
        fits = self.declared.may_fit(self.device, tiling, CAPACITIES)
        if len(self.tried) >= self.budget or not fits:
            return None
        try:
            return self._compiled(tiling)
        except (CompileError, InfrastructureError) as error:
            # Many tilings are refused and some crash the compiler; neither can be candidates.
            self.tried[tiling] = None
            self._tell(tiling, str(error).splitlines()[0])
            return None

    def _compiled(self, tiling: Any) -> int:
        try:
            cycles = read_cycles(child.run(replace(self.order, tiling=tiling), self.scratch))
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        self.tried[tiling] = cycles
        self._tell(tiling, f"{cycles} cycles")
        return cycles

    def _tell(self, tiling: Any, found: str) -> None:
        count = f"{len(self.tried)}/{self.budget}"
        self.tell(f"{self.order.program} {count}: {tiling.describe()}: {found}")
