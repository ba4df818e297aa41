"""Completes a job's result: judges performance; adds a failure's kind, its first run and how to repeat it."""

from __future__ import annotations

from dataclasses import replace

from pipeline.ground.jobs import FINGERPRINT, REPRODUCE, SINCE, Result, State
from pipeline.ground.settings import Settings
from pipeline.results.fingerprint import fingerprint
from pipeline.results.history import History
from pipeline.results.performance import References, judge
from pipeline.results.reproduce import command_line, interpreter


def review(result: Result, references: References, history: History, settings: Settings) -> Result:
    """Judge the performance of a job that passed, and add to any other result what its reader needs.

    Args:
        result: as the job's process gave it.
        references: of performance.
        history: of the runs before this one.
        settings: of the run.
    """
    result = judge(result, references)
    if result.state is State.SKIPPED or (result.state is State.PASSED and not result.job.expected_failure):
        return result
    facts = dict(result.facts)
    if result.state is not State.INTERRUPTED:  # its run is to be finished, see `with_resume`
        facts[REPRODUCE] = command_line(result.job, settings, interpreter())
    if kind := fingerprint(result):
        facts |= {FINGERPRINT: kind, SINCE: history.since(result.job.id, kind)}
    return replace(result, facts=facts)
