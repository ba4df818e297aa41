from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from golden.errors import UserError
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import FINGERPRINT, KNOWN_IN, OUTCOMES, Diff, Outcome, Result, StageResult
from pipeline.ground.settings import Settings
from pipeline.history.named import located
from pipeline.history.store import open_history
from pipeline.report.cases import Attachments, cases_of
from pipeline.report.junit import write
from pipeline.report.results import results_of, write_results
from pipeline.results.baseline import Baseline, judged, known, read_baseline
from pipeline.results.excuses import Earlier, outputs_of
from pipeline.results.fingerprint import fingerprint
from pipeline.run.listener import RunInfo, RunSummary

NOWHERE = Path("/nowhere/history.sqlite")


def job(kernel: str = "fused") -> Job:
    platform = Platform("emu", "emulator", "a2a3")
    name = WorkloadName("conv-pair")
    return Job(f"device/emu/g/{kernel}/small", Lane.DEVICE, platform, name, "g", {}, kernel, "small", 60.0)


def failed(state: State, message: str = "why", **of: object) -> Result:
    """A result as `review` leaves it: with its fingerprint."""
    result = replace(Result(job(), state, message), **of)  # type: ignore[arg-type]
    return replace(result, facts={FINGERPRINT: fingerprint(result)})


def mismatch(actual: str, golden: str = "g", causes: tuple[str, ...] = ()) -> Result:
    hashes = (sha256(text.encode()).hexdigest() for text in (actual, golden))
    diff = Diff("y", (4,), 4, 1, 1, *hashes)
    stage = StageResult("fused", State.MISMATCH, diffs=(diff,), causes=causes)
    return failed(State.MISMATCH, "y differs", stages=(stage,), causes=causes)


def baseline_of(*results: Result) -> Baseline:
    failures = {
        one.job.id: Earlier("before", one.facts[FINGERPRINT], outputs_of(one.stages)) for one in results
    }
    return Baseline("before", failures)


COUNTED = [
    state for state, end in OUTCOMES.items() if end.exit_code == 1 and state is not State.UNEXPECTED_PASS
]


@pytest.mark.parametrize("state", COUNTED)
def test_what_fails_as_before_does_not_count(state: State) -> None:
    found = known(failed(state, "row 7"), baseline_of(failed(state, "row 12")))
    assert found.state is State.KNOWN_FAILURE
    assert OUTCOMES[found.state].exit_code == 0
    assert OUTCOMES[found.state].outcome is Outcome.SKIPPED  # it is not green either
    assert found.message == f"known, fails as in before: {state.value}: row 7"
    assert found.facts[KNOWN_IN] == "before"
    assert judged(found) == failed(state, "row 7")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (failed(State.CRASHED, "SIGSEGV"), failed(State.CRASHED, "SIGBUS")),
        (failed(State.CRASHED), failed(State.TIMED_OUT)),
        (failed(State.MISMATCH), replace(failed(State.MISMATCH), job=job("two-pass"))),
        (mismatch("a", causes=("one",)), mismatch("a", causes=("another",))),
        (mismatch("a"), mismatch("b")),  # the same inputs give another output
    ],
)
def test_what_fails_otherwise_is_new(before: Result, now: Result) -> None:
    assert known(now, baseline_of(before)) is now


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (mismatch("a"), mismatch("a")),
        (mismatch("a"), mismatch("b", golden="of other data")),
        (mismatch("a", causes=("one",)), mismatch("b", causes=("one",))),  # the cause says what it is
    ],
)
def test_an_output_decides_only_where_nothing_else_does(before: Result, now: Result) -> None:
    assert known(now, baseline_of(before)).state is State.KNOWN_FAILURE


@pytest.mark.parametrize("state", [State.INFRASTRUCTURE, State.INTERRUPTED])
def test_what_was_not_checked_is_never_known(state: State) -> None:
    now = failed(state)
    assert known(now, baseline_of(now)) is now


def test_a_stage_with_a_case_of_its_own_does_not_count_either(tmp_path: Path) -> None:
    now = replace(mismatch("a"), job=replace(job(), lane=Lane.COMPARE))
    own, stage = cases_of(known(now, baseline_of(now)), Attachments(tmp_path))
    assert (own.state, stage.state) == (State.KNOWN_FAILURE, State.KNOWN_FAILURE)
    assert stage.message.startswith("known, see the job: y: ")


def test_a_fault_that_is_gone_is_to_be_told_every_night() -> None:
    now = Result(job(), State.UNEXPECTED_PASS, "remove the entry")
    assert known(now, baseline_of(failed(State.MISMATCH))) is now


def test_without_a_baseline_everything_counts() -> None:
    now = failed(State.CRASHED)
    assert known(now, None) is now
    assert judged(now) is now


Written = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A JUnit file of results, with facts of their run."""

    def make(*results: Result, **facts: str) -> Path:
        path = tmp_path / "before.xml"
        write(path, results, {"run": "20260309-040000-0000000001", **facts}, Attachments(tmp_path))
        return path

    return make


@pytest.mark.parametrize("state", [State.MISMATCH, State.CRASHED])
def test_a_report_is_a_baseline(state: State, written: Written, tmp_path: Path) -> None:
    before = failed(state, "row 12 \ufffd")
    noisy = replace(before, output=f"{FINGERPRINT}=of the kernel's own")
    path = written(noisy, replace(noisy, job=job("two-pass"), state=State.PASSED, facts={}))
    found = read_baseline(located(str(path), tmp_path), tmp_path, NOWHERE, Settings())
    assert set(found.failures) == {job().id}
    assert known(failed(state, "row 7 \ufffd"), found).state is State.KNOWN_FAILURE
    assert known(failed(state, "column 7"), found).state is state


def test_what_a_baseline_did_not_count_is_known_in_the_next_night_too(
    written: Written, tmp_path: Path
) -> None:
    before = known(failed(State.CRASHED), baseline_of(failed(State.CRASHED)))
    found = read_baseline(str(written(before)), tmp_path, NOWHERE, Settings())
    assert known(failed(State.CRASHED), found).state is State.KNOWN_FAILURE


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        ({"inject": "bias-missing-1"}, Settings()),
        ({}, Settings(inject="bias-missing-1")),
        ({"stage": "tile"}, Settings()),
        ({}, Settings(inputs="/mine.npz")),
    ],
)
def test_a_run_that_tried_something_else_is_no_baseline(
    facts: dict[str, str], settings: Settings, written: Written, tmp_path: Path
) -> None:
    path = written(failed(State.CRASHED), **facts)
    with pytest.raises(UserError, match=r"--(inject|stage|inputs) was .* there and is .* here"):
        read_baseline(str(path), tmp_path, NOWHERE, settings)


def test_a_run_is_no_baseline_of_itself(tmp_path: Path) -> None:
    """Whatever it is read from: its report, one merged of it and others, the history."""
    run, other = "20260309-040000-0000000001", "20260309-040000-0000000002"
    merged = "20260309-040000-0000000003"
    place, whole = tmp_path / "history.sqlite", tmp_path / "whole.xml"
    write(whole, [failed(State.CRASHED)], {"run": f"{run}; {other}"}, Attachments(tmp_path))
    info = RunInfo(merged, tmp_path, (job(),), "", 1, {})
    results = results_of(info, RunSummary(merged, tmp_path, (failed(State.CRASHED),), 1, 1.0), (run, other))
    write_results(tmp_path / "whole.json", results)
    with open_history(place) as history:
        history.record(results)
    for name in (str(whole), str(tmp_path / "whole.json"), merged):
        for current in (run, other):
            with pytest.raises(UserError, match=f"holds run {current} itself; name an earlier run"):
                read_baseline(name, tmp_path, place, Settings(), current)
        assert read_baseline(name, tmp_path, place, Settings(), "20260309-040000-0000000004")


def test_a_baseline_that_is_not_there_is_one_line(tmp_path: Path, written: Written) -> None:
    missing = "20260310-040000-0000000001"
    for name, told in (
        ("last", "there is no run yet"),
        (missing, f"{missing}: is no run, file or folder here"),
        ("nowhere.xml", "nowhere.xml: is no run, file or folder here; name a run"),
    ):
        with pytest.raises(UserError, match=told) as refused:
            located(name, tmp_path)
        assert "\n" not in str(refused.value)
        assert refused.value.exit_code == 4
    (tmp_path / "other.xml").write_text("<testsuites tests='0' failures='0' errors='0'/>")
    with pytest.raises(UserError, match=r"other\.xml: does not say of which runs"):
        read_baseline(str(tmp_path / "other.xml"), tmp_path, NOWHERE, Settings())
    with pytest.raises(UserError, match="no run "):  # a folder that is none of a run
        read_baseline(str(tmp_path), tmp_path, NOWHERE, Settings())


def test_a_branch_is_its_last_run_wherever_that_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's folder is on another host; the history that both share knows failures and outputs."""
    place = tmp_path / "history.sqlite"
    nights = {
        "20260308-040000-0000000001": ("main", mismatch("first")),
        "20260309-040000-0000000001": ("main", mismatch("second")),
        "20260310-040000-0000000001": ("other", mismatch("third")),
    }
    with open_history(place) as history:
        for run, (branch, result) in nights.items():
            info = RunInfo(run, tmp_path, (result.job,), "", 1, {"branch": branch})
            history.record(results_of(info, RunSummary(run, tmp_path, (result,), 1, 1.0)))
    name = located("main", tmp_path, place)
    assert name == "20260309-040000-0000000001"
    found = read_baseline(name, tmp_path, place, Settings())
    assert known(mismatch("second"), found).state is State.KNOWN_FAILURE
    assert known(mismatch("first"), found).state is State.MISMATCH
    assert known(failed(State.CRASHED), found).state is State.CRASHED
    # A folder of that name is no run, and does not hide the branch.
    monkeypatch.chdir(tmp_path)
    for folder in ("main", "docs"):
        Path(folder).mkdir()
    assert located("main", tmp_path, place) == name
    with pytest.raises(UserError, match="docs: there is no run in this folder; the history has no"):
        located("docs", tmp_path, place)
    with pytest.raises(UserError, match="docs: there is no run in this folder; name a run"):
        located("docs", tmp_path)
    Path("main/results.json").write_text("{}")
    assert located("main", tmp_path, place) == str(tmp_path / "main")
    with pytest.raises(UserError, match="--inject was not given there and is bias-missing-1 here"):
        read_baseline(name, tmp_path, place, Settings(inject="bias-missing-1"))
    with pytest.raises(UserError, match=r"feature: is no run, .*; the history has no run or branch"):
        located("feature", tmp_path, place)
