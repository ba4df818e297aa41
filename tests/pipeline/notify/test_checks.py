from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from pipeline.ground.jobs import State, WorkloadName
from pipeline.ground.results import DIAGNOSIS, OUTCOMES, Outcome, Result, StageResult
from pipeline.notify.checks import MOST, annotated, line_of, lines_of

ROOT = Path(__file__).parents[3]
COMMAND = re.compile(r"::(error|warning) ([^:\r\n]*)::([^\r\n]*)")

MakeResult = Callable[..., Result]


def read(lines: Iterator[str]) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as GitHub reads them: kind, properties, message."""
    found = []
    for line in lines:
        match = COMMAND.fullmatch(line)
        assert match, line
        properties = dict(each.split("=", 1) for each in match[2].split(","))
        found.append(
            (match[1], {name: unquote(each) for name, each in properties.items()}, unquote(match[3]))
        )
    return found


def test_a_cause_is_told_once_at_the_kernels_line(result_of: MakeResult) -> None:
    message = "12 of 99 elements are wrong; the first is y[0, 0]: at blocks.py:88 < fused_conv2d.py:64 (x)"
    stage = StageResult("fused", State.REFUTED, message)
    jobs = [
        result_of(f"compile/emu-a{number}/g/fused", State.REFUTED, message=message, stages=(stage,))
        for number in (3, 5)
    ]
    (told,) = read(annotated(jobs, ROOT))
    kind, properties, text = told
    assert kind == "error"
    assert properties == {"file": "kernels/blocks.py", "line": "88", "title": "2 refuted"}
    assert (ROOT / properties["file"]).exists()
    assert text.splitlines()[0] == message
    assert "where: lane compile; platform emu-a3, emu-a5; " in text


def test_nothing_that_a_kernel_prints_ends_a_command(result_of: MakeResult) -> None:
    evil = "100 %, a\r\n::set-output name=x::y:,"
    job = result_of("device/emu/g/fused/small", State.CRASHED, message=evil, causes=(evil,))
    (told,) = read(annotated([job], ROOT))
    assert told[1]["title"].startswith("1 job, one cause: 100 %, a ::set-output name=x::y:,")
    assert told[2].startswith("100 %, a ::set-output name=x::y:,\n")


def test_no_control_of_the_writing_direction_is_in_a_command(result_of: MakeResult) -> None:
    hostile = "a\u202eb"
    one = result_of("device/emu/g/fused/small", State.CRASHED, message=hostile, facts={DIAGNOSIS: hostile})
    (line,) = annotated([replace(one, job=replace(one.job, geometry_name=hostile))], Path())
    assert "geometry a\\u202eb" in line
    assert "\u202e" not in line


def test_the_hosts_errors_are_warnings(result_of: MakeResult) -> None:
    jobs = [
        result_of(f"device/emu/g/k{number}/small", state, message=state.value)
        for number, state in enumerate(OUTCOMES)
    ]
    red = {state for state, end in OUTCOMES.items() if end.outcome in (Outcome.FAILURE, Outcome.ERROR)}
    shown = read(annotated(jobs[:10], ROOT)) + read(annotated(jobs[10:], ROOT))
    assert len(shown) == len(red)
    assert [text.splitlines()[0] for kind, _, text in shown if kind == "warning"] == ["infrastructure"]


@pytest.mark.parametrize("causes", [MOST, MOST + 1, 26])
def test_github_shows_ten_of_a_kind(causes: int, result_of: MakeResult) -> None:
    jobs = [
        result_of(f"device/emu/g/k{number}/small", state, message=chr(97 + number) * 3)
        for number in range(causes)
        for state in (State.CRASHED, State.INFRASTRUCTURE)
    ]
    told = read(annotated(jobs, ROOT))
    for kind in ("error", "warning"):
        texts = [text for each, _, text in told if each == kind]
        assert len(texts) == MOST
        more = causes - MOST + 1
        counted = f"{more} more causes, {more} jobs: see the summary"
        assert texts[-1] == counted if causes > MOST else "more cause" not in texts[-1]


def test_a_line_of_the_users_own_kernel_is_found_beside_the_workload(
    tmp_path: Path, result_of: MakeResult
) -> None:
    (tmp_path / "own.py").write_text("")
    job = result_of("device/emu/g/own/small", State.COMPILE_ERROR, message="own.py:7: unknown operator")
    assert line_of(job, tmp_path) is None  # it is not known where that file is
    of_user = replace(job.job, workload=WorkloadName("mine", str(tmp_path / "workload.py")))
    assert line_of(replace(job, job=of_user), tmp_path) == ("own.py", 7)


def test_the_diagnosis_is_asked_first(result_of: MakeResult) -> None:
    stage = StageResult(
        "fused", State.MISMATCH, "y differs, see blocks.py:1", facts={DIAGNOSIS: "at plan.py:3"}
    )
    job = result_of("device/emu/g/fused/small", State.MISMATCH, message="blocks.py:2", stages=(stage,))
    assert line_of(job, ROOT) == ("kernels/plan.py", 3)
    assert list(dict.fromkeys(lines_of(job, ROOT))) == [
        ("kernels/plan.py", 3),
        ("kernels/blocks.py", 1),
        ("kernels/blocks.py", 2),
    ]
