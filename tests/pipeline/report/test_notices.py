from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from pipeline.ground.jobs import State
from pipeline.ground.results import RAN_IN, Result
from pipeline.report.notices import notices
from pipeline.report.summary import markdown
from pipeline.report.terminal import Terminal
from pipeline.run.listener import RunSummary

MakeResult = Callable[..., Result]


def told(results: list[Result]) -> list[tuple[str, ...]]:
    return [(notice.what, *notice.shown) for notice in notices(results)]


def test_a_run_in_which_all_held_at_once_has_none(result_of: MakeResult) -> None:
    results = [
        result_of("device/emu/g/fused/small", facts={"reference.fused.cycles": "100 cycles +0 % +0 %"}),
        result_of("device/emu/g/fused/ties", State.MISMATCH, attempts=2, facts={"attempt_1": "507018"}),
        result_of("device/a2a3/g/fused/small", State.SKIPPED, message="no toolchain"),
    ]
    assert told(results) == []


def test_each_names_what_it_is_about(result_of: MakeResult) -> None:
    other = "not compared: measured on 910B3, this is 910B1"
    results = [
        result_of("device/emu/g/a/small", facts={"reference.a.device_us": other}),
        result_of("device/emu/g/b/small", facts={"reference.b.device_us": other}),
        result_of(
            "device/emu/g/late/small",
            attempts=3,
            facts={"attempt_1": "npu-0: 507018", "attempt_2": "npu-1: No space left on device"},
        ),
        result_of("device/a2a3/g/gone/small", State.INFRASTRUCTURE, facts={RAN_IN: "r1"}),
    ]
    assert told(results) == [
        ("1 job ran before and cannot run now", "device/a2a3/g/gone/small: ran in run r1"),
        (
            "1 job passed only on a later attempt",
            "device/emu/g/late/small: attempt 3; before: npu-0: 507018; npu-1: No space left on device",
        ),
        ("2 metrics not compared: the references are of another device model",),
    ]


def test_a_long_one_says_how_many_more_there_are(result_of: MakeResult) -> None:
    late = result_of("device/emu/g/late/small", attempts=2, facts={"attempt_1": "npu-0: 507018"})
    ((what, *lines),) = told([late] * 12)
    assert what == "12 jobs passed only on a later attempt"
    assert (len(lines), lines[-1]) == (11, "and 2 more")


def test_summary_and_terminal_begin_with_the_same_ones(result_of: MakeResult, tmp_path: Path) -> None:
    tick = result_of("device/emu/g/late/small", attempts=2, facts={"attempt_1": "npu-0: `507018`\n"})
    summary = RunSummary("r1", tmp_path, (tick, replace(tick, facts={RAN_IN: "r0"})), 0, 1.0)
    console = Console(file=io.StringIO(), width=40)
    Terminal(console).run_finished(summary)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[:4] == [
        "1 job ran before and cannot run now",
        "  device/emu/g/late/small: ran in run r0",
        "2 jobs passed only on a later attempt",
        "  device/emu/g/late/small: attempt 2; before: npu-0: `507018`",
    ]
    assert markdown(summary, {}).splitlines()[2:6] == [
        "**1 job ran before and cannot run now**",
        "- `device/emu/g/late/small: ran in run r0`",
        "",
        "**2 jobs passed only on a later attempt**",
    ]
