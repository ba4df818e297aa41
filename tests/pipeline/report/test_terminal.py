from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from pipeline.ground.jobs import Platform, State
from pipeline.ground.results import Result, StageResult
from pipeline.report.terminal import SizedConsole, Terminal
from pipeline.run.listener import RunInfo, RunSummary

MakeResult = Callable[..., Result]


@pytest.fixture
def results(result_of: MakeResult) -> list[Result]:
    return [
        result_of("device/emu-a2a3/mc62/fused/small", seconds=1.24, device=2),
        result_of(
            "device/emu-a5/mc62/fused/small",
            State.MISMATCH,
            message="[red]y[/red]: \x1b[31m3 of 64\x07 differ",
        ),
        result_of("device/a5/mc62/fused/small", State.SKIPPED, message="no toolchain; install it"),
    ]


def watched(console: Console, results: list[Result]) -> str:
    terminal = Terminal(console)
    plan = tuple(result.job for result in results)
    terminal.run_started(RunInfo("r1", Path("/runs/r1"), plan, "", workers=2, notes=("locks lie on NFS",)))
    for result in results[:2]:
        terminal.job_started(result.job, result.device, 1)
    terminal.remark("waiting for [npu-0]: held by process 7\x1b")
    terminal.job_started(results[1].job, None, 2)
    for result in results:
        terminal.job_finished(result)
    aside, doubt = {"npu-0": "507018"}, {"npu-1": "all 3 jobs on it failed"}
    terminal.run_finished(
        RunSummary(
            "r1", Path("/runs/r1"), tuple(results), 1, 9.5, aside, doubt, problems=("oh",), at_best=8.04
        )
    )
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_log_has_a_line_when_a_job_starts_and_one_when_it_ends(results: list[Result]) -> None:
    lines = watched(Console(file=io.StringIO(), width=40), results).splitlines()
    assert lines[:9] == [
        "run r1: 3 jobs, at most 2 at a time, in /runs/r1",
        "note: locks lie on NFS",
        "started device/emu-a2a3/mc62/fused/small on device 2",
        "started device/emu-a5/mc62/fused/small",
        "waiting for [npu-0]: held by process 7",
        "started device/emu-a5/mc62/fused/small, attempt 2",
        "[1/3] passed device/emu-a2a3/mc62/fused/small 1.2 s",
        "[2/3] mismatch device/emu-a5/mc62/fused/small 0.0 s: [red]y[/red]: 3 of 64 differ",
        "1 job cannot run here; the reason is at the end",
    ]
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("line", ["[b]a[/b] 'x' 12", "畳み込み :smile:", "x" * 300, ""])
def test_a_file_gets_the_lines_that_rich_would_print(line: str) -> None:
    ours, theirs = (Console(file=io.StringIO(), width=20) for _ in range(2))
    Terminal(ours).remark(line)
    theirs.print(Text(line, style="yellow"), soft_wrap=True)
    assert isinstance(ours.file, io.StringIO)
    assert isinstance(theirs.file, io.StringIO)
    assert ours.file.getvalue() == theirs.file.getvalue()


def test_jobs_that_cannot_run_here_are_told_in_one_line_before_the_first_that_runs(
    result_of: MakeResult, results: list[Result]
) -> None:
    console = Console(file=io.StringIO(), width=80)
    terminal = Terminal(console)
    skipped = [result_of(f"device/a5/mc62/fused/p{n}", State.SKIPPED, message="no chip") for n in range(100)]
    plan = tuple(result.job for result in (*skipped, results[0]))
    terminal.run_started(RunInfo("r1", Path("/runs/r1"), plan, "", workers=2))
    for result in skipped:
        terminal.job_finished(result)
    terminal.job_started(results[0].job, 2, 1)
    terminal.job_finished(results[0])
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[1:] == [
        "100 jobs cannot run here; the reasons are at the end",
        "started device/emu-a2a3/mc62/fused/small on device 2",
        "[101/101] passed device/emu-a2a3/mc62/fused/small 1.2 s",
    ]


@pytest.mark.parametrize("tty", [False, True])
def test_what_had_ended_before_a_run_was_resumed_does_not_read_as_if_it_ran(
    tty: bool, results: list[Result]
) -> None:
    plan = tuple(result.job for result in results)
    for kept in (1, 3):
        console = Console(file=io.StringIO(), width=80, force_terminal=tty, color_system=None, _environ={})
        terminal = Terminal(console)
        ids = frozenset(job.id for job in plan[-kept:])
        terminal.run_started(RunInfo("r1", Path("/runs/r1"), plan, "", workers=2, resumed=True, kept=ids))
        for result in results[-kept:]:
            terminal.job_finished(result)
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
        assert ("nothing is left to run in run r1\n" in text) == (kept == 3)
        assert ("run r1: resumed: 3 jobs" in text) == ("1 job had ended before\n" in text) == (kept == 1)
        assert "device/" not in text
        assert "cannot run here" not in text


def test_the_table_keeps_names_whole_in_a_file(result_of: MakeResult) -> None:
    name = "compare.emu-a2a3-with-a-long-name+emu-a5-with-a-long-name"
    job = replace(result_of("compare/emu-a2a3/mc62/small").job, platform=Platform(name[8:], "emulator", "a5"))
    console = Console(file=io.StringIO(), width=40)
    Terminal(console).run_finished(RunSummary("r1", Path("/runs/r1"), (Result(job, State.PASSED),), 0, 1.0))
    assert isinstance(console.file, io.StringIO)
    (row,) = [line for line in console.file.getvalue().splitlines() if "compare." in line]
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [name, "1", "1", "", "", "", "0.0"]


def test_compile_runs_tell_engines_apart(result_of: MakeResult) -> None:
    compiled = result_of("compile/emu-a2a3/mc62/fused", stages=(StageResult("fused", State.PASSED),))
    skipped = result_of("compile/a5/mc62/fused", State.SKIPPED, message="no toolchain; install it")
    lines = watched(Console(file=io.StringIO(), width=80), [compiled, skipped]).splitlines()
    assert "programs compiled by emulator: 1; not proved; not verified" in lines
    assert "1 skipped: no toolchain; install it" in lines


def test_the_end_says_what_broke_and_what_was_not_judged(results: list[Result]) -> None:
    text = watched(Console(file=io.StringIO(), width=100), results)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    assert rows == [
        ["device.a5", "1", "", "1", "", "", "0.0"],
        ["device.emu-a2a3", "1", "1", "", "", "", "1.2"],
        ["device.emu-a5", "1", "", "", "1", "", "0.0"],
    ]
    for line in (
        "1 mismatch: [red]y[/red]: 3 of 64 differ",
        "  where: lane device; platform emu-a5; geometry mc62; kernel fused; profile small",
        "  most likely: the output differs from the golden",
        "1 skipped: no toolchain; install it",
        "device npu-0 was set aside: 507018",
        "device npu-1 is in doubt: all 3 jobs on it failed",
        "the pipeline itself failed: oh",
        "run r1: nothing was kept in /runs/r1",
        "seconds: 9.5; no order of these jobs ends before 8.0",
        "1 of 3 jobs is red: 1 passed, 1 mismatch, 1 skipped; 9.5 s, exit code 1",
    ):
        assert line in text.splitlines()


@pytest.mark.parametrize(("crashes", "repeated"), [(2, False), (30, True)])
def test_what_is_most_urgent_is_on_the_last_screen(
    result_of: MakeResult, crashes: int, repeated: bool
) -> None:
    again = {"reproduce": "python -m pipeline run --id x"}
    results = (
        *(
            result_of(f"device/a5/mc62/fused/p{n}", State.CRASHED, message="x" * (n + 1))
            for n in range(crashes)
        ),
        result_of("device/a5/mc62/fused/small", State.MISMATCH, message="y: 3 of 64 differ", facts=again),
    )
    console = Console(file=io.StringIO(), width=100, height=24)
    Terminal(console).run_finished(RunSummary("r1", Path("/runs/r1"), results, 1, 9.5))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    table, *_ = (number for number, line in enumerate(lines) if line.startswith("└"))
    assert lines[table + 1] == "1 mismatch: y: 3 of 64 differ"
    told = ["first of the above: 1 mismatch: y: 3 of 64 differ", "  again: python -m pipeline run --id x"]
    assert (lines[-4:-2] == told) == repeated
    assert (told[0] in lines) == repeated


def test_the_end_names_what_was_kept_and_nothing_else(tmp_path: Path, results: list[Result]) -> None:
    console = Console(file=io.StringIO(), width=40)
    for name, kept in (("jobs", "artefacts"), ("summary.md", "summary, artefacts")):
        (tmp_path / name).mkdir()
        Terminal(console).run_finished(RunSummary("r1", tmp_path, tuple(results), 1, 9.5))
        assert isinstance(console.file, io.StringIO)
        assert f"run r1: {kept} in {tmp_path}" in console.file.getvalue().splitlines()


def test_a_terminal_shows_progress_and_a_line_for_red_jobs_only(results: list[Result]) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None, _environ={})
    text = watched(console, results)
    assert "[2/3] mismatch device/emu-a5/mc62/fused/small" in text
    assert "[1/3] passed" not in text
    assert "started" not in text
    # Printed beside the red line: what is done, and what runs, once, although it is at its second attempt.
    assert re.search(r"1/3 .* \d:\d\d:\d\d device/emu-a5/mc62/fused/small *\r", text)
    assert "\x07" not in text


def test_a_narrow_terminal_shows_how_far_the_run_is_beside_long_names(results: list[Result]) -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system=None, _environ={})
    shown = re.findall(r"[^\r\n]*device/[^\r\n]*…", watched(console, results))
    assert shown
    for line in shown:
        assert re.search(r"\d/3 .* \d:\d\d:\d\d device/", line)


def test_a_dumb_terminal_gets_plain_lines(results: list[Result]) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, _environ={"TERM": "dumb"})
    assert "started device/emu-a5/mc62/fused/small" in watched(console, results)


def test_a_host_without_a_width_loses_no_line() -> None:
    console = SizedConsole(file=io.StringIO(), _environ={"COLUMNS": "0"})
    console.print("run r1")
    assert console.file.getvalue() == "run r1\n"  # type: ignore[attr-defined]
