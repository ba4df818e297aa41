"""Expected failures, as a user of the shipped matrix meets them: an excuse is no wider than its reason."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import junitparser
import pytest

from pipeline.commands.cli import main

pytestmark = pytest.mark.usefixtures("torch_installed")

ROOT = Path(__file__).parents[2]
PAIR = ("--platform", "emu-a2a3", "--geometry", "pair-24x16")
FUSED = ("run", *PAIR, "--kernel", "fused")
SMALL = (*FUSED, "--profile", "small")
FULL = (*FUSED, "--profile", "full-range@7")
FAULT = ("--inject", "bias-missing-2")
OF_SMALL, OF_FULL = (f"device/emu-a2a3/pair-24x16/fused/{name}" for name in ("small", "full-range@7"))

Pipeline = Callable[..., Any]
Report = Callable[[Path], Mapping[str, Any]]
LastRun = Callable[[], Path]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def night(workspace: Path, cases: Path) -> Path:
    """The folder of the overlays of nights that went wrong, and the shipped matrix to lay them over.

    Each emulated platform has one device here, so that a job that fails is not tried on a second one.
    """
    matrix = (ROOT / "matrix.yaml").read_text()
    (workspace / "matrix.yaml").write_text(matrix.replace("devices: [0, 1]", "devices: [0]"))
    return cases / "nights"


@pytest.fixture
def spoiled(workspace: Path) -> Callable[[str], Path]:
    """A copy of the sources in which what a program gives is made this expression of it."""

    def make(expression: str) -> Path:
        source = workspace / f"source-{len(list(workspace.glob('source-*')))}"
        source.mkdir()
        for room in ("golden", "kernels", "workloads", "emulator"):
            (source / room).symlink_to(ROOT / room)
        # With the bytecode, which is good for every file that is not changed.
        shutil.copytree(ROOT / "pipeline", source / "pipeline")
        module = source / "pipeline" / "work" / "comparison.py"
        given = "        (output,) = done.outputs.values()\n"
        text = module.read_text()
        assert text.count(given) == 1
        module.write_text(text.replace(given, f"{given}        output = {expression}\n"))
        return source

    return make


def overlay(workspace: Path, *lines: str, jobs: str = OF_SMALL) -> str:
    """An overlay that expects jobs to fail, with these lines in its entry; gives its name."""
    entry = [f"jobs: {jobs}", "reason: known", "link: https://issues.example/1", *lines]
    (workspace / "known.yaml").write_text(f"expected_failures: [{{{', '.join(entry)}}}]\n")
    return "known.yaml"


def test_an_excused_compare_job_is_green_everywhere(
    pipeline: Pipeline, last_run: LastRun, report: Report, night: Path
) -> None:
    words = ("compare", *PAIR, "--profile", "full-range@7", *FAULT)
    outcome = pipeline(*words, "--matrix", night / "expected-compare.yaml")
    assert outcome.code == 0
    assert "no job is red: 1 expected-failure" in outcome.out
    summary = (last_run() / "summary.md").read_text()
    assert summary.startswith("## Passed: no job is red: 1 expected-failure")
    # It names no cause, and both say what to add.
    assert "which names no cause: add `cause: bias-missing-2` to it" in outcome.out
    assert "which names no cause: add ˋcause: bias-missing-2ˋ to it" in summary
    junit = last_run() / "junit.xml"
    kinds = [case.kind for case in report(junit).values()]
    assert (kinds.count("skipped"), kinds.count("passed")) == (4, 5)
    assert junitparser.JUnitXml.fromfile(str(junit)).failures == 0
    merged = pipeline("report", "merge", junit, "--out", "merged.xml")
    assert (merged.code, merged.out) == (0, "merged.xml: 9 cases, 0 failures, 0 errors, 4 skipped\n")
    assert pipeline("report", "show").code == 0


def test_an_output_of_zeros_is_not_the_failure_that_was_excused(
    start: Start, spoiled: Callable[[str], Path], report: Report, last_run: LastRun, night: Path
) -> None:
    words = (*FULL, "--matrix", night / "expected-compare.yaml")
    process = start(*words, source=spoiled("np.zeros_like(output)"))
    out, err = process.communicate()
    assert (process.returncode, err) == (1, "")
    (case,) = report(last_run() / "junit.xml").values()
    assert case.kind == "failure"
    for text in (out, case.message, (last_run() / "summary.md").read_text()):
        assert 'the entry "saturates one too high where the offset is odd" (https://example.org/2) ' in text
        assert "excuses no output with one value in all wrong elements" in text


@pytest.mark.thorough
def test_a_failure_unlike_the_one_that_was_excused_last_is_red(
    start: Start, spoiled: Callable[[str], Path], pipeline: Pipeline, last_run: LastRun, workspace: Path
) -> None:
    known = ("--matrix", overlay(workspace))
    too_high = start(*SMALL, *known, source=spoiled("output ^ 1"))
    assert (too_high.wait(), too_high.stderr and too_high.stderr.read()) == (0, "")
    before = last_run().name
    again = pipeline(*SMALL, *known, *FAULT)
    assert again.code == 1
    assert f"it fails otherwise than in run {before}, which had fingerprint mismatch fused" in again.out
    # What was excused still is, and the user may say that the other failure is the known one.
    assert start(*SMALL, *known, source=spoiled("output ^ 1")).wait() == 0
    assert pipeline(*SMALL, "--matrix", overlay(workspace, "cause: bias-missing-2"), *FAULT).code == 0


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("bias-missing-2", 0, "expected: known (https://issues.example/1); mismatch: "),
        (
            "bias-missing-1",
            1,
            'not excused: the entry "known" (https://issues.example/1) is for cause bias-missing-2; '
            "this failure has cause bias-missing-1; "
            "if it is known too, add an entry with `cause: bias-missing-1`",
        ),
        (None, 1, "passed, but expected to fail: known"),
    ],
)
def test_an_entry_with_a_cause_excuses_that_one_alone(
    fault: str | None, code: int, said: str, pipeline: Pipeline, workspace: Path
) -> None:
    words = (*SMALL, "--matrix", overlay(workspace, "cause: bias-missing-2"))
    outcome = pipeline(*words, *(("--inject", fault) if fault else ()))
    assert outcome.code == code
    assert said in outcome.out


def as_by_a_bug(run: Path) -> None:
    """Let a run's journal say that its fault was not injected."""
    journal = run / "journal.jsonl"
    journal.write_text(re.sub('"inject":"[^"]*"', '"inject":""', journal.read_text()))


def filled(text: str) -> str:
    """What `report excuses` printed, with reason and link filled in."""
    with_reason = re.sub(r"reason: .*", "reason: it is known", text)
    return re.sub(r"link: .*", "link: https://issues.example/2", with_reason)


@pytest.mark.parametrize("lane", ["run", "compare"])
def test_the_entry_that_is_printed_excuses_that_failure_and_no_other(
    lane: str, pipeline: Pipeline, refused: Callable[..., str], last_run: LastRun, workspace: Path
) -> None:
    words = (lane, *PAIR, "--profile", "small", *(("--kernel", "fused") if lane == "run" else ()))
    assert pipeline(*words, *FAULT).code == 1
    what = "has --inject bias-missing-2: its failures are no bugs to excuse"
    assert f"run {last_run().name} {what}" in refused("report", "excuses")
    as_by_a_bug(last_run())
    printed = pipeline("report", "excuses")
    assert (printed.code, printed.err) == (0, "")
    assert "    cause: bias-missing-2\n" in printed.out
    mine = workspace / "mine.yaml"
    mine.write_text(printed.out)
    assert "expected_failures[0].reason: has no value" in refused(*words, "--matrix", "mine.yaml")
    mine.write_text(filled(printed.out))
    assert pipeline(*words, "--matrix", "mine.yaml", *FAULT).code == 0
    if lane == "run":
        assert pipeline(*words, "--matrix", "mine.yaml", "--inject", "bias-missing-1").code == 1


def test_a_failure_without_a_known_cause_is_excused_by_its_fingerprint(
    start: Start, spoiled: Callable[[str], Path], pipeline: Pipeline, workspace: Path
) -> None:
    assert start(*SMALL, source=spoiled("output ^ 1")).wait() == 1
    printed = pipeline("report", "excuses", "last").out
    assert '    fingerprint: "mismatch fused' in printed
    (workspace / "mine.yaml").write_text(filled(printed))
    words = (*SMALL, "--matrix", "mine.yaml")
    assert start(*words, source=spoiled("output ^ 1")).wait() == 0
    assert pipeline(*words, *FAULT).code == 1


@pytest.mark.thorough
def test_an_entry_for_no_known_fault_hides_no_other_bug_of_the_same_form(
    start: Start, spoiled: Callable[[str], Path], pipeline: Pipeline, workspace: Path
) -> None:
    """Most elements are wrong in both, by values without a pattern: the fingerprint is the same."""
    noise = "np.random.default_rng({}).integers(-128, 128, output.shape).astype(output.dtype)"
    first, second = (spoiled(noise.format(seed)) for seed in (1, 2))
    assert start(*SMALL, source=first).wait() == 1
    printed = pipeline("report", "excuses").out
    assert "  # No known fault explains this: " in printed
    assert "until its output changes.\n  - jobs: " in printed
    (workspace / "mine.yaml").write_text(filled(printed))
    words = (*SMALL, "--matrix", "mine.yaml")
    # Also before a night has used the entry, and on every night from then on.
    for _ in range(2):
        out, _err = (process := start(*words, source=second)).communicate()
        assert process.returncode == 1
        assert ": on the same inputs the output is another; if it is known too, give the entry another" in out
    assert start(*words, source=first).wait() == 0
    assert start(*words, source=second).wait() == 1
    again = filled(printed).replace("it is known", "it is known, and is another since")
    (workspace / "mine.yaml").write_text(again)
    assert start(*words, source=second).wait() == 0


def test_nothing_is_printed_for_a_run_in_which_nothing_failed(pipeline: Pipeline, last_run: LastRun) -> None:
    assert pipeline(*SMALL).code == 0
    outcome = pipeline("report", "excuses")
    assert (outcome.code, outcome.out) == (5, "")
    assert outcome.err == f"nothing failed in run {last_run().name}; name another run\n"


def test_a_rule_for_a_profile_is_not_about_a_users_tensors(
    pipeline: Pipeline, report: Report, last_run: LastRun, night: Path, cases: Path, workspace: Path
) -> None:
    words = (*FUSED, "--inputs", cases / "conv-pair-24x16-ties.npz")
    known = ("--matrix", night / "expected-inputs.yaml")
    assert pipeline(*words, *known).code == 0
    (case,) = report(last_run() / "junit.xml").values()
    assert case.kind == "passed"
    assert pipeline(*words, *known, *FAULT).code == 1
    ((job, case),) = report(last_run() / "junit.xml").items()
    assert (job, case.kind) == ("device/emu-a2a3/pair-24x16/fused/inputs", "failure")
    assert "expected" not in case.message
    # The entry for these tensors is about them, and is accepted.
    as_by_a_bug(last_run())
    printed = pipeline("report", "excuses").out
    assert printed.startswith(f"# Run {last_run().name} has --inputs {cases / 'conv-pair-24x16-ties.npz'}: ")
    (workspace / "mine.yaml").write_text(filled(printed))
    assert pipeline(*words, "--matrix", "mine.yaml", *FAULT).code == 0
    assert pipeline("run", "--failed", "last").code == 5
    assert pipeline(*SMALL, "--matrix", "mine.yaml").code == 0


@pytest.mark.thorough
@pytest.mark.parametrize(("day", "code"), [("2026-11-15", 0), ("2026-11-16", 1)])
def test_the_day_of_a_run_is_settled_once(
    day: str,
    code: int,
    pipeline: Pipeline,
    report: Report,
    last_run: LastRun,
    night: Path,
) -> None:
    """The days are those of the case: `until: 2026-11-15`."""
    known = ("--matrix", str(night / "expected-until.yaml"))

    def properties() -> Mapping[str, str]:
        (case,) = report(last_run() / "junit.xml").values()
        return case.properties  # type: ignore[no-any-return]

    assert pipeline(*SMALL, *known, *FAULT, "--date", day).code == code
    assert properties()["date"] == day
    explained = pipeline("list", *known, "--date", day, "--explain", OF_SMALL).out
    assert ("its failure is expected: until mid November" in explained) is (code == 0)
    # Without --date it is the local day on which the run began, also where the run is taken up later.
    assert main([*SMALL, *known, *FAULT, "--deadline", "0.0001"], lambda: date.fromisoformat(day)) == 2
    interrupted = last_run()
    assert main(["run", "--resume", "last"], lambda: date(2026, 12, 24)) == code
    assert last_run() == interrupted
    assert properties()["date"] == day
    assert f"date `{day}`" in (interrupted / "summary.md").read_text()
    if code:
        assert main(["run", "--failed", "last"], lambda: date(2026, 11, 1)) == code
        assert properties()["date"] == day
