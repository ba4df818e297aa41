"""Selects the jobs of a command: the matrix is expanded, filtered, sharded, put on a user's own tensors."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timezone
from pathlib import Path

from pipeline.ground.jobs import Job, Lane, Platform
from pipeline.ground.subject import subject_of
from pipeline.ground.words import unbroken
from pipeline.matrix.expand import COMPARED, expand, on_inputs, settled
from pipeline.matrix.load import load
from pipeline.matrix.pairing import pair_up, parse_engines
from pipeline.matrix.schema import Matrix
from pipeline.matrix.select import (
    EmptySelectionError,
    FilterError,
    Filters,
    division,
    parse_shard,
    select,
    take_shard,
)
from workloads.base import WorkloadError

BASE = Path("matrix.yaml")
"""The matrix that overlays are merged over."""


def read_matrix(overlays: Iterable[str | Path]) -> Matrix:
    """The matrix with these overlays. Raises `MatrixError`."""
    return load([BASE, *map(Path, overlays)])


def select_jobs(
    matrix: Matrix, lanes: Sequence[Lane], arguments: Namespace, today: date
) -> tuple[tuple[Job, ...], dict[str, str]]:
    """The jobs that are asked for, and the facts of a shard that a merge needs.

    Raises:
        EmptySelectionError: there is none.
        FilterError: an option does not go with another, or names what the matrix does not have.
    """
    engines = _engines(arguments, matrix)
    if list(lanes) == [Lane.COMPARE] and arguments.kernel and COMPARED not in arguments.kernel:
        raise EmptySelectionError(
            f"--kernel {' '.join(arguments.kernel)}: a job of the compare lane runs the programs of all "
            f"kernels, and its kernel is called `{COMPARED}`; leave --kernel out"
        )
    filters = Filters(
        geometries=tuple(arguments.geometry),
        platforms=tuple(engine.name for engine in engines) or tuple(arguments.platform),
        kernels=tuple(arguments.kernel),
        profiles=tuple(arguments.profile),
        ids=tuple(arguments.id),
    )
    jobs = select(expand(matrix, today), [Lane.DEVICE] if engines else lanes, filters)
    if getattr(arguments, "inputs", None):
        jobs = on_inputs(matrix, jobs, today)
    if engines:
        jobs = pair_up(jobs, *engines)
    facts = {}
    if arguments.shard:
        durations = _durations(arguments.output, today)
        facts = {"shard": arguments.shard, f"division.{arguments.command}": division(jobs, durations)}
        jobs = take_shard(jobs, parse_shard(arguments.shard), durations)
    # The seed of the night is settled once, so that all jobs of a run and of a replay agree on it.
    return tuple(settled(job, today) for job in jobs), facts


def _engines(arguments: Namespace, matrix: Matrix) -> tuple[Platform, ...]:
    """The two platforms to compare with each other, or none."""
    written = getattr(arguments, "engines", "")
    if not written:
        return ()
    for name in ("platform", "id", "stage"):
        if getattr(arguments, name):
            raise FilterError(f"--{name} does not go with --engines, which says what is compared and where")
    return parse_engines(written, matrix.platforms)


def check_inputs(plan: Sequence[Job], inputs: Path) -> None:
    """Raise `InputsError` if a user's tensors do not fit a job's geometry."""
    from golden.inputs import InputsError, load_inputs

    geometries = {job.geometry_name: job for job in plan}
    for name, job in geometries.items():
        try:
            subject = subject_of(job)
            load_inputs(inputs, subject.definition.specs(subject.geometry))
        except WorkloadError:
            continue  # its jobs say what is wrong
        except InputsError as error:
            if len(geometries) == 1:
                raise
            raise InputsError(f"{error}, in geometry {name}: choose the right one with --geometry") from error


def _durations(output: Path, today: date) -> Mapping[str, float]:
    """Seconds of each job in the last run that had it, for balancing shards.

    All shards of a night must be divided alike. Of a database that they share, the runs before the day count.
    """
    from pipeline.history.past import OFF, VARIABLE, Folders, place
    from pipeline.history.recall import past_of

    where = place(output, os.environ)
    shared = os.environ.get(VARIABLE, "") not in ("", OFF)
    now = datetime(*today.timetuple()[:3]) if shared else datetime.now(timezone.utc)
    measured = past_of(where, Folders(output.absolute() / "runs"), now, tell).measured()
    return {job: one.seconds for job, one in measured.items()}


def tell(line: str) -> None:
    """Say something about the history, which changes nothing about a run."""
    sys.stderr.write(f"{unbroken(line)}\n")
