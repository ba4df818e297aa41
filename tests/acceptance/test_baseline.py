"""A night that is red anyway, as its reader meets it: with a baseline only what is new is red."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("torch_installed", "recorded")

JOB = "device/emu-a2a3/pair-24x16/fused"
FUSED = ("run", "--platform", "emu-a2a3", "--geometry", "pair-24x16", "--kernel", "fused")
FUSED += ("--inject", "bias-missing-2")

Report = Callable[[Path], Mapping[str, Any]]


def test_only_what_is_new_is_red(
    pipeline: Callable[..., Any], report: Report, last_run: Callable[[], Path], workspace: Path
) -> None:
    assert pipeline(*FUSED, "--profile", "small").code == 1
    before = last_run()

    # The same job fails as before, and another one fails that the baseline does not have.
    tonight = pipeline(*FUSED, "--baseline", "last")
    assert tonight.code == 1
    assert "1 of 2 jobs is red: 1 mismatch, 1 known-failure; " in tonight.out
    told = f"1 failure not counted: the baseline {before.name} has the same"
    assert told in tonight.out
    summary = (last_run() / "summary.md").read_text()
    assert summary.startswith("## Failed (exit code 1): 1 of 2 jobs is red: 1 mismatch, 1 known-failure\n")
    assert told in summary
    cases = report(last_run() / "junit.xml")
    assert {name: case.kind for name, case in cases.items()} == {
        f"{JOB}/small": "skipped",
        f"{JOB}/ties": "failure",
    }
    assert cases[f"{JOB}/small"].message.startswith(f"known, fails as in {before.name}: mismatch: y: ")
    assert cases[f"{JOB}/ties"].properties["baseline"] == before.name

    # An earlier run is judged by a baseline anew: by a report, by the folder of a run, by none.
    itself = pipeline("report", "show", "last", "--baseline", "last")
    assert (itself.code, itself.out) == (4, "")
    assert f"is run {last_run().name} itself" in itself.err
    for own in (last_run(), last_run() / "junit.xml", last_run() / "results.json"):
        itself = pipeline("report", "show", "last", "--baseline", own)
        assert (itself.code, itself.out) == (4, "")
        assert f"holds run {last_run().name} itself" in itself.err
    other = (last_run() / "junit.xml").read_text().replace(last_run().name, "20260309-040000-0000000001")
    (workspace / "night.xml").write_text(other)
    for words, code in (((), 1), (("--baseline", "night.xml"), 0), (("--baseline", before), 1)):
        assert pipeline("report", "show", "last", *words).code == code
    shown = pipeline("report", "show", "last", "--baseline", "night.xml", "--junit", "shown.xml")
    assert "no job is red: 2 known-failure" in shown.out
    assert {case.kind for case in report(workspace / "shown.xml").values()} == {"skipped"}
    cases = report(last_run() / "junit.xml")
    assert {case.kind for case in cases.values()} == {
        "skipped",
        "failure",
    }  # as the run itself said it


def test_a_baseline_that_cannot_be_one_is_refused(refused: Callable[..., str], workspace: Path) -> None:
    assert "nowhere: is no run, file or folder here" in refused(*FUSED, "--baseline", "nowhere")
    assert "there is no run yet" in refused(*FUSED, "--baseline", "last")
    (workspace / "night.xml").write_text("<testsuites/>")
    said = refused(*FUSED, "--baseline", "night.xml", "--junit", "night.xml")
    assert "this file has another use in this run" in said
    assert (workspace / "night.xml").exists()
