"""A kernel that is wrong, or dies, now and then: what is told of it, and that it is run as often again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("torch_installed")

Pipeline = Callable[..., Any]
Report = Callable[[Path], Mapping[str, Any]]
LastRun = Callable[[], Path]

OVERLAY = """\
workloads: {mine: {file: mine.py}}
geometries:
  own: {workload: mine, m: 32, k: 64, n: 32}
lanes:
  device:
    include:
      - {platforms: [emu-a2a3], geometries: [own], kernels: [gemm], profiles: [small]}
retries: {limit: 1, patterns: ['exit code 3']}
"""
MOODY = """\
import os
from dataclasses import replace
from pathlib import Path

from workloads.gemm import WORKLOAD as GEMM

MOODS = Path(__file__).with_name("moods")
GOOD = GEMM.program("gemm")
mood = ""


def moody(pl, plan):
    global mood
    if not mood:  # one for each process
        mood, _, rest = (MOODS.read_text() or "good").partition(" ")
        MOODS.write_text(rest)
    if mood == "dies":
        os._exit(3)
    if mood == "bad":
        raise ValueError("out of sorts")
    return GOOD.build(pl, plan)


WORKLOAD = replace(
    GEMM,
    definition=replace(GEMM.definition, name="mine"),
    programs=(replace(GOOD, factory=moody),),
)
"""
JOB = "device/emu-a2a3/own/gemm/small"
OWN = ("--matrix", "own.yaml", "--geometry", "own")


@pytest.fixture
def moods(workspace: Path) -> Callable[[str], None]:
    """Sets how the job's next processes end; those after them are good."""
    (workspace / "own.yaml").write_text(OVERLAY)
    (workspace / "mine.py").write_text(MOODY)

    def feel(words: str) -> None:
        (workspace / "moods").write_text(words)

    return feel


def facts(case: Any) -> dict[str, str]:
    lines = (line.partition("=") for line in case.out.splitlines())
    return {key: value for key, equals, value in lines if equals}


def test_a_job_that_is_wrong_now_and_then_is_repeated_as_often_where_it_is_run_again(
    moods: Callable[[str], None], pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    moods("good good good bad")
    assert pipeline("run", *OWN, "--repeat", "8").code == 1
    # Run once it would pass: only the sixth process is wrong.
    moods("good good good good good bad")
    assert pipeline("run", "--failed", "last").code == 1
    case = report(last_run() / "junit.xml")[JOB]
    assert case.message.startswith("1 of 8 repeats differ from the first")
    assert facts(case)["state"] == "nondeterministic"
    moods("")
    assert pipeline("run", "--failed", "last").code == 0
    assert facts(report(last_run() / "junit.xml")[JOB])["repeats"] == "8"


def test_a_pass_on_a_later_attempt_is_told_with_what_the_earlier_ones_said(
    moods: Callable[[str], None], pipeline: Pipeline, last_run: LastRun
) -> None:
    moods("dies")
    outcome = pipeline("run", *OWN)
    assert outcome.code == 0
    told = outcome.out.splitlines()
    place = told.index("1 job passed only on a later attempt")
    assert told[place + 1].startswith(f"  {JOB}: attempt 2; before: emulated-")
    assert "infrastructure pattern exit code 3" in told[place + 1]
    _, _, heading, line, *_ = (last_run() / "summary.md").read_text().splitlines()
    assert heading == "**1 job passed only on a later attempt**"
    assert line == f"- `{told[place + 1].strip()}`"


def test_a_red_run_and_its_own_later_rerun_are_one_report_in_which_the_newest_counts(
    moods: Callable[[str], None], pipeline: Pipeline, report: Report, workspace: Path
) -> None:
    moods("bad")
    assert pipeline("run", *OWN, "--junit", "first.xml").code == 1
    assert pipeline("run", "--failed", "last", "--junit", "rerun.xml").code == 0
    first = report(workspace / "first.xml")[JOB].properties["run"]
    rerun = report(workspace / "rerun.xml")[JOB].properties["run"]
    words = ("report", "merge", "first.xml", "rerun.xml", "--out", "all.xml")
    assert pipeline(*words).code == 1
    newest = pipeline(*words, "--newest")
    assert newest.code == 0
    assert newest.out.endswith(f": compile-error in run {first}, passed in run {rerun}, which counts\n")
    assert report(workspace / "all.xml")[JOB].properties["report.newest"] == "1"

    # A report of the week before among them.
    old = (workspace / "first.xml").read_text().replace(first, f"20260101{first[8:]}")
    (workspace / "first.xml").write_text(old)
    stale = pipeline(*words, "--newest")
    assert stale.code == 1
    assert "--within allows a week at most: leave the older report out" in stale.out
    assert "runs" in report(workspace / "all.xml")


def test_a_rerun_that_repeats_less_often_hides_nothing(
    moods: Callable[[str], None], pipeline: Pipeline, report: Report, workspace: Path
) -> None:
    moods("good bad")
    assert pipeline("run", *OWN, "--repeat", "4", "--junit", "first.xml").code == 1
    moods("")
    assert pipeline("run", *OWN, "--junit", "second.xml").code == 0
    merged = pipeline("report", "merge", "first.xml", "second.xml", "--out", "all.xml", "--newest")
    assert merged.code == 1
    assert "the newer run may check less: --repeat was 4, is 1\n" in merged.out
    case = report(workspace / "all.xml")[JOB]
    assert (case.kind, case.properties["report.kept"]) == ("failure", "1")
