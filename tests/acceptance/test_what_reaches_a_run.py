"""What is set outside the command line, and what earlier runs left: that a run heeds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Pipeline = Callable[..., Any]
Report = Callable[[Path], Mapping[str, Any]]
LastRun = Callable[[], Path]

EMULATED = ("--platform", "emu-a2a3", "--geometry", "bands")
COMPILED = ("compile", *EMULATED, "--kernel", "fused")
JOB = "compile/emu-a2a3/bands/fused"

NEVER_IN_TIME = f"""\
timeouts: [{{jobs: {JOB}, timeout: 0.001}}]
retries: {{limit: 1, patterns: ['did not end within']}}
"""


def test_cards_beside_those_that_were_lent_are_refused(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASK_DEVICE", "2,1")
    assert "--devices: device 0 is not among what TASK_DEVICE lent (2, 1)" in refused(
        "run", "--platform", "a2a3", "--devices", "0"
    )


@pytest.mark.parametrize(("words", "attempts"), [((), 2), (("--retries", "0"), 1)])
def test_the_matrix_says_what_is_tried_again_and_how_often(
    words: tuple[str, ...],
    attempts: int,
    pipeline: Pipeline,
    report: Report,
    last_run: LastRun,
    workspace: Path,
) -> None:
    (workspace / "sick.yaml").write_text(NEVER_IN_TIME)
    assert pipeline(*COMPILED, "--matrix", "sick.yaml", *words).code == 6
    case = report(last_run() / "junit.xml")[JOB]
    assert "infrastructure pattern did not end within" in case.message
    assert f"attempts={attempts}" in case.out.splitlines()


def test_a_run_prunes_old_ones(pipeline: Pipeline, last_run: LastRun, workspace: Path) -> None:
    old = workspace / "out" / "runs" / "20200102-030405-000000000a"
    old.mkdir(parents=True)
    assert pipeline(*COMPILED).code == 0
    assert not old.exists()
    assert last_run().exists()


def test_shards_are_balanced_by_what_jobs_took(
    pipeline: Pipeline, last_run: LastRun, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--lane", "compile", *EMULATED)
    plan = pipeline("list", *words).out.splitlines()
    assert pipeline("compile", *EMULATED).code == 0
    journal = last_run() / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        if event["type"] == "Finished":
            event["result"]["seconds"] = 1000.0 if event["result"]["job"]["id"] == JOB else 1.0
    journal.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    remember_again(pipeline, journal)

    def shards(*more: str) -> list[list[str]]:
        return [pipeline("list", *words, "--shard", f"{n}/2", *more).out.splitlines() for n in (1, 2)]

    assert shards() == [[JOB], [job for job in plan if job != JOB]]
    # Of a database that hosts share only the runs before the day count: other shards write to it meanwhile.
    monkeypatch.setenv("PIPELINE_HISTORY", f"sqlite:///{workspace}/out/history.sqlite")
    assert shards("--date", last_run().name[:4] + "-01-01") != shards("--date", "2099-01-01")
    assert shards("--date", "2099-01-01") == [[JOB], [job for job in plan if job != JOB]]


# What the command line asked of an earlier run holds where the run is taken up.

ONE = ("run", *EMULATED, "--kernel", "fused", "--profile", "small")
RUN_JOB = "device/emu-a2a3/bands/fused/small"


def facts(out: str) -> dict[str, str]:
    lines = (line.partition("=") for line in out.splitlines())
    return {key: value for key, equals, value in lines if equals}


def test_failed_jobs_are_repeated_as_often_unless_it_is_said_anew(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline(*ONE, "--inject", "unwritten", "--repeat", "3").code == 1
    for words, repeats in (((), "3"), (("--repeat", "2"), "2"), ((), "2")):
        assert pipeline("run", "--failed", "last", *words).code == 1
        case = report(last_run() / "junit.xml")[RUN_JOB]
        assert facts(case.out)["repeats"] == case.properties["repeat"] == repeats
        assert facts(case.out)["reproduce"].endswith(f"--inject unwritten --repeat {repeats}")


@pytest.mark.parametrize("how", ["--resume", "--failed"])
def test_retries_and_those_of_an_overlay_hold_where_a_run_is_taken_up(
    how: str, pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace / "sick.yaml").write_text(NEVER_IN_TIME)
    for words, attempts in (((), "2"), (("--retries", "0"), "1")):
        assert pipeline(*COMPILED, "--matrix", "sick.yaml", *words, "--deadline", "0.0001").code == 2
        assert pipeline("compile", how, "last").code == 6
        case = report(last_run() / "junit.xml")[JOB]
        assert "infrastructure pattern did not end within" in case.message
        assert facts(case.out)["attempts"] == attempts
        assert ("--retries 0" in facts(case.out)["reproduce"]) == bool(words)
    assert pipeline("compile", "--failed", "last", "--retries", "1").code == 6
    assert facts(report(last_run() / "junit.xml")[JOB].out)["attempts"] == "2"


def test_an_overlay_that_is_gone_is_named_where_a_run_is_taken_up(
    pipeline: Pipeline, refused: Callable[..., str], workspace: Path
) -> None:
    (workspace / "sick.yaml").write_text(NEVER_IN_TIME)
    assert pipeline(*COMPILED, "--matrix", "sick.yaml").code == 6
    (workspace / "sick.yaml").unlink()
    assert refused("compile", "--failed", "last").startswith("sick.yaml: cannot be read")


@pytest.mark.parametrize("how", ["--resume", "--failed"])
def test_a_run_is_taken_up_with_the_references_it_was_begun_with(
    how: str,
    pipeline: Pipeline,
    refused: Callable[..., str],
    report: Report,
    last_run: LastRun,
    workspace: Path,
) -> None:
    mine, other = workspace / "mine.json", workspace / "other.json"
    mine.write_text("{}")
    other.write_text("{}")
    words = (*ONE, "--inject", "unwritten", "--references", "mine.json")
    assert pipeline(*words, "--deadline", "0.0001").code == 2
    mine.unlink()
    assert refused("run", how, "last").startswith(f"{mine}: the references cannot be read: No such file")
    assert pipeline("run", how, "last", "--references", "other.json").code == 1
    case = report(last_run() / "junit.xml")[RUN_JOB]
    assert f"--references {other}" in facts(case.out)["reproduce"]


def test_a_reference_without_a_measurement_is_red_until_it_is_removed(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace / "references.json").write_text(
        json.dumps({RUN_JOB: {"fused.device_us": {"value": 120.5, "lower": -10, "upper": 5, "unit": "us"}}})
    )
    message = (
        "fused.device_us was not measured, but has the reference 120.5 us -10 % +5 %; "
        "--update-references removes it"
    )
    outcome = pipeline(*ONE)
    assert outcome.code == 1
    assert f"1 performance: {message}" in outcome.out.splitlines()
    assert message in (last_run() / "summary.md").read_text()
    (case,) = report(last_run() / "junit.xml").values()
    assert (case.kind, case.message) == ("failure", message)
    updating = pipeline(*ONE, "--update-references")
    assert f"{RUN_JOB} fused.device_us: 120.5 us -> removed, it was not measured" in updating.out
    assert pipeline(*ONE).code == 0


BOTH = ("run", "--geometry", "bands", "--kernel", "fused", "--profile", "small")
CARD_JOB = "device/a2a3/bands/fused/small"


def had_a_card(pipeline: Pipeline, journal: Path) -> None:
    """Make a run one of a host that had the card's toolchain: its skipped job passed there."""
    lines = journal.read_text().splitlines(keepends=True)
    skipped = [number for number, line in enumerate(lines) if '"state":"skipped"' in line]
    assert len(skipped) == 1
    lines[skipped[0]] = lines[skipped[0]].replace('"state":"skipped"', '"state":"passed"')
    journal.write_text("".join(lines))
    remember_again(pipeline, journal)


def remember_again(pipeline: Pipeline, journal: Path) -> None:
    """Bring a run whose journal was changed into the history as it is now."""
    (journal.parent / "results.json").unlink()
    assert pipeline("history", "import", journal.parent).code == 0


@pytest.mark.thorough
@pytest.mark.usefixtures("recorded")
def test_a_job_that_can_no_longer_run_is_red_until_that_is_accepted(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    for _ in range(2):  # what could never run here is skipped every time
        assert pipeline(*BOTH).code == 0
    had_a_card(pipeline, last_run() / "journal.jsonl")
    ran = last_run().name
    for _ in range(2):  # it stays red: a red night is no excuse for the next
        outcome = pipeline(*BOTH)
        assert outcome.code == 6
        case = report(last_run() / "junit.xml")[CARD_JOB]
        assert case.kind == "error"
        assert case.message.startswith(f"ran in run {ran}, cannot run now: ")
        assert case.message.endswith("; --allow-new-skips accepts it")
        assert facts(case.out)["ran_in"] == ran
        told = outcome.out.splitlines()
        assert f"  {CARD_JOB}: ran in run {ran}" in told
        summary = (last_run() / "summary.md").read_text().splitlines()
        assert summary[2:4] == [
            "**1 job ran before and cannot run now**",
            f"- `{CARD_JOB}: ran in run {ran}`",
        ]
    assert pipeline("run", "--failed", "last").code == 6
    # Another fault, other stages, other data: nothing that can be compared.
    assert pipeline("compare", "--geometry", "bands", "--profile", "small").code == 0

    accepted = pipeline(*BOTH, "--allow-new-skips")
    assert accepted.code == 0
    assert "1 job ran before and cannot run now" in accepted.out
    case = report(last_run() / "junit.xml")[CARD_JOB]
    assert (case.kind, facts(case.out)["ran_in"]) == ("skipped", ran)
    assert case.properties["allow_new_skips"] == "True"
    outcome = pipeline(*BOTH)
    assert outcome.code == 0
    assert "ran before" not in outcome.out


def test_a_job_that_ran_before_the_run_was_resumed_on_other_sources_is_red_too(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline(*BOTH).code == 0
    journal = last_run() / "journal.jsonl"
    had_a_card(pipeline, journal)
    assert pipeline("run", "--resume", "last").code == 0  # its pass is kept
    journal.write_text(journal.read_text().replace('"kernels/":"', '"kernels/":"0'))
    assert pipeline("run", "--resume", "last").code == 6
    message = report(last_run() / "junit.xml")[CARD_JOB].message
    assert message.startswith(f"ran in run {last_run().name}, cannot run now: ")


def test_a_fault_that_has_no_place_now_is_no_check_that_fell_away(
    pipeline: Pipeline, last_run: LastRun
) -> None:
    """Whether the fault is committed depends on the kernel, not on the host."""
    words = (
        "run",
        *EMULATED,
        "--kernel",
        "first-tile-load",
        "--profile",
        "small",
        "--inject",
        "bias-missing-2",
    )
    assert pipeline(*words).code == 5
    had_a_card(pipeline, last_run() / "journal.jsonl")
    assert pipeline(*words).code == 5


@pytest.mark.thorough
def test_the_end_of_an_expected_failure_is_judged_by_the_night_that_is_asked_for(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace / "known.yaml").write_text(
        f"expected_failures: [{{jobs: {RUN_JOB}, reason: known, link: 'https://issues.example/1', "
        "until: 2020-03-10, cause: unwritten}]\n"
    )
    words = (*ONE, "--matrix", "known.yaml", "--inject", "unwritten")
    assert pipeline(*words).code == 1
    assert pipeline(*words, "--date", "2020-03-11").code == 1
    assert pipeline(*words, "--date", "2020-03-10").code == 0
    (case,) = report(last_run() / "junit.xml").values()
    assert (case.kind, case.properties["date"]) == ("skipped", "2020-03-10")
    assert "--date 2020-03-10" in facts(case.out)["reproduce"]
    assert pipeline(*words, "--date", "2020-03-10", "--deadline", "0.0001").code == 2
    assert pipeline("run", "--resume", "last").code == 0
    other = pipeline("run", "--failed", "last", "--date", "2020-03-11")
    assert other.err == (
        f"--date 2020-03-11: run {last_run().name} was begun with --date 2020-03-10; "
        "leave --date out or begin a new run\n"
    )


def test_a_resumed_run_tells_what_is_repeated_as_often_now(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline(*ONE, "--repeat", "3", "--deadline", "0.0001").code == 2
    assert pipeline("run", "--resume", "last", "--repeat", "1").code == 0
    case = report(last_run() / "junit.xml")[RUN_JOB]
    assert (case.properties["repeat"], case.properties["resumed.repeat"]) == ("3", "1")
    assert "repeats" not in facts(case.out)


def test_a_journal_of_before_settings_is_refused(
    pipeline: Pipeline, refused: Callable[..., str], last_run: LastRun
) -> None:
    assert pipeline(*COMPILED).code == 0
    journal = last_run() / "journal.jsonl"
    first, *rest = journal.read_text().splitlines(keepends=True)
    begun = json.loads(first)
    del begun["settings"]
    journal.write_text("".join([f"{json.dumps(begun)}\n", *rest]))
    line = refused("compile", "--failed", "last")
    assert "journal.jsonl:1: damaged line: " in line
    assert line.endswith("it is of another version, or was changed; begin a new run")
