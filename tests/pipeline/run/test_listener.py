from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pipeline.ground.jobs import Job
from pipeline.ground.results import Result
from pipeline.run.listener import Broadcast, RunInfo, RunSummary


class Fails:
    """A listener that can do nothing."""

    def run_started(self, run: RunInfo) -> None:
        raise OSError("no start")

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        raise OSError("no job")

    def remark(self, text: str) -> None:
        raise OSError("no remark")

    def job_finished(self, result: Result) -> None:
        raise OSError("no result")

    def run_finished(self, summary: RunSummary) -> None:
        raise OSError("no end")


class Remembers(Fails):
    """A listener that keeps the last event."""

    summary: RunSummary | None = None

    def run_finished(self, summary: RunSummary) -> None:
        self.summary = summary


def test_one_that_fails_does_not_stop_the_others_and_they_learn_of_it(tmp_path: Path) -> None:
    last = Remembers()
    everybody = Broadcast([Fails(), last])
    ended = RunSummary("r", tmp_path, (), 0, 1.0)
    everybody.tell(lambda one: one.run_finished(replace(ended, problems=tuple(everybody.problems))))
    assert everybody.problems == ["Fails failed: OSError: no end"]
    assert last.summary is not None
    assert last.summary.problems == ("Fails failed: OSError: no end",)


def test_the_same_failure_is_told_once(tmp_path: Path, make_job: Callable[..., Job]) -> None:
    everybody = Broadcast([Fails()])
    for _ in range(3):
        everybody.tell(lambda one: one.job_started(make_job(), None, 1))
    everybody.tell(lambda one: one.run_finished(RunSummary("r", tmp_path, (), 0, 1.0)))
    assert everybody.problems == ["Fails failed: OSError: no job", "Fails failed: OSError: no end"]


def test_events_that_are_kept_are_passed_on_in_their_order_whatever_happens() -> None:
    class Hears(Fails):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def remark(self, text: str) -> None:
            self.heard.append(text)

    hears = Hears()
    everybody = Broadcast([Fails(), hears])
    with suppress(KeyError), everybody.afterwards():
        everybody.remark("one")
        everybody.remark("two")
        assert not hears.heard
        raise KeyError
    everybody.remark("three")
    assert hears.heard == ["one", "two", "three"]
    assert everybody.problems == ["Fails failed: OSError: no remark"]
