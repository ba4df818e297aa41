"""`list`: the jobs of the matrix. It imports nothing that runs jobs, because it must answer at once."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from pipeline.commands.selection import read_matrix, select_jobs
from pipeline.ground.jobs import Lane
from pipeline.ground.words import unbroken
from pipeline.matrix.select import FilterError

_INSTEAD = {
    "faults": ("lists the faults of all programs", ()),
    "explain": ("is about one job", ("matrix", "date")),
    "plan": ("is about one job", ("matrix",)),
}
"""What can be asked of `list` instead of the jobs: what it does, and the other options that it heeds."""


def list_jobs(arguments: Namespace) -> int:
    """`list`: the selected jobs' ids, a line each; or where one comes from; or its plan; or all faults."""
    _refuse_unheeded(arguments)
    if arguments.faults:
        _write(_faults())
        return 0
    matrix = read_matrix(arguments.matrix)
    if arguments.plan:
        from pipeline.matrix.planned import plan_of

        lines = plan_of(matrix, arguments.plan)
    elif arguments.explain:
        from pipeline.matrix.explain import explain

        lines = explain(matrix, arguments.explain, arguments.day)
    else:
        lanes = [Lane(arguments.lane)] if arguments.lane else [Lane.COMPILE, Lane.DEVICE]
        lines = [job.id for job in select_jobs(matrix, lanes, arguments, arguments.day)[0]]
        if arguments.shards:
            lines = [_shards(min(arguments.shards, len(lines)), arguments)]
    _write(lines)
    return 0


def _refuse_unheeded(arguments: Namespace) -> None:
    """Raise `FilterError` if an option says nothing to what is asked instead of the jobs."""
    for asked, (does, heeded) in _INSTEAD.items():
        for name, value in vars(arguments).items() if getattr(arguments, asked) else ():
            if value and name not in ("command", "output", "day", asked, *heeded):
                raise FilterError(f"--{name} does not go with --{asked}, which {does}")


def _shards(count: int, arguments: Namespace) -> str:
    """The matrix of a CI: the number of each part, and its `--shard`; there are at most as many as jobs."""
    if arguments.shard:
        raise FilterError("--shards does not go with --shard, which is one of them")
    parts = [{"part": part, "shard": f"{part}/{count}"} for part in range(1, count + 1)]
    return json.dumps({"include": parts})


def _faults() -> list[str]:
    """Each fault's id, with what it does."""
    from workloads.faults import FAULTS

    longest = max(map(len, FAULTS))
    return [f"{fault.id:<{longest}}  {fault.what}" for fault in FAULTS.values()]


def _write(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{unbroken(line)}\n" for line in lines))
