"""From a geometry and a soc to a plan: where the kernels' planner is handed the hardware's limits."""

from __future__ import annotations

from functools import cache

from emulator.program import Space
from emulator.soc import SOCS
from golden.geometry import Geometry
from kernels.plan import Limits, Plan, make_plan, tile_bands


@cache
def plan_for(geometry: Geometry, soc: str, band_rows: int | None) -> Plan:
    """Tile a geometry for a soc, in bands of `band_rows` output rows where that is given.

    Raises:
        PlanError: it cannot be tiled; the message names the rule.
    """
    capacity = SOCS[soc].capacity
    limits = Limits(
        l1=capacity[Space.Mat],
        l0a=capacity[Space.Left],
        l0b=capacity[Space.Right],
        l0c=capacity[Space.Acc],
        bias=capacity[Space.Bias],
        fixpipe=capacity[Space.LeftScale],
    )
    return make_plan(geometry, limits) if band_rows is None else tile_bands(geometry, limits, band_rows)
