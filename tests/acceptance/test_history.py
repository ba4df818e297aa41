"""What a run leaves for the next nights, and what they can be asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ONE = ("--platform", "emu-a2a3", "--geometry", "pair-24x16", "--kernel", "fused", "--profile", "small")


def test_the_results_say_what_terminal_report_and_exit_code_say(
    pipeline: Callable[..., Any], last_run: Callable[[], Path], report: Callable[[Path], Mapping[str, Any]]
) -> None:
    outcome = pipeline("run", *ONE, "--inject", "no-padding-bottom-2-last")
    results = json.loads((last_run() / "results.json").read_text())
    (job,) = results["jobs"]
    assert results["exit_code"] == outcome.code == 1
    assert results["verdict"] == outcome.out.splitlines()[-1]
    (case,) = report(last_run() / "junit.xml").values()
    assert (job["state"], job["message"]) == ("mismatch", case.message)
    assert job["facts"]["since"] == "new"
    assert job["facts"]["fingerprint"] in case.out
    # The second device was asked for its opinion.
    assert sorted((each["device"], each["state"]) for each in job["tries"]) == [
        ("emulated-0", "mismatch"),
        ("emulated-1", "mismatch"),
    ]
