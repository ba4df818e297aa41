from __future__ import annotations

import pytest

from pipeline.jobs import State


def test_every_job_ends_with_the_result_its_process_wrote(run, make_job, watcher):
    jobs = [make_job("passes:hello"), make_job("ends_as:mismatch"), make_job("passes")]
    summary = run(*jobs)
    assert [result.job for result in summary.results] == jobs
    assert [result.state for result in summary.results] == [State.PASSED, State.MISMATCH, State.PASSED]
    assert summary.results[0].message == "hello"
    assert summary.exit_code == 1
    assert summary.problems == ()
    assert sorted(result.job.id for result in watcher.finished) == sorted(job.id for job in jobs)
    assert len(watcher.started) == 3
    assert watcher.summaries == [summary]


def test_hang_is_reported_with_every_stack_and_the_last_output(run, make_job):
    (result,) = run(make_job("hangs", timeout=0.5)).results
    assert result.state is State.TIMED_OUT
    assert "in hangs" in result.details
    assert "_wait_in_thread" in result.details
    assert result.output == "last words"
