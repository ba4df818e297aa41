from __future__ import annotations

from dataclasses import replace

import pytest

from golden.geometry import MC62
from kernels.plan import Plan, PlanError
from pipeline.ground.subject import Subject
from workloads.registry import workload_named


def plan_for(geometry: object, soc: str, **options: int) -> Plan:
    plan: Plan = Subject(workload_named("conv-pair"), geometry, soc, options).plan
    return plan


@pytest.mark.parametrize("soc", ["a2a3", "a5"])
def test_the_plan_of_mc62_is_the_specs(soc: str) -> None:
    plan = plan_for(MC62, soc)
    assert plan.band_rows == 18
    assert {(band.mid.rows, band.x.rows) for band in plan.bands} == {(20, 41)}
    assert (plan.conv1.positions, plan.conv1.step, plan.conv2.step) == (112, 64, 32)


def test_a_given_height_of_bands_is_kept() -> None:
    assert plan_for(MC62, "a2a3", band_rows=6).band_rows == 6


def test_the_limits_are_the_socs() -> None:
    """A row of 288 biases is 1152 B: more than the 1 KB of a2a3's bias table, less than the 4 KB of a5's."""
    wide = replace(MC62, cout=288)
    assert plan_for(wide, "a5", band_rows=2).geometry == wide
    with pytest.raises(PlanError, match="1152"):
        plan_for(wide, "a2a3", band_rows=2)
