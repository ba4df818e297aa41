"""`list`: the jobs of the matrix. It imports nothing that runs jobs, because it must answer at once."""

from __future__ import annotations

import sys
from argparse import Namespace
from datetime import date

from pipeline.commands.selection import read_matrix, select_jobs
from pipeline.ground.jobs import Lane
from pipeline.matrix.explain import explain


def list_jobs(arguments: Namespace) -> int:
    """`list`: the selected jobs' ids, a line each, or where one job comes from."""
    today = arguments.date or date.today()
    matrix = read_matrix(arguments.matrix)
    if arguments.explain:
        lines = [str(origin) for origin in explain(matrix, arguments.explain, today)]
    else:
        lanes = [Lane(arguments.lane)] if arguments.lane else [Lane.COMPILE, Lane.DEVICE]
        lines = [job.id for job in select_jobs(matrix, lanes, arguments, today)[0]]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
