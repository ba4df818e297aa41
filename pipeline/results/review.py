"""Completes a job's result: judges performance, adds what its reader needs, excuses what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from pipeline.ground.jobs import Job, State
from pipeline.ground.results import FINGERPRINT, NEW, QUEUED, RAN_IN, REPRODUCE, SINCE, Blame, Result
from pipeline.ground.settings import Settings
from pipeline.history.past import End, Past, backends_of, entry_of
from pipeline.results.excuses import Earlier, with_excuse
from pipeline.results.fingerprint import fingerprint
from pipeline.results.performance import References, judge
from pipeline.results.reproduce import command_line


class History:
    """What earlier runs say about a job.

    If a run is resumed, `current` is its id and `before` says how its jobs had ended: of it only counts that
    it executed a job.
    """

    def __init__(self, past: Past, current: str = "", before: Mapping[str, End] | None = None) -> None:
        self._past, self._current, self._before = past, current, before or {}

    def since(self, job: str, fingerprint: str) -> str:
        """Id of the run since which a job has failed with this fingerprint, or `NEW` if its last did not.

        Runs without a result of the job are passed over, and those in which it was skipped.
        """
        first = NEW
        for run_id, then in self._past.ends(job):
            if then.state is State.SKIPPED:
                continue
            if then.fingerprint != fingerprint:
                break
            first = run_id
        return first

    def excused(self, result: Result) -> Iterator[Earlier]:
        """The runs that say which failure of a job the entry of the matrix is about, the last first.

        They are those in which the same entry excused the job, then those before the entry was written in
        which the job failed with this fingerprint.
        """
        wanted = entry_of(result)
        ends = list(self._past.ends(result.job.id))
        for run_id, then in ends:
            if then.excused and then.entry == wanted:
                yield Earlier(run_id, then.fingerprint, then.outputs)
        for run_id, then in ends:
            if then.entry not in ((), wanted):
                return  # the reader of another entry's refusal wrote this one
            if not then.entry and then.fingerprint == result.facts[FINGERPRINT]:
                yield Earlier(run_id, then.fingerprint, then.outputs)

    def ran_in(self, job: Job, settings: Settings) -> str:
        """Id of the last run here that executed a job, on the same backends; empty if it was skipped since.

        Runs of other hosts and with other settings of what is compared are passed over, and results that do
        not say whether the job could run: of a run that was stopped, of a host or device that failed.
        """
        before = [(self._current, self._before[job.id])] if job.id in self._before else []
        for run_id, then in chain(before, self._past.ends(job.id)):
            said = then.here and then.state not in (State.INTERRUPTED, State.INFRASTRUCTURE)
            if said and (then.backends, then.compared) == (backends_of(job), settings.compared):
                return "" if then.state is State.SKIPPED else run_id
        return ""


def review(result: Result, references: References, history: History, settings: Settings) -> Result:
    """Judge the performance of a job that passed, and add to any other result what its reader needs.

    A job that cannot run now, though it ran before, is an infrastructure error unless the settings allow it.
    Then the job's expected failure is applied. `history` is that of the runs before this one.
    """
    result = _compared_with_the_last(judge(result, references, whole=settings.whole), history, settings)
    if result.state is State.SKIPPED or (result.state is State.PASSED and not result.job.expected_failure):
        return result
    facts = dict(result.facts)
    if result.state is not State.INTERRUPTED:  # its run is to be finished, see `with_resume`
        chosen = result.device if QUEUED not in facts else None
        facts[REPRODUCE] = command_line(result.job, settings, chosen)
    if kind := fingerprint(result):
        facts |= {FINGERPRINT: kind, SINCE: history.since(result.job.id, kind)}
    return with_excuse(replace(result, facts=facts), history.excused)


def _compared_with_the_last(result: Result, history: History, settings: Settings) -> Result:
    """Say of a job that is skipped now whether it ran before."""
    if result.state is not State.SKIPPED:
        return result
    if settings.inject and result.started:
        return result  # the fault to inject has no place in it: nothing is missing here
    run = history.ran_in(result.job, settings)
    if not run:
        return result
    message = f"ran in run {run}, cannot run now: {result.message}"
    result = replace(result, facts={**result.facts, RAN_IN: run}, message=message)
    if settings.allow_new_skips:
        return result
    message += "; --allow-new-skips accepts it"
    return replace(result, state=State.INFRASTRUCTURE, message=message, blames=Blame.HOST)
