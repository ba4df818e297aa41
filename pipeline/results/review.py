"""Completes a job's result: judges performance; adds a failure's kind, its first run and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pipeline.ground.jobs import FINGERPRINT, NEW, QUEUED, REPRODUCE, SINCE, Result, State
from pipeline.ground.settings import Settings
from pipeline.results.fingerprint import fingerprint
from pipeline.results.performance import References, judge
from pipeline.results.reproduce import command_line
from pipeline.run.folders import RunFolderError, read_run, run_ids
from pipeline.run.journal import JournalError

DEPTH = 30
"""How many earlier runs are looked at."""


class History:
    """What the runs in the folder `root` say that had begun when this object was made.

    `current` is the id of the run that is being resumed, if any; it does not count as history. A journal is
    read only when an answer depends on it.
    """

    def __init__(self, root: Path, current: str = "") -> None:
        ids = [run_id for run_id in run_ids(root) if run_id != current]
        self._root = root
        self._latest_first = ids[: -DEPTH - 1 : -1]
        self._read: dict[str, Mapping[str, str]] = {}

    def since(self, job: str, fingerprint: str) -> str:
        """Id of the run since which a job has failed with this fingerprint, or `NEW` if its last did not.

        Runs without a result of the job are passed over.
        """
        first = NEW
        for run_id in self._latest_first:
            found = self._fingerprints(run_id).get(job)
            if found is None:
                continue
            if found != fingerprint:
                break
            first = run_id
        return first

    def _fingerprints(self, run_id: str) -> Mapping[str, str]:
        """The fingerprint of each job that ended in a run; empty for one that did not fail."""
        if run_id not in self._read:
            try:
                results = read_run(self._root, run_id).results
            except (RunFolderError, JournalError):
                results = {}  # pruned meanwhile, or killed before it began
            self._read[run_id] = {job: one.facts.get(FINGERPRINT, "") for job, one in results.items()}
        return self._read[run_id]


def review(result: Result, references: References, history: History, settings: Settings) -> Result:
    """Judge the performance of a job that passed, and add to any other result what its reader needs.

    `history` is that of the runs before this one.
    """
    result = judge(result, references)
    if result.state is State.SKIPPED or (result.state is State.PASSED and not result.job.expected_failure):
        return result
    facts = dict(result.facts)
    if result.state is not State.INTERRUPTED:  # its run is to be finished, see `with_resume`
        chosen = result.device if QUEUED not in facts else None
        facts[REPRODUCE] = command_line(result.job, settings, chosen)
    if kind := fingerprint(result):
        facts |= {FINGERPRINT: kind, SINCE: history.since(result.job.id, kind)}
    return replace(result, facts=facts)
