"""What a run leaves for the next nights, and what they can be asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from pipeline.commands.cli import main

ONE = ("--platform", "emu-a2a3", "--geometry", "pair-24x16", "--kernel", "fused", "--profile", "small")

pytestmark = pytest.mark.usefixtures("recorded")


@pytest.mark.usefixtures("two_devices")
def test_the_results_say_what_terminal_report_and_exit_code_say(
    pipeline: Callable[..., Any], last_run: Callable[[], Path], report: Callable[[Path], Mapping[str, Any]]
) -> None:
    outcome = pipeline("run", *ONE, "--inject", "unwritten")
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


def answers(pipeline: Callable[..., Any], *question: str) -> Any:
    outcome = pipeline("history", *question, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    return json.loads(outcome.out)["answers"]


JOB = "device/emu-a2a3/pair-24x16/fused/small"


def test_the_morning_after(
    pipeline: Callable[..., Any], last_run: Callable[[], Path], workspace: Path
) -> None:
    """A job breaks, is told, and is well again; what is forgotten or lost comes back from run folders."""
    sick = ("run", *ONE, "--inject", "unwritten")
    nights = []
    for words in (sick, sick):
        assert pipeline(*words).code == 1
        nights.append(last_run().name)
    (job,) = json.loads((last_run() / "results.json").read_text())["jobs"]
    assert job["facts"]["since"] == nights[0]
    (one,) = answers(pipeline, "failing", nights[1])
    assert (one["job"], one["since"], one["runs"], one["days"]) == (JOB, nights[0], 2, 0)
    assert [each["job"] for each in answers(pipeline, "new", nights[0])] == [JOB]
    assert answers(pipeline, "new", nights[1]) == []
    table = pipeline("history", "failing", nights[1]).out.splitlines()
    assert table[0] == f"failing, run {nights[1]}: 1"
    assert table[1].split() == ["job", "since", "runs", "days", "now"]
    assert table[2].split()[:4] == [JOB, nights[0], "2", "0"]
    assert f"mismatch fused unwritten in run {nights[1]} of " in table[2]

    assert pipeline("run", *ONE).code == 0
    assert pipeline("history", "new").out == f"new, run {last_run().name}: none\n"
    assert {each["what"] for each in answers(pipeline, "diff", nights[0], "last")} >= {
        "data, fault, stages",
        JOB,
    }
    (workspace / "out" / "history.sqlite").unlink()
    outcome = pipeline("history", "import", "out")
    assert (outcome.code, outcome.out) == (0, "3 runs brought in, 0 left out\n")
    assert pipeline("history", "prune", "--runs", "2", "--days", "30").out == "1 run forgotten\n"
    assert [each["since"] for each in answers(pipeline, "failing", nights[1])] == [nights[1]]


def test_a_night_at_another_time_whose_work_is_handed_in(
    pipeline: Callable[..., Any], last_run: Callable[[], Path]
) -> None:
    """So `benchmarks.nights` makes nights."""
    at = datetime(2026, 3, 4, 23, tzinfo=timezone.utc)
    call = ("run", *ONE)
    assert main(call, at.date, lambda: at, "benchmarks.nights.troubles:wrong_once") == 1
    results = json.loads((last_run() / "results.json").read_text())
    assert (results["run"][:15], results["facts"]["date"]) == ("20260304-230000", "2026-03-04")
    assert datetime.fromisoformat(results["jobs"][0]["started"]) == at
    assert [one["job"] for one in answers(pipeline, "new")] == [JOB]


def test_each_question_is_answered(pipeline: Callable[..., Any]) -> None:
    assert pipeline("run", *ONE).code == 0
    assert answers(pipeline, "failing") == answers(pipeline, "causes") == []
    none = ("new", "fixed", "recurring", "flaky", "stabilised", "timed-out", "slower", "faster", "red")
    for question in (*none, "skipped", "vanished"):
        assert pipeline("history", question).out.endswith(": none\n")
        assert answers(pipeline, question, "--runs", "5") == []
    for words in (("nights",), ("by-platform",), ("by-device",), ("last-pass", JOB)):
        assert len(answers(pipeline, *words)) == 1
        assert len(pipeline("history", *words).out.splitlines()) == 3
    assert pipeline("history", "first-bad", JOB).out.endswith(": none\n")


def test_a_mistake_is_one_line(pipeline: Callable[..., Any], refused: Callable[..., str]) -> None:
    assert refused("history", "new") == (
        "out/history.sqlite: there is no history yet; name another --output, or bring runs in: "
        "python -m pipeline history import out/runs"
    )
    assert pipeline("run", *ONE).code == 0
    unknown = refused("history", "new", "nope")
    assert unknown.startswith("the history has no run or branch 'nope'; the latest runs are: 20")
    told = refused("history", "first-bad", JOB + "s")
    assert told.endswith(f"the closest known name is `{JOB}`")
    assert refused("history", "first-bad") == "history first-bad: write history first-bad JOB [RUN]"
    assert refused("history", "diff", "last") == "history diff last: write history diff RUN RUN"
    assert refused("history", "import") == "history import: write history import PATH..."
    assert refused("history", "new", "--days", "3") == "history new: --days says nothing to it: leave it out"
    for words in (("diff", "last", "last"), ("failing",), ("causes",)):
        assert "--runs says nothing" in refused("history", *words, "--runs", "3")
    assert refused("history", "prune").startswith("history prune: say what to keep: --days N, --runs N")
    assert "invalid choice: 'olds'" in refused("history", "olds")
    assert "must be a whole number, at least 1" in refused("history", "new", "--runs", "0")
    assert "nowhere: cannot be read: No such file" in refused("history", "import", "nowhere")


@pytest.mark.parametrize("url", ["postgresql://ann:secret@127.0.0.1:1/nights", "secret"])
def test_a_history_that_cannot_be_used_changes_no_run(
    url: str,
    pipeline: Callable[..., Any],
    refused: Callable[..., str],
    last_run: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIPELINE_HISTORY", url)
    outcome = pipeline("run", *ONE)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1].endswith("exit code 0")
    assert json.loads((last_run() / "results.json").read_text())["exit_code"] == 0
    (line,) = outcome.err.splitlines()
    assert f"the report of run {last_run().name} is whole" in line
    assert "secret" not in line + refused("history", "new")


def test_a_history_that_is_off_is_not_written(
    pipeline: Callable[..., Any], workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINE_HISTORY", "off")
    ended = pipeline("run", *ONE)
    assert (ended.code, ended.err) == (0, "")
    assert not (workspace / "out" / "history.sqlite").exists()
