"""Limits the artefacts that a run keeps: those of failures first, then those of the latest passes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pipeline.ground.jobs import Job
from pipeline.ground.results import OUTCOMES, Outcome, Result, StageResult


class _Kept(NamedTuple):
    """The bytes in the folder of a job, or of a probe, and whether they are of a failure."""

    whose: Job | Path
    size: int
    failed: bool


def relocated(result: Result, folder: Path, run_folder: Path) -> Result:
    """The result, with paths of artefacts relative to `run_folder` instead of to the job's `folder` in it."""
    if not result.files:
        return result

    home = folder.relative_to(run_folder)

    def place(artefact: str) -> str:
        path = home / artefact
        inside = path.is_absolute() and path.is_relative_to(run_folder)
        return str(path.relative_to(run_folder) if inside else path)

    def placed(stage: StageResult) -> StageResult:
        return replace(stage, artefacts=tuple(map(place, stage.artefacts))) if stage.artefacts else stage

    stages = tuple(map(placed, result.stages))
    return replace(result, artefacts=tuple(map(place, result.artefacts)), stages=stages)


def without_artefacts(result: Result) -> Result:
    """The result of a job whose files were removed."""
    stages = tuple(replace(stage, artefacts=()) for stage in result.stages)
    return replace(result, artefacts=(), stages=stages)


def _bytes_in(folder: str | Path) -> int:
    """The bytes of all files below a folder that can be seen; 0 if there is none."""
    total = 0
    # Each job asks this, so it makes no `Path`, and no system call more than there are folders and files.
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            inside = entry.is_dir(follow_symlinks=False)
            total += _bytes_in(entry.path) if inside else entry.stat(follow_symlinks=False).st_size
    return total


class Artefacts:
    """Counts the bytes in the folders of jobs and probes, and removes folders once they exceed a limit."""

    def __init__(self, folder_of: Callable[[Job], Path], limit: int) -> None:
        self._folder_of = folder_of
        self._limit = limit
        self._kept: dict[str, _Kept] = {}
        self._bytes = 0
        self.dropped: set[str] = set()
        """Ids of jobs whose folder was removed."""

    def admit(self, result: Result) -> Result:
        """Make room for a job's folder. Returns the result, without artefacts if they had to be removed."""
        failed = OUTCOMES[result.state].outcome in (Outcome.FAILURE, Outcome.ERROR)
        self._admit(result.job.id, result.job, failed)
        return self.final(result)

    def admit_probe(self, folder: Path) -> None:
        """Make room for what a probe left, as for a job that failed."""
        self._admit(str(folder), folder, failed=True)
        self.dropped.discard(str(folder))  # no job

    def _admit(self, name: str, whose: Job | Path, failed: bool) -> None:
        size = _bytes_in(self._folder(whose))
        before = self._kept.pop(name, None)
        self._bytes += size - (before.size if before is not None else 0)
        if size:
            self._kept[name] = _Kept(whose, size, failed)
        while self._bytes > self._limit:
            # Old passes go first, then the newest failure: the first failures of a run tell the most.
            passes = (one for one, kept in self._kept.items() if not kept.failed)
            gone = next(passes, name)
            removed = self._kept.pop(gone)
            self._bytes -= removed.size
            shutil.rmtree(self._folder(removed.whose), ignore_errors=True)
            self.dropped.add(gone)

    def _folder(self, whose: Job | Path) -> Path:
        return whose if isinstance(whose, Path) else self._folder_of(whose)

    def final(self, result: Result) -> Result:
        """The result; if its artefacts were removed, without them and with a fact that says so."""
        if result.job.id not in self.dropped or not result.files:
            return result
        note = f"removed, over the run's limit of {self._limit:,} bytes"
        return replace(without_artefacts(result), facts={**result.facts, "artefacts": note})
