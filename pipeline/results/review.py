"""Completes a job's result: judges performance, adds what its reader needs, excuses what is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.ground.jobs import (
    FINGERPRINT,
    NEW,
    QUEUED,
    RAN_IN,
    REPRODUCE,
    SINCE,
    Blame,
    Job,
    Result,
    State,
)
from pipeline.ground.settings import Settings
from pipeline.results.excuses import Earlier, Outputs, outputs_of, with_excuse
from pipeline.results.fingerprint import fingerprint
from pipeline.results.performance import References, judge
from pipeline.results.reproduce import command_line
from pipeline.run.folders import RunFolderError, read_run, run_ids
from pipeline.run.journal import JournalError, Record

DEPTH = 30
"""How many earlier runs are looked at."""


class History:
    """What the runs in the folder `root` say that had begun when this object was made.

    `current` is the id of the run that is being resumed, if any; of it only counts that it executed a job.
    Another journal is read only when an answer depends on it. Of runs that began after the run `before`, and
    of itself, nothing counts.
    """

    def __init__(self, root: Path, current: str = "", before: str = "") -> None:
        ids = [run_id for run_id in run_ids(root) if run_id != current and (not before or run_id < before)]
        self._root, self._current = root, current
        self._latest_first = ids[: -DEPTH - 1 : -1]
        self._read: dict[str, Mapping[str, _End]] = {}
        if current:
            self._run(current)  # as it was before it is resumed

    def since(self, job: str, fingerprint: str) -> str:
        """Id of the run since which a job has failed with this fingerprint, or `NEW` if its last did not.

        Runs without a result of the job are passed over.
        """
        first = NEW
        for run_id, then in self._ends(job, self._latest_first):
            if then.fingerprint != fingerprint:
                break
            first = run_id
        return first

    def excused(self, result: Result) -> Iterator[Earlier]:
        """The runs that say which failure of a job the entry of the matrix is about, the last first.

        They are those in which the same entry excused the job, then those before the entry was written in
        which the job failed with this fingerprint.
        """
        wanted, job = _entry(result), result.job.id
        for run_id, then in self._ends(job, self._latest_first):
            if then.excused and then.entry == wanted:
                yield Earlier(run_id, then.fingerprint, then.outputs)
        for run_id, then in self._ends(job, self._latest_first):
            if then.entry not in ((), wanted):
                return  # the reader of another entry's refusal wrote this one
            if not then.entry and then.fingerprint == result.facts[FINGERPRINT]:
                yield Earlier(run_id, then.fingerprint, then.outputs)

    def ran_in(self, job: Job, settings: Settings) -> str:
        """Id of the last run that executed a job, on the same backends; empty if it was skipped since.

        Runs with other settings of what is compared are passed over, and results that do not say whether the
        job could run: of a run that was stopped, of a host or device that failed.
        """
        for run_id, then in self._ends(job.id, filter(None, (self._current, *self._latest_first))):
            said = then.state not in (State.INTERRUPTED, State.INFRASTRUCTURE)
            if said and (then.backends, then.compared) == (_backends(job), settings.compared):
                return "" if then.state is State.SKIPPED else run_id
        return ""

    def failed_in(self, job: str, settings: Settings) -> str:
        """Id of the last run that judged a job, if the job failed there, whether that counted or not.

        Runs are passed over as by `ran_in`.
        """
        for run_id, then in self._ends(job, self._latest_first):
            judged = then.state not in (State.INTERRUPTED, State.INFRASTRUCTURE, State.SKIPPED)
            if judged and then.compared == settings.compared:
                return run_id if then.fingerprint else ""
        return ""

    def _ends(self, job: str, run_ids: Iterable[str]) -> Iterator[tuple[str, _End]]:
        """Those of the runs that have a result of a job, and how the job ended there."""
        for run_id in run_ids:
            if job in self._run(run_id):
                yield run_id, self._run(run_id)[job]

    def _run(self, run_id: str) -> Mapping[str, _End]:
        if run_id not in self._read:
            try:
                self._read[run_id] = _ends_of(read_run(self._root, run_id))
            except (RunFolderError, JournalError):
                self._read[run_id] = {}  # pruned meanwhile, or killed before it began
        return self._read[run_id]


@dataclass(frozen=True)
class _End:
    """How a job ended in an earlier run.

    The fingerprint is empty if it did not fail, and so are the outputs; `entry` is if no entry of the matrix
    expected it to fail, and `excused` says whether the entry applied.
    """

    state: State
    fingerprint: str
    entry: tuple[str, ...]
    excused: bool
    outputs: Outputs
    backends: tuple[str, ...]
    compared: tuple[object, ...]


def _ends_of(record: Record) -> Mapping[str, _End]:
    """How the jobs of a run ended; the rest of their results is not kept, because it is large."""
    compared = record.settings.compared
    return {
        job: _End(
            one.state,
            one.facts.get(FINGERPRINT, ""),
            _entry(one),
            one.state is State.EXPECTED_FAILURE,
            outputs_of(one.stages) if FINGERPRINT in one.facts else {},
            _backends(one.job),
            compared,
        )
        for job, one in record.results.items()
    }


def _entry(result: Result) -> tuple[str, ...]:
    """What identifies the entry that expects a job to fail; empty if there is none."""
    known = result.job.expected_failure
    return (known.reason, known.link, known.fingerprint or "") if known else ()


def _backends(job: Job) -> tuple[str, ...]:
    return tuple(platform.backend for platform in job.platforms)


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
