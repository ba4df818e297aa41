from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.ground.jobs import State
from pipeline.ground.results import Metric, Result, Source, StageResult
from pipeline.report.summary import CHECK_LIMIT, markdown
from pipeline.run.listener import RunSummary

MakeResult = Callable[..., Result]
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def test_a_reader_finds_what_broke_where_and_why(result_of: MakeResult) -> None:
    results = (
        *(
            result_of(f"device/a5/mc62/fused/p{n}", State.MISMATCH, message=f"y: {n} differ")
            for n in range(12)
        ),
        result_of("device/a2a3/mc62/fused/small", State.SKIPPED, message="no toolchain; install it"),
        result_of("device/emu/mc62/fused/small"),
    )
    aside, doubt = {"npu-3": "507018 twice"}, {"npu-4": "all 3 jobs on it failed"}
    text = markdown(
        RunSummary(
            "r1", Path(), results, 1, 12.34, aside, doubt, problems=("a worker vanished",), at_best=9.87
        ),
        {"git": "0123abcd"},
    )
    assert text.startswith(
        "## Failed (exit code 1): 12 of 14 jobs are red: 1 passed, 12 mismatch, 1 skipped\n"
        "\nrun `r1`, seconds `12.3`, at best `9.9`, git `0123abcd`\n"
    )
    for line in (
        "**The pipeline itself failed:** `a worker vanished`",
        "**Device `npu-3` was set aside:** `507018 twice`",
        "**Device `npu-4` is in doubt:** `all 3 jobs on it failed`",
        "### 12 mismatch",
        "`y: 0 differ`",
        "- most likely: `the output differs from the golden`",
        "`device/a5/mc62/fused/p9` and 2 more",
        "**1 skipped:** `no toolchain; install it`",
    ):
        assert line in text


def test_a_good_run_says_so(result_of: MakeResult) -> None:
    text = markdown(RunSummary("r1", Path(), (result_of("device/emu/mc62/fused/small"),), 0, 1.0), {})
    assert text.startswith("## Passed: no job is red: 1 passed")


def test_compiled_programs_are_a_table_with_units_in_its_headings(result_of: MakeResult) -> None:
    peak = Metric("l1_peak", 1024, "B", Source.COUNTER, 2048)
    stages = (StageResult("a|b", State.PASSED, metrics=(peak,)),)
    results = (result_of("compile/emu/mc62/fused", stages=stages), result_of("device/emu/mc62/fused/small"))
    text = markdown(RunSummary("r1", Path(), results, 0, 1.0), {})
    *_, heading, blank, titles, rule, row = text.splitlines()
    assert (heading, blank) == ("### Compiled", "")
    assert titles.startswith("job, program | engine | L1 peak (bytes) | ")
    assert rule.count("|") == titles.count("|")
    name = r"`compile/emu/mc62/fused a\|b`"  # the bar makes no cell of its own
    assert row.startswith(f"{name} | `emulator` | `1024 of 2048` | `-` | `-` | ")


def crashes(result_of: MakeResult, count: int, geometries: int = 5) -> list[Result]:
    """Crashes whose texts differ in more than numbers, in so many geometries."""
    words = ["".join(chr(ord("g") + int(digit)) for digit in f"{n:04}") for n in range(count)]
    return [
        result_of(f"device/a5/g{n % geometries}/fused/p{n}", State.CRASHED, message=f"{word} é" + "x" * 400)
        for n, word in enumerate(words)
    ]


def test_thousands_of_causes_stay_within_the_limit(result_of: MakeResult) -> None:
    text = markdown(RunSummary("r1", Path(), tuple(crashes(result_of, 2000)), 1, 1.0), {})
    assert CHECK_LIMIT * 0.9 < len(text.encode()) <= CHECK_LIMIT
    *_, last = text.splitlines()
    more = int(last.removeprefix("**").split()[0])
    assert last.startswith(f"**{more} more crashed:** {more} other texts, in the JUnit file (`lane device; ")
    assert text.count("### 1 crashed") == 2000 - more


def test_a_wrong_kernel_is_never_cut_for_crashes_that_repeat_each_other(result_of: MakeResult) -> None:
    compiled = StageResult("fused", State.PASSED)
    results = (
        *crashes(result_of, 180),
        result_of("device/a5/mc62/fused/small", State.MISMATCH, message="y: 3 of 64 elements differ"),
        result_of("device/a5/mc62/fused/ties", State.TIMED_OUT, message="no end in 60 s"),
        result_of("device/a2a3/mc62/fused/small", State.SKIPPED, message="no toolchain; install it"),
        result_of("compile/emu/mc62/fused", stages=(compiled,)),
    )
    text = markdown(RunSummary("r1", Path(), results, 1, 1.0), {})
    assert len(text.encode()) <= CHECK_LIMIT
    headings = [line for line in text.splitlines() if line.startswith(("#", "**"))]
    assert headings[1] == "### 1 mismatch"
    shown = headings.count("### 1 crashed")
    (more,) = (line for line in headings if " more crashed" in line)
    assert 0 < shown < 180
    assert more.startswith(f"**{180 - shown} more crashed:** {180 - shown} other texts, in the JUnit file (`")
    (geometries,) = re.findall("; geometry (.*?);", more)
    assert set(geometries.split(", ")) == {"g0", "g1", "g2", "g3", "g4"}
    others = [line.split("`")[0] for line in headings[headings.index(more) + 1 :]]
    assert others == ["### 1 timed-out", "**1 skipped:** ", "### Compiled"]
    assert "left out" not in text


def test_wrong_kernels_that_differ_come_before_the_table_of_compiled_programs(result_of: MakeResult) -> None:
    wrong = [replace(result, state=State.MISMATCH) for result in crashes(result_of, 60)]
    compiled = (StageResult("fused", State.PASSED),)
    programs = [result_of(f"compile/emu/mc62/k{n}", stages=compiled) for n in range(600)]
    text = markdown(RunSummary("r1", Path(), (*wrong, *programs), 1, 1.0), {})
    assert text.count("### 1 mismatch") == 60
    assert "### Compiled" not in text


def test_a_table_that_does_not_fit_costs_no_group(result_of: MakeResult) -> None:
    compiled = (StageResult("fused", State.PASSED),)
    programs = [result_of(f"compile/emu/mc62/k{n}", stages=compiled) for n in range(1500)]
    results = (*crashes(result_of, 20), *programs)
    text = markdown(RunSummary("r1", Path(), results, 1, 1.0), {})
    assert text.count("### 1 crashed") == 20
    assert text.endswith(f"\n\n*1 more paragraph left out: the consumer takes {CHECK_LIMIT} bytes.*\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(ANY_TEXT)
def test_no_text_escapes_its_quotes(result_of: MakeResult, text: str) -> None:
    result = result_of("device/a5/mc62/fused/small", State.CRASHED, message=text)
    written = markdown(RunSummary("r1", Path(), (result,), 1, 1.0), {"fact": text})
    written.encode()
    assert len(written.splitlines()) == 11
    assert all(line.count("`") % 2 == 0 for line in written.splitlines())
