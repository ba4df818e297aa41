from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from pipeline.ground.jobs import FINGERPRINT, NEW, Job, Lane, Platform, Result, State, WorkloadName
from pipeline.results.review import DEPTH, History
from pipeline.run.folders import create_run
from pipeline.run.journal import Journal
from pipeline.run.listener import RunInfo

NIGHT = datetime(2026, 3, 1, 4, tzinfo=timezone.utc)
EMULATED = Platform("emu", "emulator", "a2a3")


def job(name: str) -> Job:
    return Job(name, Lane.DEVICE, EMULATED, WorkloadName("conv-pair"), "mc62", {}, "fused", "small", 60.0)


class Nights:
    """Runs, a night each, made from what each job failed with."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.count = 0

    def run(self, **fingerprints: str) -> str:
        folder = create_run(self.root, NIGHT + timedelta(days=self.count))
        self.count += 1
        journal = Journal(folder.journal)
        plan = tuple(job(name) for name in fingerprints)
        journal.run_started(RunInfo(folder.run_id, folder.path, plan, "", 1))
        for each in plan:
            kind = fingerprints[each.id]
            state = State.MISMATCH if kind else State.PASSED
            journal.job_finished(Result(each, state, facts={FINGERPRINT: kind} if kind else {}))
        folder.close()
        return folder.run_id


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


def test_a_failure_is_as_old_as_its_unbroken_row(nights: Nights) -> None:
    nights.run(a="old")
    nights.run(a="")
    first = nights.run(a="old")
    nights.run(a="old")
    assert History(nights.root).since("a", "old") == first


def test_another_fingerprint_or_a_pass_makes_it_new(nights: Nights) -> None:
    nights.run(a="old", b="old")
    nights.run(a="other", b="")
    history = History(nights.root)
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
    assert History(nights.root).since("a", "old") == first


def test_a_resumed_run_is_no_history_of_its_own(nights: Nights) -> None:
    nights.run(a="")
    current = nights.run(a="old")
    assert History(nights.root, current).since("a", "old") == NEW


def test_a_run_that_begins_later_is_no_history(nights: Nights) -> None:
    first = nights.run(a="old")
    history = History(nights.root)
    nights.run(a="")
    assert history.since("a", "old") == first


def test_it_looks_back_so_far_and_no_farther(nights: Nights) -> None:
    ids = [nights.run(a="old") for _ in range(DEPTH + 2)]
    assert History(nights.root).since("a", "old") == ids[2]
