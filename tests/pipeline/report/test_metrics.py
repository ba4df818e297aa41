from __future__ import annotations

import pytest

from pipeline.ground.jobs import Metric, Source, StageResult, State
from pipeline.report.metrics import facts_of, shown


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (Metric("gm_read.x", 2_351_104.0, "B", Source.COUNTER), "2351104"),
        (Metric("l1_peak", 1024, "B", Source.COMPILER, 524_288), "1024 of 524288"),
        (Metric("l1_peak", 0, "B", Source.COMPILER, 0), "0 of 0"),
        (Metric("cycles", 12_345_678, "cycles", Source.COST_MODEL), "12345678"),
        (Metric("estimated_cycles.serial", 599.6, "cycles", Source.ESTIMATE), "600"),
        (Metric("device_us", 120, "us", Source.DEVICE_CLOCK), "120.0"),
    ],
)
def test_a_metric_is_shown_as_its_unit_has_it(metric: Metric, text: str) -> None:
    assert shown(metric) == text


def test_metrics_and_facts_are_lines_of_one_record() -> None:
    metrics = (Metric("cycles", 7, "cycles", Source.COST_MODEL),)
    stage = StageResult("fused", State.PASSED, facts={"tiling": "x"}, metrics=metrics)
    assert facts_of(stage) == {"cycles": "7", "tiling": "x"}
