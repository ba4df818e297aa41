from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from golden.errors import UserError
from pipeline.ground.jobs import ExpectedFailure, Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import FINGERPRINT, NEW, Result
from pipeline.ground.settings import Settings
from pipeline.history.past import DEPTH, Folders, ends_of_folder
from pipeline.history.recall import past_of
from pipeline.history.sources import of_folder
from pipeline.history.store import open_history
from pipeline.results.review import History
from pipeline.run.folders import create_run, run_ids
from pipeline.run.journal import Journal
from pipeline.run.listener import RunInfo

NIGHT = datetime(2026, 3, 1, 4, tzinfo=timezone.utc)
EMULATED = Platform("emu", "emulator", "a2a3")
USUAL = Settings()


def job(name: str) -> Job:
    return Job(name, Lane.DEVICE, EMULATED, WorkloadName("conv-pair"), "mc62", {}, "fused", "small", 60.0)


class Nights:
    """Runs, a night each, made from what each job failed with; known by their folders or by a database."""

    def __init__(self, root: Path, place: Path | None) -> None:
        self.root, self.place = root, place
        self.count = 0

    def history(self, current: str = "") -> History:
        folders = Folders(self.root, current)
        before = ends_of_folder(self.root, current) if current else {}
        if self.place is None:
            return History(folders, current, before)
        with open_history(self.place) as history:
            for run_id in run_ids(self.root):
                with suppress(UserError):
                    history.record(of_folder(self.root / run_id))
        tonight = NIGHT + timedelta(days=self.count)
        return History(past_of(self.place, folders, tonight, pytest.fail), current, before)

    def run(
        self, expected: ExpectedFailure | None = None, state: State = State.MISMATCH, **fingerprints: str
    ) -> str:
        return self.ended(
            *(
                Result(replace(job(name), expected_failure=expected), state, facts={FINGERPRINT: kind})
                if kind
                else Result(replace(job(name), expected_failure=expected), State.PASSED)
                for name, kind in fingerprints.items()
            )
        )

    def ended(self, *results: Result, settings: Settings = USUAL) -> str:
        folder = create_run(self.root, NIGHT + timedelta(days=self.count))
        self.count += 1
        journal = Journal(folder.journal)
        plan = tuple(result.job for result in results)
        journal.run_started(RunInfo(folder.run_id, folder.path, plan, "", 1, settings=settings))
        for result in results:
            journal.job_finished(result)
        folder.close()
        return folder.run_id


@pytest.fixture(params=["folders", "database"])
def nights(request: pytest.FixtureRequest, tmp_path: Path) -> Nights:
    """What a run asks is answered alike with a database and without one."""
    return Nights(tmp_path, tmp_path / "history.sqlite" if request.param == "database" else None)


def test_a_failure_is_as_old_as_its_unbroken_row(nights: Nights) -> None:
    nights.run(a="old")
    nights.run(a="")
    first = nights.run(a="old")
    nights.run(a="old")
    assert nights.history().since("a", "old") == first


def test_another_fingerprint_or_a_pass_makes_it_new(nights: Nights) -> None:
    nights.run(a="old", b="old")
    nights.run(a="other", b="")
    history = nights.history()
    assert history.since("a", "old") == NEW
    assert history.since("b", "old") == NEW
    assert history.since("never seen", "old") == NEW


def test_runs_of_other_jobs_and_broken_ones_are_passed_over(nights: Nights) -> None:
    first = nights.run(a="old")
    nights.run(b="")
    broken = nights.run(a="")
    (nights.root / broken / "journal.jsonl").write_bytes(b"no journal\n")
    killed = nights.run(a="")
    (nights.root / killed / "journal.jsonl").unlink()
    assert nights.history().since("a", "old") == first


def test_a_resumed_run_is_no_history_of_its_own(nights: Nights) -> None:
    nights.run(a="")
    current = nights.run(a="old")
    assert nights.history(current).since("a", "old") == NEW


def test_a_run_that_begins_later_is_no_history(nights: Nights) -> None:
    first = nights.run(a="old")
    history = nights.history()
    nights.run(a="")
    assert history.since("a", "old") == first


def test_it_looks_back_so_far_and_no_farther(nights: Nights) -> None:
    ids = [nights.run(a="old") for _ in range(DEPTH + 2)]
    assert nights.history().since("a", "old") == ids[2]


def test_a_failure_was_last_excused_where_the_same_entry_excused_it(nights: Nights) -> None:
    link = "https://issues.example/1"
    mine, other = ExpectedFailure("mine", link), ExpectedFailure("other", link)
    first = nights.run(mine, State.EXPECTED_FAILURE, a="first")
    last = nights.run(mine, State.EXPECTED_FAILURE, a="second")
    nights.run(mine, State.EXPECTED_FAILURE, b="of another job")
    nights.run(other, State.EXPECTED_FAILURE, a="by another entry")
    nights.run(mine, State.MISMATCH, a="not excused")
    nights.run(None, State.MISMATCH, a="not expected")
    nights.run(mine, a="")

    def excused(expected: ExpectedFailure | None) -> list[tuple[str, str]]:
        wanted = replace(job("a"), expected_failure=expected)
        result = Result(wanted, State.MISMATCH, facts={FINGERPRINT: "tonight"})
        return [(each.run, each.fingerprint) for each in nights.history().excused(result)]

    assert excused(mine) == excused(replace(mine, cause="unwritten")) == [(last, "second"), (first, "first")]
    assert excused(replace(mine, reason="rewritten")) == []
    assert excused(replace(mine, fingerprint="written later")) == []


def test_what_an_entry_is_about_is_what_failed_before_it_was_written(nights: Nights) -> None:
    """The user saw that failure, and pasted the entry that it was given."""
    link = "https://issues.example/1"
    mine, next_one = (ExpectedFailure(reason, link, fingerprint="this") for reason in ("mine", "next"))
    nights.run(a="another")
    seen = nights.run(a="this")
    nights.run(mine, a="this")

    def told(expected: ExpectedFailure) -> list[str]:
        wanted = replace(job("a"), expected_failure=expected)
        result = Result(wanted, State.MISMATCH, facts={FINGERPRINT: "this"})
        return [each.run for each in nights.history().excused(result)]

    assert told(mine) == [seen]
    # The user who was told that the entry does not excuse the failure has written another.
    assert told(next_one) == []


@pytest.mark.parametrize("state", [State.PASSED, State.MISMATCH, State.CRASHED, State.NONDETERMINISTIC])
def test_a_job_was_executed_whatever_came_of_it(state: State, nights: Nights) -> None:
    nights.ended(Result(job("a"), State.PASSED))
    last = nights.ended(Result(job("a"), state))
    nights.ended(Result(job("b"), State.SKIPPED))
    history = nights.history()
    assert history.ran_in(job("a"), USUAL) == last
    assert history.ran_in(job("b"), USUAL) == history.ran_in(job("never seen"), USUAL) == ""


@pytest.mark.parametrize("state", [State.INTERRUPTED, State.INFRASTRUCTURE])
def test_a_night_that_does_not_say_whether_a_job_could_run_is_passed_over(
    state: State, nights: Nights
) -> None:
    first = nights.ended(Result(job("a"), State.PASSED))
    nights.ended(Result(job("a"), state))
    assert nights.history().ran_in(job("a"), USUAL) == first


def test_a_skip_that_was_accepted_is_no_longer_new(nights: Nights) -> None:
    nights.ended(Result(job("a"), State.PASSED))
    nights.ended(Result(job("a"), State.SKIPPED))
    assert nights.history().ran_in(job("a"), USUAL) == ""


@pytest.mark.parametrize(
    "other", [Settings(inject="unwritten"), Settings(inputs="/mine.npz"), Settings(stage="tile")]
)
def test_runs_of_other_data_faults_or_stages_say_nothing(other: Settings, nights: Nights) -> None:
    nights.ended(Result(job("a"), State.PASSED), settings=other)
    assert nights.history().ran_in(job("a"), USUAL) == ""
    assert nights.history().ran_in(job("a"), replace(other, repeat=3)) != ""


def test_a_platform_that_was_on_another_backend_then_says_nothing(nights: Nights) -> None:
    nights.ended(Result(job("a"), State.PASSED))
    moved = replace(job("a"), platform=Platform("emu", "pypto", "a2a3", devices=(1,)))
    assert nights.history().ran_in(moved, USUAL) == ""
