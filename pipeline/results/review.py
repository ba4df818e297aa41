"""Completes a job's result: judges performance, adds what its reader needs, excuses what is expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.ground.jobs import FINGERPRINT, NEW, REPRODUCE, SINCE, Result, State
from pipeline.ground.settings import Settings
from pipeline.results.excuses import Earlier, with_excuse
from pipeline.results.fingerprint import fingerprint
from pipeline.results.performance import References, judge
from pipeline.results.reproduce import command_line
from pipeline.run.folders import RunFolderError, read_run, run_ids
from pipeline.run.journal import JournalError

DEPTH = 30
"""How many earlier runs are looked at."""


@dataclass(frozen=True)
class _Ended:
    """How a job ended: its fingerprint (empty if it did not fail), and by what it was excused, if it was."""

    fingerprint: str
    excuse: tuple[str, ...]


def _excuse(result: Result) -> tuple[str, ...]:
    """What identifies the entry that expects a job to fail."""
    known = result.job.expected_failure
    return (known.reason, known.link) if known else ()


class History:
    """What the runs in the folder `root` say that had begun when this object was made.

    `current` is the id of the run that is being resumed, if any; it does not count as history. A journal is
    read only when an answer depends on it.
    """

    def __init__(self, root: Path, current: str = "") -> None:
        ids = [run_id for run_id in run_ids(root) if run_id != current]
        self._root = root
        self._latest_first = ids[: -DEPTH - 1 : -1]
        self._read: dict[str, Mapping[str, _Ended]] = {}

    def since(self, job: str, fingerprint: str) -> str:
        """Id of the run since which a job has failed with this fingerprint, or `NEW` if its last did not.

        Runs without a result of the job are passed over.
        """
        first = NEW
        for run_id in self._latest_first:
            found = self._ends(run_id).get(job)
            if found is None:
                continue
            if found.fingerprint != fingerprint:
                break
            first = run_id
        return first

    def excused(self, result: Result) -> Earlier | None:
        """The last run in which the same entry of the matrix excused the job, and the fingerprint there.

        None if there is no such run.
        """
        for run_id in self._latest_first:
            found = self._ends(run_id).get(result.job.id)
            if found and found.excuse == _excuse(result):
                return run_id, found.fingerprint
        return None

    def _ends(self, run_id: str) -> Mapping[str, _Ended]:
        """How each job of a run ended."""
        if run_id not in self._read:
            try:
                results = read_run(self._root, run_id).results
            except (RunFolderError, JournalError):
                results = {}  # pruned meanwhile, or killed before it began
            self._read[run_id] = {
                job: _Ended(
                    one.facts.get(FINGERPRINT, ""),
                    _excuse(one) if one.state is State.EXPECTED_FAILURE else (),
                )
                for job, one in results.items()
            }
        return self._read[run_id]


def review(result: Result, references: References, history: History, settings: Settings) -> Result:
    """Judge the performance of a job that passed, and add to any other result what its reader needs.

    Then the job's expected failure is applied. `history` is that of the runs before this one.
    """
    result = judge(result, references)
    if result.state is State.SKIPPED or (result.state is State.PASSED and not result.job.expected_failure):
        return result
    facts = dict(result.facts)
    if result.state is not State.INTERRUPTED:  # its run is to be finished, see `with_resume`
        facts[REPRODUCE] = command_line(result.job, settings)
    if kind := fingerprint(result):
        facts |= {FINGERPRINT: kind, SINCE: history.since(result.job.id, kind)}
    return with_excuse(replace(result, facts=facts), history.excused)
