"""What the journals of earlier runs say; each journal is read only when an answer depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.ground.jobs import FINGERPRINT, NEW
from pipeline.run.folders import RunFolderError, read_run, run_ids
from pipeline.run.journal import JournalError

DEPTH = 30
"""How many earlier runs are looked at."""


class History:
    """The runs in a folder that had begun when this object was made.

    Args:
        root: folder that holds the run folders.
        current: id of the run that is being resumed, if any; it does not count as history.
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
