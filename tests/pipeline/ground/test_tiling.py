from __future__ import annotations

from dataclasses import replace

import pytest

from golden.geometry import MC62
from kernels.plan import PlanError
from pipeline.ground.subject import Subject
from workloads.registry import workload_named
from workloads.tiling import CONTRACT

PAIR = workload_named("conv-pair")


@pytest.mark.parametrize("soc", ["a2a3", "a5"])
def test_the_plan_of_mc62_is_the_specs(soc: str) -> None:
    plan = Subject(PAIR, MC62, soc, CONTRACT).plan
    assert plan.band_rows == 18
    assert {(band.mid.rows, band.x.rows) for band in plan.bands} == {(20, 41)}
    assert (plan.conv1.positions, plan.conv1.step, plan.conv2.step) == (112, 64, 32)


def test_a_given_height_of_bands_is_kept() -> None:
    assert Subject(PAIR, MC62, "a2a3", {"band_rows": 6}).plan.band_rows == 6


def test_the_limits_are_the_socs() -> None:
    """A row of 288 biases is 1152 B: more than the 1 KB of a2a3's bias table, less than the 4 KB of a5's."""
    wide = replace(MC62, cout=288)
    roomy, narrow = (Subject(PAIR, wide, soc, {"band_rows": 2}).plan.conv2.columns for soc in ("a5", "a2a3"))
    assert roomy in (0, 288)
    assert 0 < 4 * narrow <= 1024


def test_a_geometry_that_no_plan_fits_has_none() -> None:
    """One row of x is 4 MB, eight times L1."""
    huge = Subject(PAIR, replace(MC62, height=6, width=8192, cin=512), "a2a3")
    with pytest.raises(PlanError):
        huge.plan  # noqa: B018 (raises)
    assert huge.plan_or_none is None
