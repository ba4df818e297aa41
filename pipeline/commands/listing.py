"""`list`: the jobs of the matrix. It imports nothing that runs jobs, because it must answer at once."""

from __future__ import annotations

import sys
from argparse import Namespace
from datetime import date

from pipeline.commands.selection import read_matrix, select_jobs
from pipeline.ground.jobs import Lane
from pipeline.matrix.select import FilterError


def list_jobs(arguments: Namespace) -> int:
    """`list`: the selected jobs' ids, a line each; or where one job comes from; or all faults."""
    if arguments.faults:
        _write(_faults(arguments))
        return 0
    today = arguments.date or date.today()
    matrix = read_matrix(arguments.matrix)
    if arguments.explain:
        from pipeline.matrix.explain import explain

        lines = explain(matrix, arguments.explain, today)
    else:
        lanes = [Lane(arguments.lane)] if arguments.lane else [Lane.COMPILE, Lane.DEVICE]
        lines = [job.id for job in select_jobs(matrix, lanes, arguments, today)[0]]
    _write(lines)
    return 0


def _faults(arguments: Namespace) -> list[str]:
    """Each fault's id, with what it does."""
    from workloads.faults import FAULTS

    for name, value in vars(arguments).items():
        if value and name not in ("command", "output", "faults"):
            raise FilterError(f"--{name} does not go with --faults, which lists the faults of all programs")
    longest = max(map(len, FAULTS))
    return [f"{fault.id:<{longest}}  {fault.what}" for fault in FAULTS.values()]


def _write(lines: list[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
