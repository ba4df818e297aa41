"""Brings a run into the history when it has ended. What goes wrong there is one line, and changes no run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from golden.errors import UserError
from pipeline.history.sources import of_folder
from pipeline.report.results import NAME
from pipeline.report.text import one_line
from pipeline.run.folders import began_at_all, run_ids


def record_run(
    place: str | Path, root: Path, run_id: str, tell: Callable[[str], object], **waiting: float
) -> None:
    """Write the run `run_id`, and those in `root` that the history lacks: their runner was killed, say.

    Runs that are older than all of the history are left out, unless it is empty: they were pruned from it.
    """
    try:
        # Imported here: a run that is asked nothing before it ends needs no SQLAlchemy before it ends.
        from pipeline.history.store import open_history

        with open_history(place, tell, **waiting) as history:
            known = history.run_ids()
            for run in run_ids(root):
                if run == run_id or (run not in known and run >= min(known, default="")):
                    try:
                        history.record(of_folder(root / run))
                    except UserError:
                        if run == run_id:
                            raise
    except KeyboardInterrupt:  # the run has ended and said how: its exit code stays
        _told(tell, "history: interrupted, it was not written", root / run_id)
    except Exception as error:
        said = str(error) if isinstance(error, UserError) else f"history: {type(error).__name__}: {error}"
        _told(tell, one_line(said), root / run_id)


def _told(tell: Callable[[str], object], said: str, run: Path) -> None:
    remedy = (
        f"a later run that can write the history brings it in, or `python -m pipeline history import {run}`"
    )
    if (run / NAME).exists():  # it is the last of the report's files
        kept = f"the report of run {run.name} is whole; {remedy}"
    elif began_at_all(run):
        # On a full disk it may lack the last results: those jobs then count as interrupted.
        kept = (
            f"the report of run {run.name} could not be written; what its journal has was kept, "
            f"a job that it lacks counts as interrupted; {remedy}"
        )
    else:
        kept = f"nothing of run {run.name} could be kept: make room, or name another --output"
    tell(f"{said}; {kept}")
